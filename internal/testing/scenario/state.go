package scenario

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

func (n *Node) describeState() []string {
	s := n.state
	var lines []string
	if s.Policy().StaticCPU {
		lines = append(lines, fmt.Sprintf("node shared pool %s, reserved %s", orNone(s.SharedCPUs().String()), s.Policy().ReservedCPUs))
	}
	lines = append(lines, describeDegraded(s)...)
	if s.Policy().StaticMemory {
		lines = append(lines, describeMemory(s.Memory())...)
	}
	lines = append(lines, describeDevices(s.Devices())...)
	for _, g := range s.Grants() {
		lines = append(lines, n.describeGrant(g.Pod.Name, g)...)
	}
	if s.NumGrants() == 0 {
		lines = append(lines, "no pods")
	}
	return append(lines, describeResidue(s)...)
}

// describeResidue returns a line for each residue, which is what the grants do not explain.
func describeResidue(s *node.State) []string {
	var lines []string
	for _, r := range s.Residue() {
		line := r.String() + ":"
		if !r.CPUs.IsEmpty() {
			line += " CPUs " + r.CPUs.String()
		}
		if !r.Twice.IsEmpty() {
			line += " CPUs " + r.Twice.String() + " twice"
		}
		for _, e := range r.Memory {
			for t, n := range e.Bytes {
				if n != 0 {
					line += fmt.Sprintf(" %s of %s on %s", signed(n), s.Memory().Capacity().Types()[t], e.Nodes.Text())
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// signed returns a number of bytes as text. Negative bytes are assigned but not accounted for.
func signed(n int64) string {
	if n < 0 {
		return "-" + request.Bytes(-n)
	}
	return request.Bytes(n)
}

// describeMemory describes the memory accounting. There is one line for each NUMA node or group of
// NUMA nodes, because only the sums of a group have a meaning (R-MEM-72).
func describeMemory(u memory.Usage) []string {
	var t nodeTable
	capacity, nodes := u.Capacity(), u.Nodes()
	for i, n := range nodes {
		if n.Group.Lowest() < n.ID {
			continue
		}
		var row []string
		for k, typ := range capacity.Types() {
			var all, free int64
			listed := false
			for j, m := range nodes[i:] {
				if n.Group.Has(m.ID) {
					c := capacity.Nodes()[i+j].Types[k]
					listed = listed || c.Listed
					all, free = all+c.Allocatable, free+m.Free[k]
				}
			}
			cell := ""
			if listed {
				cell = fmt.Sprintf("%s %s of %s free", typ, request.Bytes(free), request.Bytes(all))
			}
			row = append(row, cell)
		}
		t.add(n.Group, row...)
	}
	return t.lines()
}

// describeGrant describes what a pod has: the title with its pool, and a line for each container.
func (n *Node) describeGrant(title string, g *node.Grant) []string {
	var assigned []string
	if !g.Pool.IsEmpty() {
		text := "CPUs " + g.Pool.String()
		if !g.PoolBaseline.IsEmpty() {
			text += ", admitted with " + g.PoolBaseline.String() + ","
		}
		assigned = append(assigned, text)
	}
	if len(g.PoolMemory) > 0 {
		assigned = append(assigned, blocks(g.PoolMemory))
	}
	if len(g.PoolCache) > 0 {
		assigned = append(assigned, g.PoolCache.String())
	}
	if len(assigned) > 0 {
		title += ": pool of " + strings.Join(assigned, " and ")
	}
	if quota.PodHasNone(g, n.state.Policy()) {
		title += ", no CFS quota for the pod"
	}
	t := table{indent: "  "}
	for i, q := range quota.Now(n.state, g).Containers {
		t.add(n.containerCells(g, i, q)...)
	}
	return append([]string{title}, t.lines()...)
}

func (n *Node) containerCells(g *node.Grant, i int, q quota.Quota) []string {
	c, asked := g.Containers[i], g.Pod.Containers[i]
	if c.Removed {
		return []string{asked.Type.String(), asked.Name, "removed"}
	}
	var cpus string
	switch {
	case !n.state.Policy().StaticCPU:
		cpus = "CPUs not managed"
	case c.CPUs.IsEmpty():
		cpus = "CPUs of the node shared pool"
	case g.Isolation(i) == node.PodIsolation:
		cpus = "CPUs " + c.CPUs.String() + " with its pod"
	default:
		cpus = "CPUs " + c.CPUs.String() + " alone"
		if !c.Baseline.IsEmpty() {
			cpus += ", admitted with " + c.Baseline.String()
		}
	}
	if len(c.Cache) > 0 {
		cpus += ", " + c.Cache.String()
	}
	mems := ""
	switch {
	case len(c.Memory) > 0:
		mems = blocks(c.Memory)
	case !c.MemoryNodes.IsEmpty():
		mems = "memory on " + c.MemoryNodes.String() + ", returned"
	case n.state.Policy().StaticMemory:
		mems = "memory not pinned"
	}
	limit := "" // set only if the quota is not the kubelet's
	switch q {
	case quota.Keep:
	case quota.None:
		limit = "no CFS quota"
	default:
		limit = fmt.Sprintf("CFS quota %d µs", q)
	}
	return []string{asked.Type.String(), asked.Name, cpus, mems, strings.TrimSpace(assignedText(n.devices, c.Devices) + " " + givenText(asked.Given)), limit}
}

// blocks returns a text such as "memory=1Gi on {0}". The blocks of one owner are always on the same
// NUMA nodes.
func blocks(assigned []memory.Block) string {
	parts := make([]string, len(assigned))
	for i, b := range assigned {
		parts[i] = b.Type + "=" + request.Bytes(b.Size)
	}
	return strings.Join(parts, " ") + " on " + assigned[0].Nodes.String()
}
