package memory

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Block is memory of one type on a set of NUMA nodes, assigned to a container or a pod.
type Block struct {
	Type  string
	Size  int64 // bytes
	Nodes mask.Mask
}

// Usage is what is assigned of a capacity: a value, every change makes a new one.
//
// It depends on the blocks that are charged and on nothing else: not on their order, and not on
// blocks that came and went between. What it keeps are sums for each set of NUMA nodes; how the
// bytes of a set are spread over its NUMA nodes follows from the sums, by one rule (layOut). The
// reference keeps that split and changes it with every block, so its result depends on the history
// of the node.
type Usage struct {
	capacity *Capacity
	sums     []sum       // ascending by width, then by mask: one for each set of NUMA nodes in use
	nodes    []nodeUsage // parallel to capacity.nodes; follows from sums
}

// sum is what blocks have on one set of NUMA nodes. It is never changed, only replaced.
type sum struct {
	nodes  mask.Mask
	blocks int     // how many blocks there are
	bytes  []int64 // by type
}

type nodeUsage struct {
	// assignments counts blocks on the NUMA node; group is the set that they are on, or the
	// NUMA node itself when there are none (R-MEM-20, R-MEM-21).
	assignments int
	group       mask.Mask
	reserved    []int64 // by type
}

// NewUsage is the usage of a node on which nothing is assigned.
func NewUsage(c *Capacity) Usage { return newUsage(c, nil) }

func newUsage(c *Capacity, sums []sum) Usage {
	u := Usage{capacity: c, sums: sums, nodes: make([]nodeUsage, len(c.nodes))}
	reserved := make([]int64, len(c.nodes)*len(c.types))
	for i, n := range c.nodes {
		u.nodes[i] = nodeUsage{group: mask.Of(n.ID), reserved: reserved[i*len(c.types):][:len(c.types):len(c.types)]}
	}
	for _, s := range sums {
		u.layOut(s)
	}
	return u
}

// layOut puts the bytes of one set on its NUMA nodes: the lowest is filled first, as the reference
// does for every block (R-MEM-39). Bytes for which there is no room, because the machine shrank
// under running pods, leave the highest NUMA node overdrawn; the reference would drop them.
func (u *Usage) layOut(s sum) {
	nodes := s.nodes & u.capacity.all
	for id := range nodes.All() {
		node := &u.nodes[u.capacity.index[id]]
		node.assignments += s.blocks
		node.group = s.nodes
	}
	for t, left := range s.bytes {
		for id := range nodes.All() {
			n, part := u.capacity.index[id], left
			if id != nodes.Highest() {
				part = max(0, min(part, u.free(n, t)))
			}
			u.nodes[n].reserved[t] += part
			left -= part
		}
	}
}

// Capacity is what the usage is of.
func (u Usage) Capacity() *Capacity { return u.capacity }

// Charge adds blocks. charged[i] is how many bytes of blocks[i] are new, the rest is
// reused from init containers; nil charges the full sizes. Place makes sure that there is room.
func (u Usage) Charge(blocks []Block, charged []int64) Usage {
	if len(blocks) == 0 {
		return u
	}
	sums := slices.Clone(u.sums)
	for i, b := range blocks {
		bytes := b.Size
		if charged != nil {
			bytes = charged[i]
		}
		sums = u.capacity.add(sums, b, 1, bytes)
	}
	return newUsage(u.capacity, sums)
}

// Release takes blocks back that were charged before (R-MEM-62).
func (u Usage) Release(blocks []Block) Usage {
	if len(blocks) == 0 {
		return u
	}
	sums := slices.Clone(u.sums)
	for _, b := range blocks {
		sums = u.capacity.add(sums, b, -1, -b.Size)
	}
	return newUsage(u.capacity, sums)
}

// add counts one block more or less in sums, which it changes, and returns them. A type that the
// machine does not have counts as a block without bytes.
func (c *Capacity) add(sums []sum, b Block, blocks int, bytes int64) []sum {
	i, found := slices.BinarySearchFunc(sums, b.Nodes, func(s sum, nodes mask.Mask) int {
		return cmp.Or(cmp.Compare(s.nodes.Len(), nodes.Len()), cmp.Compare(s.nodes, nodes))
	})
	s := sum{nodes: b.Nodes, bytes: make([]int64, len(c.types))}
	if found {
		s.blocks = sums[i].blocks
		copy(s.bytes, sums[i].bytes)
	}
	s.blocks += blocks
	if t := c.typeIndex(b.Type); t >= 0 {
		s.bytes[t] = max(0, s.bytes[t]+bytes)
	}
	switch {
	case s.blocks <= 0 && found:
		return slices.Delete(sums, i, i+1)
	case s.blocks <= 0:
		return sums
	case found:
		sums[i] = s
		return sums
	}
	return slices.Insert(sums, i, s)
}

// Equal reports whether two usages of the same machine are the same.
func (u Usage) Equal(v Usage) bool {
	return len(u.nodes) == len(v.nodes) && slices.EqualFunc(u.sums, v.sums, func(a, b sum) bool {
		return a.nodes == b.nodes && a.blocks == b.blocks && slices.Equal(a.bytes, b.bytes)
	})
}

// NodeUsage is the state of one NUMA node for people and interfaces.
type NodeUsage struct {
	ID          int
	Assignments int
	Group       mask.Mask
	// Reserved and Free are bytes assigned and free, parallel to Capacity.Types.
	Reserved, Free []int64
}

// Nodes lists every NUMA node, ascending by id.
func (u Usage) Nodes() []NodeUsage {
	out := make([]NodeUsage, len(u.nodes))
	for i, n := range u.nodes {
		out[i] = NodeUsage{ID: u.capacity.nodes[i].ID, Assignments: n.assignments, Group: n.group, Reserved: slices.Clone(n.reserved)}
		for t := range n.reserved {
			out[i].Free = append(out[i].Free, max(0, u.free(i, t)))
		}
	}
	return out
}

// Serving returns how the NUMA nodes of m serve memory now: together, in groups that may reach
// beyond m, or one by one. Neither joins another group (R-MEM-22).
func (u Usage) Serving(m mask.Mask) (groups []mask.Mask, single mask.Mask) {
	for i, n := range u.nodes {
		switch id := u.capacity.nodes[i].ID; {
		case !m.Has(id) || n.assignments == 0:
		case n.group.Len() == 1:
			single = single.With(id)
		case !slices.Contains(groups, n.group):
			groups = append(groups, n.group)
		}
	}
	return groups, single
}

// Free is how many bytes of a type the NUMA nodes have free together; 0 if they are overdrawn.
func (u Usage) Free(nodes mask.Mask, typ string) int64 {
	t := u.capacity.typeIndex(typ)
	if t < 0 {
		return 0
	}
	return max(0, u.freeOn(nodes, t))
}

// Overdrawn is how many more bytes of a type are assigned on the NUMA nodes than they have.
func (u Usage) Overdrawn(nodes mask.Mask, typ string) int64 {
	t := u.capacity.typeIndex(typ)
	if t < 0 {
		return 0
	}
	return max(0, -u.freeOn(nodes, t))
}

// free is negative on a NUMA node that is overdrawn.
func (u Usage) free(node, t int) int64 {
	return u.capacity.nodes[node].Types[t].Allocatable - u.nodes[node].reserved[t]
}

func (u Usage) freeOn(nodes mask.Mask, t int) int64 {
	var sum int64
	for id := range (nodes & u.capacity.all).All() {
		sum += u.free(u.capacity.index[id], t)
	}
	return sum
}
