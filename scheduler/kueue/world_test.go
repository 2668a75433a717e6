package kueue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// world is a cluster of nodes with two NUMA nodes of 8 CPUs each, of which CPU 0 is reserved, under
// the policy single-numa-node. A node with n CPUs of others has them on NUMA node 0.
type world struct {
	t         testing.TB
	now       time.Time
	kind      *clustertest.Kind
	ranking   *fleet.Ranking
	nodes     []*v1.Node
	at        map[string]*cluster.At
	pods      []*v1.Pod
	workloads map[string]*unstructured.Unstructured
	flavors   map[string]*Flavor
	version   int
	// stale are workloads as an informer that is late still shows them.
	stale map[string]*Workload
	// each makes the clock go on with every write.
	each     time.Duration
	failing  error
	notes    []string
	outcomes map[string]int
	left     int
	active   bool
	// inactive is the error with which a check cannot be marked as active, and activations counts
	// the tries.
	inactive    error
	activations int
}

func newWorld(t testing.TB, nodes int) *world {
	w := &world{
		t: t, now: time.Unix(1e9, 0).UTC(), kind: clustertest.New(t, 8), ranking: fleet.NewRanking(fleet.LeastStranded, nil), at: map[string]*cluster.At{},
		workloads: map[string]*unstructured.Unstructured{}, flavors: map[string]*Flavor{"default": {}}, stale: map[string]*Workload{}, outcomes: map[string]int{},
	}
	view := w.ranking.View(fleet.Node{State: w.kind.State})
	for i := range nodes {
		o, _ := w.kind.Node(fmt.Sprintf("n%d", i+1))
		o.Labels["rack"] = fmt.Sprint("r", i/2+1)
		w.nodes = append(w.nodes, o)
		own := *view
		own.Name = o.Name
		w.at[o.Name] = &cluster.At{View: memo.Of(&own)}
	}
	return w
}

// bind binds a pod with exclusive CPUs to a node, as part of a pod set of a workload.
func (w *world) bind(node, name string, cpus int64, workload, podSet string) {
	w.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Annotations: map[string]string{}, Labels: map[string]string{podSetLabel: podSet}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Resources: requirements(cpus)}}},
	}
	if workload != "" {
		pod.Annotations[workloadAnnotation] = workload
	}
	read, _, err := read(podspec.Default(pod, w.gates()[0]), w.gates())
	if err != nil {
		w.t.Fatal(err)
	}
	next, plan, err := w.at[node].View.Place(read)
	if err != nil || plan.Rejection != nil {
		w.t.Fatal(err, plan.Rejection)
	}
	w.at[node] = &cluster.At{View: next}
	w.pods = append(w.pods, pod)
}

func requirements(cpus int64) v1.ResourceRequirements {
	list := v1.ResourceList{"cpu": *resource.NewQuantity(cpus, resource.DecimalSI), "memory": resource.MustParse("1Gi")}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func (w *world) gates() []podspec.Gates {
	return []podspec.Gates{podspec.GatesOf(w.kind.State.Policy())}
}

func (w *world) world() World {
	return World{
		Now:    func() time.Time { return w.now },
		Checks: func() map[string]bool { return map[string]bool{"fleet": w.active} },
		Activate: func(context.Context, string, time.Time) error {
			w.activations++
			w.active = w.inactive == nil
			return w.inactive
		},
		Workloads: func() (all []*Workload) {
			for _, name := range slices.Sorted(maps.Keys(w.workloads)) {
				if stale := w.stale[name]; stale != nil {
					all = append(all, stale)
				} else {
					all = append(all, Read(w.workloads[name].DeepCopy()))
				}
			}
			return all
		},
		Flavor:  func(name string) *Flavor { return w.flavors[name] },
		Nodes:   func() []*v1.Node { return w.nodes },
		Pods:    func() []*v1.Pod { return w.pods },
		At:      func(name string) *cluster.At { return w.at[name] },
		Awaited: func(n *v1.Node) bool { return n.Labels["awaited"] != "" },
		Gates:   w.gates,
		Patch:   w.patch,
		Note:    func(l *Workload, text string) { w.notes = append(w.notes, l.Name+": "+text) },
		Count:   func(outcome string) { w.outcomes[outcome]++ },
		Passed:  func(_ time.Duration, left int) { w.left = left },
	}
}

// patch does what the API server does with the only kind of patch that is sent.
func (w *world) patch(_ context.Context, l *Workload, data []byte) error {
	w.now = w.now.Add(w.each)
	of := schema.GroupResource{Group: Group, Resource: "workloads"}
	o := w.workloads[l.Name]
	switch {
	case w.failing != nil:
		return w.failing
	case o == nil:
		return apierrors.NewNotFound(of, l.Name)
	}
	var p struct {
		Metadata struct{ ResourceVersion, UID string }
		Status   struct{ AdmissionChecks []any }
	}
	if err := json.Unmarshal(data, &p); err != nil {
		w.t.Fatal(err)
	}
	if p.Metadata.ResourceVersion != o.GetResourceVersion() || p.Metadata.UID != string(o.GetUID()) {
		return apierrors.NewConflict(of, l.Name, fmt.Errorf("it has changed"))
	}
	w.set(o, p.Status.AdmissionChecks, "status", "admissionChecks")
	return nil
}

func (w *world) set(o *unstructured.Unstructured, value any, path ...string) {
	w.t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		w.t.Fatal(err)
	}
	w.version++
	o.SetResourceVersion(fmt.Sprint(w.version))
}

