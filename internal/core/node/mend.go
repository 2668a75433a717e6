package node

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// mend is g without what contradicts itself where that can be told from the rest, and a line for
// each correction; g itself where nothing can or need be. It changes no CPUs and no devices of a
// container that runs: what is corrected are numbers for the account, and marks.
//
// A container that is marked as removed and has something is one of both. It counts as running
// unless gone: its CPUs then stay away from other pods until the pod ends.
func mend(g *Grant, gone bool) (*Grant, []string) {
	if len(g.Containers) != len(g.Pod.Containers) || checkShape(g) == nil {
		return g, nil
	}
	m := mender{*g, nil}
	m.Containers = slices.Clone(g.Containers)
	for i := range m.Containers {
		m.mendRemoved(i, gone)
		m.mendMemory(i)
	}
	m.mendBudget()
	return &m.Grant, m.lines
}

// mender is a grant that is being corrected.
type mender struct {
	Grant
	lines []string
}

func (m *mender) say(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

func (m *mender) mendRemoved(i int, gone bool) {
	c := &m.Containers[i]
	if !c.Removed || c.CPUs.IsEmpty() && len(c.Memory) == 0 && len(c.Devices) == 0 && c.MemoryNodes.IsEmpty() {
		return
	}
	if gone {
		m.say("container %s is marked as removed and had CPUs %q: it has nothing now", m.Pod.Containers[i].Name, c.CPUs)
		*c = ContainerGrant{Removed: true, Affinity: c.Affinity}
		return
	}
	m.say("container %s is marked as removed and has CPUs %q: it keeps what it has until the pod ends", m.Pod.Containers[i].Name, c.CPUs)
	c.Removed = false
}

// mendMemory corrects the numbers that the account has of a container's memory.
func (m *mender) mendMemory(i int) {
	asks, c := &m.Pod.Containers[i], &m.Containers[i]
	c.Memory = slices.Clone(c.Memory)
	for k := range c.Memory {
		b := &c.Memory[k]
		want, known := asks.Memory.Get(b.Type)
		if known && len(m.PoolMemory) == 0 && (b.Size > want || b.Size < want && asks.Lane != request.Init) {
			m.say("container %s has %s and asks for %s: it counts as what it asks for", asks.Name, amountText(b.Type, b.Size), amountText(b.Type, want))
			b.Size = want
		}
	}
	nodes := nodesOf(c.Memory)
	if nodes != c.MemoryNodes && (len(c.Memory) > 0 || asks.Lane != request.Init) {
		m.say("container %s is pinned to NUMA nodes %s and its memory lies on %s: it is pinned there", asks.Name, c.MemoryNodes, nodes)
		c.MemoryNodes = nodes
	}
}

// mendBudget takes the budget from the pool, which is what the pod runs on.
func (m *mender) mendBudget() {
	p := &m.Pod
	n := m.Pool.Len()
	switch {
	case p.Kind != request.PodLevel && (p.BudgetCPUs != 0 || len(p.BudgetMemory) > 0) && !m.HasPool():
		m.say("it is a %s pod and has a budget of %d CPUs and %v: it has none", p.Kind, p.BudgetCPUs, p.BudgetMemory)
		p.BudgetCPUs, p.BudgetMemory = 0, nil
	case p.Kind == request.PodLevel && n > 0 && (n > p.BudgetCPUs || p.BudgetCPUs > maxPool || !evenBudget(p)):
		m.say("its pool has CPUs %s, and its budget is %d CPUs and %d thousandths: the budget is that of the pool", m.Pool, p.BudgetCPUs, p.BudgetCPUMilli)
		p.BudgetCPUs, p.BudgetCPUMilli = n, 1000*int64(n)
	case p.Kind == request.PodLevel && n == 0 && !evenBudget(p):
		m.say("its budget is %d CPUs and %d thousandths of a CPU: it has no budget of CPUs", p.BudgetCPUs, p.BudgetCPUMilli)
		p.BudgetCPUs = 0
	}
	same := slices.EqualFunc(m.PoolMemory, p.BudgetMemory, func(b memory.Block, a request.Amount) bool { return b.Type == a.Resource && b.Size == a.Value })
	if p.Kind == request.PodLevel && len(m.PoolMemory) > 0 && !same {
		m.say("its pool has %v, and its budget is %v: the budget is that of the pool", m.PoolMemory, p.BudgetMemory)
		p.BudgetMemory = nil
		for _, b := range m.PoolMemory {
			p.BudgetMemory = p.BudgetMemory.With(b.Type, b.Size)
		}
	}
}
