package quirk_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// TestEveryChangeIsNamed checks on random nodes that the kubelet's answer differs only if its
// decision met a fault. So the planner with a kubelet's behavior equals Paddock's except for the
// faults. After each step, grants, residue and free resources must add up to the machine
// (State.Check).
func TestEveryChangeIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNode(t)
		k := quirk.New(behavior.Golden())
		check := func() {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
		decide := func(pod request.Pod) {
			plan, named, next := k.Admit(s, pod)
			// CPUs are lost when the next pod is admitted, whichever pod that is.
			named = slices.DeleteFunc(named, func(q quirk.Quirk) bool { return q.Effect == quirk.Lost })
			ours := s.PlanAs(node.Behavior{}, pod)
			// On a state with a residue, a difference can result from the fault that left the
			// residue. So can the fault that gave one CPU to two containers of the pod.
			if len(s.Residue()) == 0 && !sharesOwn(s, pod.UID) && len(plan.Trace.Met) == 0 && (len(named) > 0 || (plan.Rejection == nil) != (ours.Rejection == nil)) {
				t.Fatalf("%s: the answer is %v, Paddock's is %v, and no fault was met", pod.ID(), plan.Rejection, ours.Rejection)
			}
			after, err := s.Apply(plan)
			if err != nil {
				t.Fatal(err)
			}
			s, k = after, next
			check()
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "events") {
			switch grants := s.Grants(); {
			case len(grants) > 0 && rapid.IntRange(0, 3).Draw(t, "leaves") == 0:
				s = s.Release(grants[rapid.IntRange(0, len(grants)-1).Draw(t, "who")].Pod.UID)
				check()
			case len(grants) > 0 && rapid.IntRange(0, 5).Draw(t, "restarts") == 0:
				s = s.Restarted()
				for _, g := range grants {
					decide(g.Pod)
				}
			default:
				decide(drawPod(t, fmt.Sprint("p", i)))
			}
		}
		for _, changed := range k.Again(s) {
			if len(changed.Quirks) == 0 {
				t.Fatalf("%s: changed, and nothing is named", changed.Pod)
			}
		}
	})
}

// sharesOwn reports whether two app containers or sidecars of a pod have a CPU of their own in
// common, which a kubelet can assign twice where cores or sockets are uneven.
func sharesOwn(s *node.State, uid string) bool {
	g, known := s.Grant(uid)
	if !known {
		return false
	}
	var all cpuset.Set
	for i, c := range g.Containers {
		if g.Pod.Containers[i].Type == request.Init {
			continue
		}
		if all.Intersects(c.CPUs) {
			return true
		}
		all = all.Union(c.CPUs)
	}
	return false
}

func drawNode(t *rapid.T) *node.State {
	d := machine.Description{}
	nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
	thread := 0
	for n := range nodes {
		at := machine.NodeDescription{ID: n, Memory: rapid.Int64Range(4, 12).Draw(t, "memory") << 30}
		for range rapid.IntRange(2, 6).Draw(t, "cores") {
			core := machine.CoreDescription{Socket: n % 2, Uncore: machine.NoUncore}
			for range rapid.SampledFrom([]int{2, 2, 2, 1}).Draw(t, "threads") {
				core.Threads = append(core.Threads, thread)
				thread++
			}
			at.Cores = append(at.Cores, core)
		}
		d.Nodes = append(d.Nodes, at)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	p := node.Policy{
		Topology:  rapid.SampledFrom([]node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}).Draw(t, "topology"),
		Scope:     rapid.SampledFrom([]node.Scope{node.PodScope, node.ContainerScope}).Draw(t, "scope"),
		StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: rapid.Bool().Draw(t, "static memory"),
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	}
	p.CPU = cpu.Options{DistributeAcrossNUMA: rapid.Bool().Draw(t, "distribute"), FullPCPUsOnly: rapid.Bool().Draw(t, "full")}
	if p.StaticMemory {
		p.ReservedMemory = map[int]map[string]int64{0: {request.Memory: 1 << 30}}
	}
	s, err := node.New(m, quirk.New(behavior.Golden()).Policy(m, p, quirk.Setup{}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawPod(t *rapid.T, name string) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed}}
	podLevel := rapid.Bool().Draw(t, "pod-level")
	var cpus int
	var bytes int64
	for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
		c := request.Container{Name: fmt.Sprint("c", i), Type: request.App, Equivalent: true}
		first := i == 0 || pod.Containers[i-1].Type != request.App // App containers come last.
		if i < 2 && first && rapid.Bool().Draw(t, "init") {
			c.Type = rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar}).Draw(t, "type")
		}
		if podLevel && rapid.Bool().Draw(t, "shares") {
			c.Equivalent, c.Sharing = false, request.NotEquivalent
		} else {
			c.CPUs = rapid.IntRange(0, 6).Draw(t, "cpus")
			c.Memory = request.Amounts{{Resource: request.Memory, Value: rapid.Int64Range(1, 40).Draw(t, "memory") << 28}}
		}
		cpus += c.CPUs
		for _, a := range c.Memory {
			bytes += a.Value
		}
		pod.Containers = append(pod.Containers, c)
	}
	if podLevel {
		pod.Kind = request.PodLevel
		pod.BudgetCPUs = cpus + rapid.IntRange(0, 2).Draw(t, "more cpus")
		pod.BudgetCPUMilli = int64(pod.BudgetCPUs) * 1000
		if more := rapid.Int64Range(0, 2).Draw(t, "more memory") << 28; bytes+more > 0 {
			pod.BudgetMemory = request.Amounts{{Resource: request.Memory, Value: bytes + more}}
		}
	}
	return pod
}
