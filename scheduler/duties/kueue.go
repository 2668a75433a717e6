package duties

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/scheduler/kueue"
)

var (
	kueueAnswers = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "kueue_answers_total", StabilityLevel: metrics.ALPHA,
		Help: "Answers to admission checks of Kueue, by outcome: ready, retry, unjudged (ready, but the fleet was not asked), conflict (the workload had changed; it is judged again), failed. It is 0 without kueue.",
	}, []string{"outcome"})
	kueuePass = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "kueue_pass_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time of a pass in which workloads of Kueue were judged, with the writes.",
		Buckets: metrics.ExponentialBuckets(0.01, 4, 7),
	})
	kueueLeft = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "paddock", Subsystem: "scheduler", Name: "kueue_workloads_left", StabilityLevel: metrics.ALPHA,
		Help: "Workloads that waited for an answer at the end of the last pass, because it had taken too long.",
	})
)

const (
	// kueueLook is the time between two looks whether the API server serves Kueue's objects.
	kueueLook = time.Minute
	// kueueQPS and kueueBurst limit the writes, so that a thousand workloads at once do not delay
	// the bindings of pods. They have a client of their own.
	kueueQPS, kueueBurst = 50, 100
)

// answerKueue answers admission checks of Kueue until the context ends. It waits until the API
// server serves Kueue's objects.
func answerKueue(ctx context.Context, handle fwk.Handle, nodes Nodes) {
	config := rest.CopyConfig(handle.KubeConfig())
	config.QPS, config.Burst = kueueQPS, kueueBurst
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Admission checks of Kueue are not answered: a client")
		return
	}
	version, ok := awaitKueue(ctx, handle.ClientSet().Discovery(), kueueLook)
	if !ok {
		return
	}
	objects, err := watchKueue(client, version)
	if err != nil { // Only an informer that has started returns one.
		klog.FromContext(ctx).Error(err, "Admission checks of Kueue are not answered")
		return
	}
	watching(ctx, kueue.New(objects.world(handle, nodes), nodes.Cluster.Ranking()).Pass, kueue.Period, objects.informers()...)
}

// awaitKueue returns the version of Kueue's objects that the API server serves. It is false if the
// context ends before. What it waits for is in the log once.
func awaitKueue(ctx context.Context, client discovery.DiscoveryInterface, look time.Duration) (version schema.GroupVersion, ok bool) {
	log, last := klog.FromContext(ctx), ""
	_ = wait.PollUntilContextCancel(ctx, look, true, func(context.Context) (bool, error) { // Its error is that of the context.
		why := "the API server does not serve workloads of " + kueue.Group + ": install Kueue"
		for _, v := range kueue.Versions() {
			gv := schema.GroupVersion{Group: kueue.Group, Version: v}
			list, err := client.ServerResourcesForGroupVersion(gv.String())
			if err != nil && !apierrors.IsNotFound(err) {
				why = err.Error()
				break
			}
			if err == nil && serves(list, "workloads") {
				version, ok = gv, true
				log.Info("Admission checks of Kueue are answered", "version", gv.String(), "controllerName", kueue.Controller)
				return true, nil
			}
		}
		if why != last {
			log.Info("Admission checks of Kueue are not answered yet", "reason", why, "nextLook", look.String())
		}
		last = why
		return false, nil
	})
	return version, ok
}

func serves(list *metav1.APIResourceList, resource string) bool {
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return true
		}
	}
	return false
}

// kueueObjects are informers of Kueue's objects, which keep only what matters.
type kueueObjects struct {
	client                       dynamic.Interface
	version                      schema.GroupVersion
	workloads, checks, resources cache.SharedIndexInformer
}

// slimCheck and slimFlavor have what matters of an AdmissionCheck and of a ResourceFlavor.
type (
	slimCheck struct {
		metav1.ObjectMeta
		mine, active bool
	}
	slimFlavor struct {
		metav1.ObjectMeta
		kueue.Flavor
	}
)

