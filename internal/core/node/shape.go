package node

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	// maxPool is above the number of CPUs that a CPU set can have.
	maxPool = cpuset.MaxID + 1
	// maxBytes limits the memory of one pod to 32 PiB, so that sums over all pods and NUMA nodes
	// stay exact.
	maxBytes = 1 << 55
)

// checkShape proves that a pod's assignments are possible for its request. It does not depend on
// the policy: a pod keeps its grant when the policy changes, so an assignment is an error only if
// no policy makes it.
func checkShape(g *Grant) error {
	if err := checkPool(g); err != nil {
		return err
	}
	serves := !g.CPUs().IsEmpty()
	if !isBaseline(g.PoolBaseline, g.Pool) {
		return broken("its pool was admitted with CPUs %s and has %s", g.PoolBaseline, g.Pool)
	}
	var bytes int64
	for i := range g.Containers {
		if c := &g.Containers[i]; !isBaseline(c.Baseline, c.CPUs) || !c.Baseline.IsEmpty() && g.Isolation(i) != ContainerIsolation {
			return broken("container %s was admitted with CPUs %s and has %s", g.Pod.Containers[i].Name, c.Baseline, c.CPUs)
		}
		if err := checkContainer(g, i, serves); err != nil {
			return fmt.Errorf("%w: container %s %w", ErrInvariant, g.Pod.Containers[i].Name, err)
		}
		for _, b := range g.Containers[i].Memory {
			if bytes = min(bytes, maxBytes) + b.Size; bytes > maxBytes && len(g.PoolMemory) == 0 || b.Size > maxBytes {
				return broken("it has %s and more, which no machine has", request.Words(b.Type, b.Size))
			}
		}
	}
	return nil
}

// isBaseline reports whether a grant can have this baseline for these CPUs: it must be empty, or a
// proper subset of the CPUs.
func isBaseline(baseline, cpus cpuset.Set) bool {
	return baseline.IsEmpty() || cpus.Contains(baseline) && !cpus.Equal(baseline)
}

// checkPool proves that only a pod-level pod has a pool, and that the pool is at most as large as
// the budget, and in use (R-DEM-40, R-DEM-51).
func checkPool(g *Grant) error {
	p := &g.Pod
	budget := p.BudgetCPUs != 0 || len(p.BudgetMemory) > 0
	switch {
	case p.Kind != request.PodLevel && (g.HasPool() || budget):
		return broken("it is a %s pod and has a pool or a budget of its own", p.Kind)
	case !evenBudget(p):
		return broken("its budget is %d CPUs and also %d thousandths of a CPU", p.BudgetCPUs, p.BudgetCPUMilli)
	case !g.Pool.IsEmpty() && (g.Pool.Len() > p.BudgetCPUs || p.BudgetCPUs > maxPool):
		return broken("its pool has CPUs %s, and its budget is %d", g.Pool, p.BudgetCPUs)
	}
	if left := func(c ContainerGrant) bool { return !c.Removed }; !g.Pool.IsEmpty() && !slices.ContainsFunc(g.Containers, left) {
		return broken("it has a pool, and all its containers are removed")
	}
	if len(g.PoolMemory) > 0 && !slices.EqualFunc(g.PoolMemory, p.BudgetMemory, func(b memory.Block, a request.Amount) bool {
		return b.Type == a.Resource && b.Size == a.Value && b.Nodes == g.PoolMemory[0].Nodes && b.Size <= maxBytes
	}) {
		return broken("its pool has %v, and its budget is %v", g.PoolMemory, p.BudgetMemory)
	}
	return nil
}

// evenBudget reports whether a budget of whole CPUs equals the budget in thousandths.
func evenBudget(p *request.Pod) bool {
	return p.BudgetCPUs == 0 || p.BudgetCPUMilli%1000 == 0 && p.BudgetCPUMilli/1000 == int64(p.BudgetCPUs)
}

