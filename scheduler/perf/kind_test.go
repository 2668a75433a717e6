package perf

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// kind is a machine of 64 CPUs on two NUMA nodes, under single-numa-node, with 20 pods of 2 CPUs.
type kind struct {
	machine *v1alpha1.PaddockMachine
	state   *node.State
	// text is a PaddockNode as the API has it. Its name is NAME.
	text string
}

const grants = 20

func newKind(t interface {
	Helper()
	Fatal(args ...any)
},
) *kind {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	m := scenario.Machine("sockets=2 cores=16 threads=2 uncore=8 memory=128Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 32), StaticMemory: true,
		ReservedMemory: map[int]map[string]int64{0: {request.Memory: 1 << 30}}, PodLevelResources: true, PodLevelManagers: true,
	})
	must(err)
	k := &kind{}
	k.machine, err = objects.Machine(m)
	must(err)
	o := v1alpha1.PaddockNode{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PaddockNode"}, ObjectMeta: metav1.ObjectMeta{Name: "NAME"}}
	o.Status.Machine = k.machine.Name
	o.Status.Policy, o.Status.PolicyDigest, err = objects.Policy(s.Policy())
	must(err)
	for _, condition := range []string{v1alpha1.ConditionManaging, v1alpha1.ConditionComplete} {
		o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Perf", LastTransitionTime: metav1.Unix(1, 0)})
	}
	for i := range grants {
		name := fmt.Sprintf("NAME-%02d", i)
		memory := request.Amounts{{Resource: request.Memory, Value: 1 << 30}}
		plan := s.Plan(request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
			Name: "main", Type: request.App, CPUs: 2, Memory: memory, Equivalent: true, CPURequest: 2000, CPULimit: 2000,
		}}}})
		s, err = s.Apply(plan)
		must(err)
		grant, err := objects.Grant(plan.Grant)
		must(err)
		o.Status.Grants = append(o.Status.Grants, grant)
	}
	o.Status.Revision = int64(s.Generation())
	k.state = s
	text, err := json.Marshal(&o)
	must(err)
	k.text = string(text)
	return k
}

// node returns the object of a node. Its grants belong to pods with different UIDs on each node.
func (k *kind) node(name string) *v1alpha1.PaddockNode {
	o := &v1alpha1.PaddockNode{}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(k.text, "NAME", name)), o); err != nil {
		panic(err)
	}
	return o
}

// loaded is what a process keeps of the objects.
type loaded struct {
	objects []*v1alpha1.PaddockNode
	cluster *cluster.Cluster
}

// load reads the objects of a number of nodes as the plugin does.
func (k *kind) load(b *testing.B, nodes int) *loaded {
	b.Helper()
	l := &loaded{cluster: cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
		Pods:       func(string) []*v1.Pod { return nil },
		Exists:     func(string, string, string) bool { return false },
		AgentReady: func([]*v1.Pod) bool { return true },
		Report:     func(node, pod string, err error) { b.Errorf("%s: %s: %v", node, pod, err) },
	})}
	m, err := objects.ReadMachine(k.machine)
	if err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		o := k.node(fmt.Sprintf("node-%04d", i))
		n, err := fleetsource.Read(o, func(string) (*machine.Machine, error) { return m, nil })
		if err != nil {
			b.Fatal(err)
		}
		l.objects = append(l.objects, o)
		l.cluster.Update(o.Name, &cluster.Source{Node: n})
		if at := l.cluster.After(o.Name); len(at.View.State.Grants()) != grants {
			b.Fatalf("node %s has %d grants: %s", o.Name, len(at.View.State.Grants()), at.Problem)
		}
	}
	return l
}
