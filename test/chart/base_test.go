package chart

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// helmOnly removes what only Helm adds: its labels, and the checksum that makes it replace pods
// after a change of the configuration.
func helmOnly(kind string, o map[string]any) {
	drop(inner(o, "metadata"), "labels", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
	constant(kind, o)
}

// constant removes what changes with every change of a configuration: its checksum.
func constant(_ string, o map[string]any) {
	drop(inner(inner(inner(o, "spec"), "template"), "metadata"), "annotations", "checksum/config")
}

// inner returns a member that is an object, or nil if there is none.
func inner(o map[string]any, name string) map[string]any {
	m, _ := o[name].(map[string]any)
	return m
}

// drop removes members of a map, and the map itself if it is empty then.
func drop(of map[string]any, field string, members ...string) {
	m, has := of[field].(map[string]any)
	if !has {
		return
	}
	for _, name := range members {
		delete(m, name)
	}
	if len(m) == 0 {
		delete(of, field)
	}
}

// kustomized returns what "kubectl apply -k" sends for a directory.
func kustomized(t *testing.T, dir string) objects {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, string(text))
}

// TestDefaultsAreTheBase checks that the chart with its defaults installs the same objects as
// deploy/base, except that it also observes nodes without a label. Helm creates the namespace with --create-namespace, before the release.
// deploy/README.md labels it.
func TestDefaultsAreTheBase(t *testing.T) {
	want := kustomized(t, base)
	if len(want.of("Namespace")) != 1 || len(want) != 17 {
		t.Fatalf("the base has %d objects: want one namespace and sixteen others", len(want))
	}
	delete(want, "Namespace "+namespace)
	// kubectl does not know whether this is a new installation.
	values := map[string]any{"tests": map[string]any{"enabled": false}, "observe": map[string]any{"unlabelledNodes": false}}
	got, _ := rendered(t, values)
	if diff := cmp.Diff(want.text(t, helmOnly), got.text(t, helmOnly)); diff != "" {
		t.Errorf("- deploy/base\n+ deploy/chart\n%s", diff)
	}
}

// hashed matches the name of the scheduler's ConfigMap in the kustomization.
var hashed = regexp.MustCompile(`paddock-scheduler-config-[a-z0-9]{10}\b`)

// TestSchedulerIsTheKustomization checks that the chart with the scheduler enabled has the objects
// of deploy/scheduler besides those of its defaults, each in its namespace.
func TestSchedulerIsTheKustomization(t *testing.T) {
	want := objects{}
	for key, object := range kustomized(t, beside) {
		want[hashed.ReplaceAllString(key, "paddock-scheduler-config")] = hashed.ReplaceAll(object, []byte("paddock-scheduler-config"))
	}
	if len(want) != 11 {
		t.Errorf("deploy/scheduler has %d objects: want eleven", len(want))
	}
	defaults, _ := rendered(t, nil)
	got, _ := rendered(t, map[string]any{"scheduler": map[string]any{"enabled": true}})
	for key := range defaults {
		delete(got, key)
	}
	if diff := cmp.Diff(want.text(t, helmOnly), got.text(t, helmOnly)); diff != "" {
		t.Errorf("- deploy/scheduler\n+ deploy/chart\n%s", diff)
	}
	if binding := as[rbacv1.RoleBinding](t, want, "RoleBinding paddock-scheduler-authentication"); binding.Namespace != "kube-system" {
		t.Errorf("the RoleBinding is in %q", binding.Namespace)
	}
}

// TestQuietIsTheKustomization checks that the chart with paddock quiet enabled has the objects of
// deploy/quiet besides those of its defaults, and that its capabilities follow its settings.
func TestQuietIsTheKustomization(t *testing.T) {
	want := kustomized(t, "../../deploy/quiet")
	if len(want) != 5 {
		t.Errorf("deploy/quiet has %d objects: want five", len(want))
	}
	defaults, _ := rendered(t, nil)
	got, _ := rendered(t, map[string]any{"quiet": map[string]any{"enabled": true}})
	for key := range defaults {
		delete(got, key)
	}
	// The order of the fields and the comments are not those of deploy/quiet.
	config := func(all objects) (c any) {
		if err := yaml.Unmarshal([]byte(as[v1.ConfigMap](t, all, "ConfigMap paddock-quiet").Data["quiet.yaml"]), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if diff := cmp.Diff(config(want), config(got)); diff != "" {
		t.Errorf("- deploy/quiet\n+ deploy/chart\n%s", diff)
	}
	delete(want, "ConfigMap paddock-quiet")
	delete(got, "ConfigMap paddock-quiet")
	if diff := cmp.Diff(want.text(t, helmOnly), got.text(t, helmOnly)); diff != "" {
		t.Errorf("- deploy/quiet\n+ deploy/chart\n%s", diff)
	}
	for settings, want := range map[string]string{
		"{partition: \"off\"}": "[DAC_OVERRIDE NET_ADMIN]", "{receiveQueues: \"off\"}": "[DAC_OVERRIDE SYS_ADMIN]", "{caches: \"off\"}": "[NET_ADMIN SYS_ADMIN]",
		"{partition: \"off\", receiveQueues: \"off\", caches: \"off\"}": "[]",
	} {
		var quiet map[string]any
		if err := yaml.Unmarshal([]byte("quiet: {enabled: true, config: {quiet: "+settings+"}}"), &quiet); err != nil {
			t.Fatal(err)
		}
		all, _ := rendered(t, quiet)
		set := as[appsv1.DaemonSet](t, all, "DaemonSet paddock-quiet")
		if got := fmt.Sprint(set.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add); got != want {
			t.Errorf("%s: capabilities %s, want %s", settings, got, want)
		}
		if pod := set.Spec.Template.Spec; pod.HostPID == strings.Contains(settings, "caches") {
			t.Errorf("%s: hostPID is %t", settings, pod.HostPID)
		}
	}
}

// TestSchedulerConfig checks that the chart and the kustomization configure the scheduler equally.
// If it is the only scheduler, it uses the Lease of kube-scheduler.
func TestSchedulerConfig(t *testing.T) {
	of := func(file string) (c schedulerConfig) {
		all, _ := rendered(t, values(t, file))
		if err := yaml.Unmarshal([]byte(as[v1.ConfigMap](t, all, "ConfigMap paddock-scheduler-config").Data["config.yaml"]), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := of("scheduler.yaml"); c.LeaderElection.ResourceNamespace != namespace || c.Profiles[0].SchedulerName != "paddock-scheduler" || c.ClientConnection.QPS != 200 {
		t.Errorf("beside another scheduler: %+v", c)
	}
	c := of("only-scheduler.yaml")
	if e := c.LeaderElection; e.ResourceNamespace != "kube-system" || e.ResourceName != "kube-scheduler" || !e.LeaderElect || c.Profiles[0].SchedulerName != "default-scheduler" {
		t.Errorf("as the only scheduler: %+v", c)
	}
}

type schedulerConfig struct {
	LeaderElection struct {
		LeaderElect                     bool
		ResourceNamespace, ResourceName string
	}
	ClientConnection struct{ QPS int }
	Profiles         []struct{ SchedulerName string }
}

func TestLint(t *testing.T) {
	for _, m := range lint.RunAll(directory, map[string]any{}, namespace).Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}