// checkContainer proves that container i has what it asks for, its part of the pod's pool, or
// nothing. If serves is set, the pod has CPUs: then every container has those that it asks for.
func checkContainer(g *Grant, i int, serves bool) error {
	asks, has := &g.Pod.Containers[i], &g.Containers[i]
	nothing := has.CPUs.IsEmpty() && len(has.Memory) == 0 && len(has.Devices) == 0 && has.MemoryNodes.IsEmpty()
	switch {
	case has.Removed && !nothing:
		return fmt.Errorf("is removed and has CPUs %q, memory %v on %s and devices %v", has.CPUs, has.Memory, has.MemoryNodes.Text(), has.Devices)
	case has.Removed:
		return nil
	case !has.CPUs.IsEmpty() && (g.Pod.Kind == request.Unmanaged || g.Pod.QoS != request.Guaranteed):
		return fmt.Errorf("has CPUs %s, and its pod is %s and %s", has.CPUs, g.Pod.Kind, g.Pod.QoS)
	case has.CPUs.IsEmpty() && serves && (!g.Pool.IsEmpty() || asks.Exclusive()):
		return fmt.Errorf("has no CPUs, and other containers of its pod have theirs")
	case has.CPUs.Len() > asks.CPUs && (g.Pool.IsEmpty() || asks.Exclusive()):
		return fmt.Errorf("has CPUs %s and asks for %d", has.CPUs, asks.CPUs)
	}
	if err := checkMemory(g, i); err != nil {
		return err
	}
	for _, h := range has.Devices {
		if n, _ := asks.Devices.Get(h.Resource); n != int64(len(h.IDs)) {
			return fmt.Errorf("has devices %v of %s and asks for %d", h.IDs, h.Resource, n)
		}
	}
	return nil
}

// checkMemory proves that container i has its part of the pool, or what it asks for. A standard
// init container may have left some of it to a later container (R-MEM-41), or all of it (R-MEM-63).
func checkMemory(g *Grant, i int) error {
	asks, has := &g.Pod.Containers[i], &g.Containers[i]
	for k, b := range has.Memory {
		want, known := asks.Memory.Get(b.Type)
		if pool := slices.IndexFunc(g.PoolMemory, func(p memory.Block) bool { return p.Type == b.Type && p.Nodes == b.Nodes }); pool >= 0 {
			want, known = g.PoolMemory[pool].Size, true
		} else if len(g.PoolMemory) > 0 {
			known = false
		}
		less := len(g.PoolMemory) > 0 || asks.Type == request.Init
		if !known || b.Size > want || b.Size < want && !less || k > 0 && has.Memory[k-1].Type >= b.Type {
			return fmt.Errorf("has %s on %s, and has a right to %s", request.Words(b.Type, b.Size), b.Nodes.Text(), request.Words(b.Type, want))
		}
	}
	if nodes := nodesOf(has.Memory); nodes != has.MemoryNodes && (len(has.Memory) > 0 || asks.Type != request.Init) {
		return fmt.Errorf("is pinned to %s, and its memory is on %s", has.MemoryNodes.Text(), nodes.Text())
	}
	if (len(has.Memory) > 0 || !has.MemoryNodes.IsEmpty()) && (g.Pod.Kind == request.Unmanaged || g.Pod.QoS != request.Guaranteed) {
		return fmt.Errorf("has memory, and its pod is %s and %s", g.Pod.Kind, g.Pod.QoS)
	}
	return nil
}

func nodesOf(blocks []memory.Block) mask.Mask {
	var nodes mask.Mask
	for _, b := range blocks {
		nodes |= b.Nodes
	}
	return nodes
}

// lacks describes the CPUs that a pod asks for and does not have. It returns nothing under CPU
// policy none. A lack is no contradiction: the pod was admitted under policy none, or CPUs were
// missing when it was adopted.
func (s *State) lacks(g *Grant) []string {
	p := &g.Pod
	if !s.policy.StaticCPU || p.Kind == request.Unmanaged || g.CPUs().IsEmpty() && p.Kind == request.PodLevel && p.BudgetCPUs == 0 {
		return nil
	}
	var lines []string
	if n := g.Pool.Len(); n > 0 && n < p.BudgetCPUs {
		lines = append(lines, fmt.Sprintf("its pool has CPUs %s, and its budget is %d", g.Pool, p.BudgetCPUs))
	}
	for i, c := range g.Containers {
		if asks := p.Containers[i]; !c.Removed && c.CPUs.Len() < asks.CPUs {
			lines = append(lines, fmt.Sprintf("container %s asks for %d exclusive CPUs and has %s", asks.Name, asks.CPUs, cmp.Or(c.CPUs.String(), "none")))
		}
	}
	return lines
}
