package node

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// mend corrects a grant that contradicts itself, if the rest of the grant shows what is right, and
// returns a line for each correction. Otherwise it returns g. It changes no CPUs and no devices of
// a running container. It changes only numbers for the accounting, and marks.
//
// A container that is marked as removed and has assignments is either removed or running. If gone
// is set, it is removed. Otherwise it counts as running, and no other pod gets its CPUs until the
// pod ends.
func mend(g *Grant, gone bool) (*Grant, []string) {
	if len(g.Containers) != len(g.Pod.Containers) || checkShape(g) == nil {
		return g, nil
	}
	m := mender{*g, nil}
	m.Containers = slices.Clone(g.Containers)
	for i := range m.Containers {
		switch c, name := &m.Containers[i], m.Pod.Containers[i].Name; {
		case !c.Removed || c.CPUs.IsEmpty() && len(c.Memory) == 0 && len(c.Devices) == 0 && c.MemoryNodes.IsEmpty():
		case gone:
			m.add("container %s is marked as removed and had CPUs %q: it has nothing now", name, c.CPUs)
			*c = ContainerGrant{Removed: true, Affinity: c.Affinity}
		default:
			m.add("container %s is marked as removed and has CPUs %q: it keeps what it has until the pod ends", name, c.CPUs)
			c.Removed = false
		}
		m.mendMemory(i)
		m.mendBaseline(i)
	}
	if !isBaseline(m.PoolBaseline, m.Pool) {
		m.add("its pool has CPUs %q and was admitted with %s: no resize takes any of them away", m.Pool, m.PoolBaseline)
		m.PoolBaseline = cpuset.Set{}
	}
	m.mendBudget()
	return &m.Grant, m.lines
}

// mender is a grant that is being corrected.
type mender struct {
	Grant
	lines []string
}

func (m *mender) add(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

// mendMemory corrects the numbers of a container's memory in the accounting.
func (m *mender) mendMemory(i int) {
	asks, c := &m.Pod.Containers[i], &m.Containers[i]
	c.Memory = slices.Clone(c.Memory)
	for k := range c.Memory {
		b := &c.Memory[k]
		want, known := asks.Memory.Get(b.Type)
		if known && len(m.PoolMemory) == 0 && (b.Size > want || b.Size < want && asks.Type != request.Init) {
			m.add("container %s has %s and asks for %s: it counts as what it asks for", asks.Name, request.Words(b.Type, b.Size), request.Words(b.Type, want))
			b.Size = want
		}
	}
	nodes := nodesOf(c.Memory)
	if nodes != c.MemoryNodes && (len(c.Memory) > 0 || asks.Type != request.Init) {
		m.add("container %s is pinned to %s, and its memory is on %s: it is pinned there", asks.Name, c.MemoryNodes.Text(), nodes.Text())
		c.MemoryNodes = nodes
	}
}

// mendBaseline drops the baseline of a container if it does not fit the container's CPUs. The
// container then keeps all of its CPUs.
func (m *mender) mendBaseline(i int) {
	c := &m.Containers[i]
	if isBaseline(c.Baseline, c.CPUs) && (c.Baseline.IsEmpty() || m.Isolation(i) == ContainerIsolation) {
		return
	}
	m.add("container %s has CPUs %q and was admitted with %s: no resize takes any of them away", m.Pod.Containers[i].Name, c.CPUs, c.Baseline)
	c.Baseline = cpuset.Set{}
}

// mendBudget takes the budget from the pool, because the pod runs on the pool.
func (m *mender) mendBudget() {
	p := &m.Pod
	n := m.Pool.Len()
	switch {
	case p.Kind != request.PodLevel && (p.BudgetCPUs != 0 || len(p.BudgetMemory) > 0) && !m.HasPool():
		m.add("it is a %s pod and has a budget of %d CPUs and %v: it has none", p.Kind, p.BudgetCPUs, p.BudgetMemory)
		p.BudgetCPUs, p.BudgetMemory = 0, nil
	case p.Kind == request.PodLevel && n > 0 && (n > p.BudgetCPUs || p.BudgetCPUs > maxPool || !evenBudget(p)):
		m.add("its pool has CPUs %s, and its budget is %d CPUs and %d thousandths: the budget is that of the pool", m.Pool, p.BudgetCPUs, p.BudgetCPUMilli)
		p.BudgetCPUs, p.BudgetCPUMilli = n, 1000*int64(n)
	case p.Kind == request.PodLevel && n == 0 && !evenBudget(p):
		m.add("its budget is %d CPUs and %d thousandths of a CPU: it has no budget of CPUs", p.BudgetCPUs, p.BudgetCPUMilli)
		p.BudgetCPUs = 0
	}
	same := slices.EqualFunc(m.PoolMemory, p.BudgetMemory, func(b memory.Block, a request.Amount) bool { return b.Type == a.Resource && b.Size == a.Value })
	if p.Kind == request.PodLevel && len(m.PoolMemory) > 0 && !same {
		m.add("its pool has %v, and its budget is %v: the budget is that of the pool", m.PoolMemory, p.BudgetMemory)
		p.BudgetMemory = nil
		for _, b := range m.PoolMemory {
			p.BudgetMemory = p.BudgetMemory.With(b.Type, b.Size)
		}
	}
}
