package node_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
)

// TestPlanGrant hands every grant of a random history to three states: the one before its
// admission, one in which other pods are gone, and one in which others came. The first accepts the
// grant as it is. The others accept it, and the resulting state is then valid, or name the rule
// that it breaks.
func TestPlanGrant(t *testing.T) {
	setChecksTo(t, histories)
	rapid.Check(t, func(t *rapid.T) {
		h := start(t)
		for range h.intn(1, 8, "steps") {
			h.step()
		}
		after := h.state()
		for _, g := range after.Grants() {
			without := after.Release(g.Pod.UID)
			plan := without.Plan(g.Pod)
			if plan.Grant == nil {
				continue // It was admitted with other devices, or a part of it was removed.
			}
			same, err := without.PlanGrant(g.Pod, plan.Grant)
			if err != nil || !same.Grant.SameAssignments(plan.Grant) {
				t.Fatalf("the planner's own grant is rejected: %v", err)
			}
			h.accepted(t, without, plan)
			h.hand(t, without, plan.Grant)
			for _, other := range without.Grants() {
				h.hand(t, without.Release(other.Pod.UID), plan.Grant)
			}
		}
	})
}

// accepted hands a plan over to states in which the resources of the plan are free: some of the
// other pods are gone, as if they had not started yet, and others came. All of them accept the
// planner's own choices, with the exceptions of PlanGrant.
func (h *history) accepted(t *rapid.T, s *node.State, plan *node.Plan) {
	t.Helper()
	if s.Policy().CPU.FullPCPUsOnly && cpu.SplitsCores(s.Machine(), plan.Grant.CPUs()) {
		return
	}
	with, err := s.Apply(plan)
	if err != nil {
		t.Fatal(err)
	}
	elsewhereToo := s.Policy().CPU.AlignBySocket || len(plan.Grant.Devices()) > 0
	for i, other := range s.Grants() {
		newer := other.Pod
		newer.UID = fmt.Sprint("newer", i)
		if more := with.Plan(newer); more.Grant != nil && !elsewhereToo && rapid.Bool().Draw(t, "newer") {
			if with, err = with.Apply(more); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := with.Release(plan.Pod.UID)
	for _, other := range elsewhere.Grants() {
		if rapid.Bool().Draw(t, "gone") {
			elsewhere = elsewhere.Release(other.Pod.UID)
		}
	}
	same, err := elsewhere.PlanGrant(plan.Pod, plan.Grant)
	if err != nil || !same.Grant.SameAssignments(plan.Grant) {
		h.fatalf("the plan of %s for another state is rejected: %v", plan.Pod.ID(), err)
	}
	if _, err := elsewhere.Apply(same); err != nil {
		t.Fatal(err)
	}
}

// hand hands over a grant that may break the rules.
func (h *history) hand(t *rapid.T, s *node.State, g *node.Grant) {
	t.Helper()
	wrong := corrupt(t, g, s.Machine().NodeMask())
	for _, g := range []*node.Grant{g, wrong} {
		plan, err := s.PlanGrant(g.Pod, g)
		if err != nil {
			if misplaced := (*node.MisplacedError)(nil); plan != nil || !errors.As(err, &misplaced) || misplaced.Detail == "" {
				t.Fatalf("plan %v and error %v", plan, err)
			}
			continue
		}
		next, err := s.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Check(); err != nil || !plan.Grant.SameAssignments(g) {
			t.Fatalf("what was accepted is not sound: %v", err)
		}
		if has, asks := plan.Grant.CPUs().Len(), mostCPUs(plan); has > asks {
			t.Fatalf("%s got CPUs %s, and asks for %d", g.Pod, plan.Grant.CPUs(), asks)
		}
	}
}

// mostCPUs returns the largest number of CPUs that a planner gives a pod: its pool, or each
// container's own CPUs if no container reuses those of an init container.
func mostCPUs(p *node.Plan) int {
	if d := p.Trace.Demand; d.Path == node.AsPool {
		return d.Together.CPUs
	}
	sum := 0
	for i := range p.Trace.Demand.Containers {
		sum += p.Trace.Demand.Containers[i].CPUs
	}
	return sum
}

// corrupt changes one assignment of a grant, or none.
func corrupt(t *rapid.T, old *node.Grant, nodes mask.Mask) *node.Grant {
	g := *old
	g.Containers = append([]node.ContainerGrant(nil), old.Containers...)
	c := &g.Containers[rapid.IntRange(0, len(g.Containers)-1).Draw(t, "container")]
	cpus := cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 40), 0, 6).Draw(t, "cpus")...)
	anywhere := mask.Mask(rapid.Uint64Range(0, uint64(nodes)*2+1).Draw(t, "nodes"))
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0:
		c.CPUs = cpus
	case 1:
		c.CPUs = c.CPUs.Union(cpus)
	case 2:
		g.Pool = cpus
	case 3:
		c.Memory = append([]memory.Block(nil), c.Memory...)
		for i := range c.Memory {
			c.Memory[i].Size += rapid.Int64Range(-1, 1<<40).Draw(t, "bytes")
		}
	case 4:
		c.Memory = append([]memory.Block(nil), c.Memory...)
		for i := range c.Memory {
			c.Memory[i].Nodes = anywhere
		}
		c.MemoryNodes = anywhere
	case 5:
		c.Affinity.Mask = anywhere
	case 6:
		c.Affinity.Preferred, c.Affinity.HasMask = !c.Affinity.Preferred, rapid.Bool().Draw(t, "mask")
	}
	return &g
}

// TestPlanGrantChooses checks that a place other than the planner's is accepted if the rules allow
// it.
func TestPlanGrantChooses(t *testing.T) {
	for _, topology := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
		t.Run(topology.String(), func(t *testing.T) {
			s := timingNode(t, 2, topology)
			pod := timingPod(false)
			own := s.Plan(pod).Grant
			if own == nil {
				t.Fatal("the pod does not fit")
			}
			// The same node with its first NUMA node full chooses the other one.
			full := s
			for i := 0; ; i++ {
				filler := timingPod(false)
				filler.UID = fmt.Sprint("filler", i)
				plan := full.Plan(filler)
				if plan.Grant == nil || plan.Grant.Containers[0].Affinity.Mask != own.Containers[0].Affinity.Mask {
					break
				}
				next, err := full.Apply(plan)
				if err != nil {
					t.Fatal(err)
				}
				full = next
			}
			elsewhere := full.Plan(pod).Grant
			if elsewhere == nil || elsewhere.SameAssignments(own) {
				t.Fatal("there is no other place")
			}
			plan, err := s.PlanGrant(pod, elsewhere)
			if err != nil || !plan.Grant.SameAssignments(elsewhere) {
				t.Fatalf("another place is rejected: %v", err)
			}
			if _, err := full.PlanGrant(pod, own); err == nil {
				t.Error("CPUs of other pods are accepted")
			}
		})
	}
}

// TestHandedAboveBound checks that a grant of another planner does not circumvent the limit on
// containers.
func TestHandedAboveBound(t *testing.T) {
	s := timingNode(t, 1, node.TopologyRestricted)
	pod := podOf("pool", 3)
	made := s.Plan(pod)
	p := s.Policy()
	p.MaxContainers = 2
	s, err := node.New(s.Machine(), p)
	if err != nil {
		t.Fatal(err)
	}
	var wrong *node.MisplacedError
	if plan, err := s.PlanGrant(pod, made.Grant); !errors.As(err, &wrong) || wrong.Kind != node.MisplacedShape {
		t.Errorf("the grant of a pod with 3 containers is planned where 2 are admitted: %+v, %v", plan, err)
	}
}
