package plugin

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// isolate returns a machine with isolated CPUs, and isolated-cpus: only. Without a list it returns
// the machine as it is, without the option.
func isolate(t testing.TB, m *machine.Machine, list string) (*machine.Machine, cpu.Isolated) {
	t.Helper()
	if list == "" {
		return m, cpu.IsolatedAlike
	}
	d := machine.Description{}
	for _, n := range m.Nodes() {
		described := machine.NodeDescription{ID: n.ID, Memory: n.Memory}
		for _, core := range m.Cores() {
			if n.CPUs.Contains(core.CPUs) {
				described.Cores = append(described.Cores, machine.CoreDescription{Socket: n.ID, Threads: core.CPUs.IDs()})
			}
		}
		d.Nodes = append(d.Nodes, described)
	}
	var err error
	if d.Isolation.Isolated, err = cpuset.Parse(list); err != nil {
		t.Fatal(err)
	}
	if m, err = machine.New(d); err != nil {
		t.Fatal(err)
	}
	return m, cpu.IsolatedOnly
}

// pool gives a pod a pool of a number of CPUs, which a second container shares. If shared is set,
// that container may run on isolated CPUs.
func pool(pod *v1.Pod, cpus string, shared bool) {
	if cpus == "" {
		return
	}
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourceMemory: resource.MustParse("2Gi")}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "helper", Image: "none"})
	if shared {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, request.SharedPoolAnnotation, request.SharedPoolIsolated)
	}
}

// admits returns the answer of an agent that gets the pods of a node one after the other, with the
// grants that the scheduler gave them.
func (w *world) admits(name string) string {
	w.settle("")
	s, err := node.New(w.sources[name].Machine, w.sources[name].Policy)
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	for _, g := range w.plugin.cluster.After(name).View.State.Grants() {
		p, err := s.PlanGrant(g.Pod, g)
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", g.Pod.Name, err)
			continue
		}
		if p.Rejection != nil {
			fmt.Fprintf(&out, "%s: %v\n", g.Pod.Name, p.Rejection)
			continue
		}
		if s, err = s.Apply(p); err != nil {
			w.t.Fatal(err)
		}
		for i, c := range p.Grant.Containers {
			fmt.Fprintf(&out, "%s/%s: CPUs %s\n", g.Pod.Name, g.Pod.Containers[i].Name, c.CPUs)
		}
	}
	return out.String()
}