// a set is a pod set of pods with one container. On has the number of pods by node, as a topology
// assignment.
type set struct {
	name     string
	count    int64
	cpus     int64
	on       map[string]int64
	rack     string
	selector map[string]any
}

// add adds a workload with reserved quota and a pending check.
func (w *world) add(name string, sets ...set) *unstructured.Unstructured {
	w.t.Helper()
	var podSets, assignments []any
	for _, s := range sets {
		amounts := map[string]any{"cpu": fmt.Sprint(s.cpus), "memory": "1Gi"}
		spec := map[string]any{"containers": []any{map[string]any{"name": "main", "resources": map[string]any{"requests": amounts, "limits": amounts}}}}
		if s.selector != nil {
			spec["nodeSelector"] = s.selector
		}
		podSets = append(podSets, map[string]any{"name": s.name, "count": s.count, "template": map[string]any{"spec": spec}})
		a := map[string]any{"name": s.name, "count": s.count, "flavors": map[string]any{"cpu": "default", "memory": "default"}}
		var domains []any
		for _, node := range slices.Sorted(maps.Keys(s.on)) {
			domains = append(domains, map[string]any{
				"domainCount": int64(1), "podCounts": map[string]any{"universal": s.on[node]},
				"valuesPerLevel": []any{map[string]any{"individual": map[string]any{"prefix": node[:1], "roots": []any{node[1:]}}}},
			})
		}
		if domains != nil {
			a["topologyAssignment"] = map[string]any{"levels": []any{v1.LabelHostname}, "slices": domains}
		}
		if s.rack != "" {
			a["topologyAssignment"] = map[string]any{"levels": []any{"rack"}, "slices": []any{map[string]any{
				"domainCount": int64(1), "podCounts": map[string]any{"universal": s.count}, "valuesPerLevel": []any{map[string]any{"universal": s.rack}},
			}}}
		}
		assignments = append(assignments, a)
	}
	w.version++
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Group + "/v1beta2", "kind": "Workload",
		"metadata": map[string]any{"namespace": "team", "name": name, "uid": "uid-" + name, "resourceVersion": fmt.Sprint(w.version)},
		"spec":     map[string]any{"podSets": podSets},
		"status": map[string]any{
			"conditions":      []any{map[string]any{"type": "QuotaReserved", "status": "True"}},
			"admission":       map[string]any{"clusterQueue": "all", "podSetAssignments": assignments},
			"admissionChecks": []any{map[string]any{"name": "fleet", "state": Pending, "lastTransitionTime": "2001-01-01T00:00:00Z", "message": ""}},
		},
	}}
	o.SetCreationTimestamp(metav1.NewTime(w.now.Add(time.Duration(w.version) * time.Second)))
	w.workloads[name] = o
	return o
}

// check returns the state and the message of the check of a workload.
func (w *world) check(name string) (state, message string) {
	checks, _, _ := unstructured.NestedSlice(w.workloads[name].Object, "status", "admissionChecks")
	fields, _ := checks[0].(map[string]any)
	state, _ = fields["state"].(string)
	message, _ = fields["message"].(string)
	return state, message
}

func (w *world) checker() *Checker { return New(w.world(), w.ranking) }
