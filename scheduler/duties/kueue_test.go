package duties

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/scheduler/kueue"
)

func object(version, kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kueue.Group + "/" + version, "kind": kind, "metadata": map[string]any{"name": name, "uid": "uid-" + name, "resourceVersion": "1"}}}
	if kind == "Workload" {
		o.SetNamespace("team")
	}
	for key, value := range fields {
		o.Object[key] = value
	}
	return o
}

// watched returns Kueue's objects on a fake API, and its client.
func watched(t *testing.T, version string, objects ...runtime.Object) (*kueueObjects, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	gv := schema.GroupVersion{Group: kueue.Group, Version: version}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		gv.WithResource("workloads"): "WorkloadList", gv.WithResource("admissionchecks"): "AdmissionCheckList", gv.WithResource("resourceflavors"): "ResourceFlavorList",
	}, objects...)
	o, err := watchKueue(client, gv)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range o.informers() {
		go i.RunWithContext(t.Context())
		if !cache.WaitForCacheSync(t.Context().Done(), i.HasSynced) {
			t.Fatal("an informer does not start")
		}
	}
	return o, client
}

// TestKueueObjects checks what is read of Kueue's objects and written to them, in both versions.
func TestKueueObjects(t *testing.T) {
	for _, version := range kueue.Versions() {
		status := map[string]any{
			"conditions": []any{map[string]any{"type": "QuotaReserved", "status": "True"}},
			"admission":  map[string]any{"podSetAssignments": []any{map[string]any{"name": "main", "count": int64(2), "flavors": map[string]any{"cpu": "gpus"}}}},
			"admissionChecks": []any{
				map[string]any{"name": "other", "state": "Ready", "message": "kept", "podSetUpdates": []any{map[string]any{"name": "main", "nodeSelector": map[string]any{"pool": "a"}}}},
				map[string]any{"name": "fleet", "state": "Pending", "retryCount": int64(3), "requeueAfterSeconds": int64(9)},
			},
		}
		template := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}}}
		o, client := watched(t, version,
			object(version, "Workload", "job", map[string]any{"spec": map[string]any{"podSets": []any{map[string]any{"name": "main", "count": int64(2), "template": template}}}, "status": status}),
			object(version, "AdmissionCheck", "fleet", map[string]any{"spec": map[string]any{"controllerName": kueue.Controller}}),
			object(version, "AdmissionCheck", "other", map[string]any{"spec": map[string]any{"controllerName": "example.com/other"}}),
			object(version, "ResourceFlavor", "gpus", map[string]any{"spec": map[string]any{"nodeLabels": map[string]any{"gpu": "yes"}, "tolerations": []any{map[string]any{"key": "gpu", "operator": "Exists"}}}}),
			object(version, "ResourceFlavor", "odd", map[string]any{"spec": map[string]any{"nodeLabels": "none"}}),
		)
		w := o.objects()
		if checks := w.Checks(); len(checks) != 1 || checks["fleet"] {
			t.Errorf("%s: checks %v, want fleet, which is not active", version, checks)
		}
		if f := w.Flavor("gpus"); f == nil || f.NodeLabels["gpu"] != "yes" || len(f.Tolerations) != 1 || w.Flavor("odd") == nil || w.Flavor("none") != nil {
			t.Errorf("%s: flavor %+v", version, f)
		}
		l := w.Workloads()[0]
		if l.Flaw != "" || len(l.PodSets) != 1 || l.PodSets[0].Count != 2 || len(l.Checks) != 2 || l.Checks[1].Retries != 3 {
			t.Errorf("%s: workload %+v", version, l)
		}
		now := time.Unix(1e9, 0)
		if err := w.Activate(t.Context(), "fleet", now); err != nil {
			t.Fatal(err)
		}
		patch, err := l.Patch(map[string]bool{"fleet": true}, kueue.Answer{State: kueue.Retry, Message: "no room", After: time.Minute}, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Patch(t.Context(), l, patch); err != nil {
			t.Fatal(err)
		}
		written(t, client, o.version)
	}
}

// written checks the objects after TestKueueObjects has written them.
func written(t *testing.T, client *dynamicfake.FakeDynamicClient, version schema.GroupVersion) {
	t.Helper()
	get := func(resource, namespace, name string) *unstructured.Unstructured {
		o, err := client.Resource(version.WithResource(resource)).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	checks, _, _ := unstructured.NestedSlice(get("workloads", "team", "job").Object, "status", "admissionChecks")
	if len(checks) != 2 {
		t.Fatalf("checks %v", checks)
	}
	other, mine := checks[0].(map[string]any), checks[1].(map[string]any)
	if other["message"] != "kept" || other["podSetUpdates"] == nil {
		t.Errorf("another check has changed: %v", other)
	}
	if mine["state"] != "Retry" || mine["message"] != "no room" || mine["requeueAfterSeconds"] != int64(60) || mine["retryCount"] != int64(3) || mine["lastTransitionTime"] != "2001-09-09T01:46:40Z" {
		t.Errorf("the check is %v", mine)
	}
	if c, _ := readCheck(get("admissionchecks", "", "fleet")).(*slimCheck); !c.active || !c.mine {
		t.Errorf("the AdmissionCheck is not active: %+v", c)
	}
}

// TestKueueConflict checks that the errors of the API server are passed on, so that a conflict is
// recognised, and that a check that is active is not written.
func TestKueueConflict(t *testing.T) {
	active := map[string]any{"spec": map[string]any{"controllerName": kueue.Controller}, "status": map[string]any{"conditions": []any{
		map[string]any{"type": "Active", "status": "True", "reason": "Active", "message": "paddock-scheduler answers this check", "lastTransitionTime": "2001-09-09T01:46:40Z"},
	}}}
	o, client := watched(t, "v1beta2", object("v1beta2", "Workload", "job", nil), object("v1beta2", "AdmissionCheck", "fleet", active))
	client.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), "job", errors.New("changed"))
	})
	w := o.objects()
	if err := w.Patch(t.Context(), w.Workloads()[0], []byte("{}")); !apierrors.IsConflict(err) {
		t.Errorf("error %v", err)
	}
	if err := w.Activate(t.Context(), "fleet", time.Now()); err != nil {
		t.Errorf("an active check is written: %v", err)
	}
	if err := w.Activate(t.Context(), "gone", time.Now()); !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
}

// TestAwaitKueue checks that without Kueue's objects nothing starts, that a look comes once a
// minute, and that the newer version is preferred.
func TestAwaitKueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fake.FakeDiscovery{Fake: &clienttesting.Fake{}}
		looks := 0
		client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			looks++
			return false, nil, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer cancel()
		if _, ok := awaitKueue(ctx, client, kueueLook); ok || looks != 2*6 {
			t.Errorf("found: %t, after %d questions about two versions in five minutes", ok, looks)
		}
		serve := func(version, resource string) {
			client.Resources = append(client.Resources, &metav1.APIResourceList{GroupVersion: kueue.Group + "/" + version, APIResources: []metav1.APIResource{{Name: resource}}})
		}
		serve("v1beta1", "workloads")
		if v, _ := awaitKueue(t.Context(), client, kueueLook); v.Version != "v1beta1" {
			t.Errorf("version %s", v)
		}
		serve("v1beta2", "workloads")
		if v, _ := awaitKueue(t.Context(), client, kueueLook); v.String() != strings.Join([]string{kueue.Group, "v1beta2"}, "/") {
			t.Errorf("version %s", v)
		}
	})
}