func watchKueue(client dynamic.Interface, version schema.GroupVersion) (*kueueObjects, error) {
	o := &kueueObjects{client: client, version: version}
	for _, i := range []struct {
		to       *cache.SharedIndexInformer
		resource string
		slim     func(*unstructured.Unstructured) any
	}{
		{&o.workloads, "workloads", func(u *unstructured.Unstructured) any { return kueue.Read(u) }},
		{&o.checks, "admissionchecks", readCheck},
		{&o.resources, "resourceflavors", readFlavor},
	} {
		*i.to = dynamicinformer.NewFilteredDynamicInformer(client, version.WithResource(i.resource), metav1.NamespaceAll, 0, nil, nil).Informer()
		err := (*i.to).SetTransform(func(object any) (any, error) {
			if u, is := object.(*unstructured.Unstructured); is {
				return i.slim(u), nil
			}
			return object, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *kueueObjects) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{o.workloads, o.checks, o.resources}
}

func named(u *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(), DeletionTimestamp: u.GetDeletionTimestamp()}
}

func readCheck(u *unstructured.Unstructured) any {
	c := &slimCheck{ObjectMeta: named(u)}
	controller, _, _ := unstructured.NestedString(u.Object, "spec", "controllerName") // Empty if it has another form.
	c.mine = controller == kueue.Controller
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range conditions {
		fields, _ := one.(map[string]any)
		c.active = c.active || fields["type"] == "Active" && fields["status"] == string(metav1.ConditionTrue)
	}
	return c
}

func readFlavor(u *unstructured.Unstructured) any {
	f := &slimFlavor{ObjectMeta: named(u)}
	var spec struct {
		Spec struct {
			NodeLabels  map[string]string `json:"nodeLabels"`
			Tolerations []v1.Toleration   `json:"tolerations"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &spec); err != nil {
		return f // A flavor of another form adds nothing.
	}
	f.NodeLabels, f.Tolerations = spec.Spec.NodeLabels, spec.Spec.Tolerations
	return f
}

// world returns the world of package kueue.
func (o *kueueObjects) world(handle fwk.Handle, nodes Nodes) kueue.World {
	core, log := handle.SharedInformerFactory().Core().V1(), klog.Background()
	nodeLister, podLister := core.Nodes().Lister(), core.Pods().Lister()
	w := o.objects()
	w.Now, w.At, w.Awaited, w.Gates = time.Now, nodes.Cluster.After, nodes.Awaited, nodes.Cluster.Gates
	w.Nodes = func() []*v1.Node {
		list, err := nodeLister.List(labels.Everything())
		if err != nil { // A lister of an index has no errors.
			log.Error(err, "nodes")
		}
		return list
	}
	w.Pods = func() []*v1.Pod {
		list, err := podLister.List(labels.Everything())
		if err != nil {
			log.Error(err, "pods")
		}
		return list
	}
	w.Note = func(l *kueue.Workload, text string) {
		at := &v1.ObjectReference{APIVersion: l.APIVersion, Kind: "Workload", Namespace: l.Namespace, Name: l.Name, UID: l.UID, ResourceVersion: l.ResourceVersion}
		handle.EventRecorder().Eventf(at, nil, v1.EventTypeWarning, "DoesNotFitTogether", "Judging", "%s", kueue.Shortened(text, maxNote))
	}
	w.Count = func(outcome string) { kueueAnswers.WithLabelValues(outcome).Inc() }
	w.Passed = func(took time.Duration, left int) {
		kueuePass.Observe(took.Seconds())
		kueueLeft.Set(float64(left))
	}
	return w
}

// maxNote is the largest number of bytes of the note of an event.
const maxNote = 1024

// objects returns the part of the world that is about Kueue's objects.
func (o *kueueObjects) objects() kueue.World {
	return kueue.World{
		Checks: func() map[string]bool {
			mine := map[string]bool{}
			for _, c := range stored[*slimCheck](o.checks) {
				if c.mine && c.DeletionTimestamp == nil {
					mine[c.Name] = c.active
				}
			}
			return mine
		},
		Activate:  o.activate,
		Workloads: func() []*kueue.Workload { return stored[*kueue.Workload](o.workloads) },
		Flavor: func(name string) *kueue.Flavor {
			object, _, _ := o.resources.GetStore().GetByKey(name) // Its error is that of an index that computes.
			if f, is := object.(*slimFlavor); is {
				return &f.Flavor
			}
			return nil
		},
		Patch: func(ctx context.Context, l *kueue.Workload, patch []byte) error {
			_, err := o.client.Resource(o.version.WithResource("workloads")).Namespace(l.Namespace).
				Patch(ctx, l.Name, "application/merge-patch+json", patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
			return err
		},
	}
}

// fieldManager is the manager of the fields that are written to Kueue's objects.
const fieldManager = "paddock-fleet-check"

// activate sets the condition Active of an AdmissionCheck. Kueue admits nothing to a queue with a
// check that is not active.
func (o *kueueObjects) activate(ctx context.Context, name string, now time.Time) error {
	client := o.client.Resource(o.version.WithResource("admissionchecks"))
	u, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &status); err != nil {
		return fmt.Errorf("conditions of AdmissionCheck %s: %w", name, err)
	}
	changed := meta.SetStatusCondition(&status.Status.Conditions, metav1.Condition{
		Type: "Active", Status: metav1.ConditionTrue, Reason: "Active", Message: "paddock-scheduler answers this check",
		ObservedGeneration: u.GetGeneration(), LastTransitionTime: metav1.NewTime(now),
	})
	if !changed {
		return nil
	}
	patched, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	patched["metadata"] = map[string]any{"resourceVersion": u.GetResourceVersion()}
	data, err := json.Marshal(patched)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, name, "application/merge-patch+json", data, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}
