package explain_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// TestMissing checks the account of single containers that must be on one NUMA node. It counts what
// is free by itself. Where a resource alone is missing, the pod with that much less is admitted,
// and the pod with a step more than that is not. No rejecting node has a NUMA node that lacks
// nothing.
func TestMissing(t *testing.T) {
	setChecks(t, "600")
	accounts, alone, several, less := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawNode(t)
		pod, ok := d.single()
		if !ok {
			return
		}
		s := d.n.State()
		plan := s.Plan(pod)
		m := explain.MissingOf(s, plan)
		if plan.Rejection == nil || m == nil || m.Whole {
			return
		}
		accounts++
		for i := range m.Places {
			p := &m.Places[i]
			d.count(s, m, p)
			if len(p.Missing) == 0 && !p.Barred {
				d.fatalf("%s is rejected, and NUMA node %d lacks nothing", pod.Name, *p.NUMANode)
			}
			a, is := p.Alone()
			if !is {
				several++
				continue
			}
			alone++
			lowered, change, ok := m.Lower(s, pod, a)
			if !ok {
				continue
			}
			less++
			if r := s.Plan(lowered).Rejection; r != nil {
				d.fatalf("NUMA node %d lacks %v, and %+v is rejected: %s", *p.NUMANode, a, change, r.Detail)
			}
		}
		d.tight(s, pod, m)
	})
	t.Logf("%d accounts: %d NUMA nodes lack one resource, %d others; %d smaller requests", accounts, alone, several, less)
	if accounts < 20 || alone < 20 || several < 10 || less < 15 {
		t.Errorf("too few cases: %d accounts, %d NUMA nodes with one resource, %d others, %d smaller requests", accounts, alone, several, less)
	}
}

// single returns a pod with one container that has everything for itself.
func (d *drawn) single() (request.Pod, bool) {
	line := fmt.Sprintf("app c cpu=%d memory=%dMi", d.intn(1, 14, "cpus"), 128*d.intn(1, 60, "memory"))
	if d.intn(0, 3, "huge pages") == 0 {
		line += fmt.Sprintf(" hugepages-2Mi=%dMi", 2*d.intn(1, 200, "pages"))
	}
	d.do("pod single", line)
	pod, err := d.n.Request("single")
	return pod, err == nil
}

// count compares what is missing on a NUMA node with what is free there.
func (d *drawn) count(s *node.State, m *explain.Missing, p *explain.MissingPlace) {
	missing := map[string]int64{}
	for _, a := range p.Missing {
		missing[a.Resource] = a.Value
	}
	n, _ := s.Machine().Node(*p.NUMANode)
	for _, w := range m.Wanted {
		free := int64(s.AvailableCPUs().IntersectionLen(n.CPUs))
		if request.IsMemory(w.Resource) {
			free = s.Memory().Free(mask.Of(n.ID), w.Resource)
		}
		short := max(0, w.Value-free)
		if w.Resource == request.CPU && s.Policy().CPU.FullPCPUsOnly {
			short = max(short, missing[request.CPU]) // Whole cores can be fewer.
		}
		if request.IsMemory(w.Resource) && s.Machine().MemoryType(w.Resource) < 0 {
			short = w.Value
		}
		if missing[w.Resource] != short {
			d.fatalf("NUMA node %d has %d of %v, and %d is missing", n.ID, free, w, missing[w.Resource])
		}
	}
}

// tight checks that the pod is rejected with a little more than the least that is missing, if every
// NUMA node lacks the same resource alone.
func (d *drawn) tight(s *node.State, pod request.Pod, m *explain.Missing) {
	var least explain.Amount
	for i := range m.Places {
		a, is := m.Places[i].Alone()
		if !is || i > 0 && a.Resource != least.Resource {
			return
		}
		if i == 0 || a.Value < least.Value {
			least = a
		}
	}
	unit := int64(1)
	if least.Resource != request.CPU {
		unit = 2 << 20 // All amounts are multiples of a huge page.
	}
	least.Value -= unit
	lowered, change, ok := m.Lower(s, pod, least)
	if !ok || least.Value <= 0 || change.From-change.To > least.Value || s.Policy().Topology != node.TopologySingleNUMANode {
		return
	}
	if s.Plan(lowered).Rejection == nil {
		d.fatalf("every NUMA node lacks at least %d more than %+v, which is admitted", unit, change)
	}
}
