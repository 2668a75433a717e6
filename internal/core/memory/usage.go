package memory

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Block is memory of one type on a set of NUMA nodes, held by a container or a pod.
type Block struct {
	Type  string
	Size  int64 // bytes
	Nodes mask.Mask
}

// Usage is what is held of a capacity: a value, every change makes a new one.
//
// Only sums over a group of NUMA nodes are meaningful: inside a group bytes are booked
// on the lowest node that has room (R-MEM-39), whoever they belong to.
type Usage struct {
	capacity *Capacity
	nodes    []nodeUsage // parallel to capacity.nodes
}

type nodeUsage struct {
	// assignments counts blocks on the node; group is the mask of the last, or the node
	// itself when there are none (R-MEM-20, R-MEM-21).
	assignments int
	group       mask.Mask
	reserved    []int64 // by type
}

// NewUsage is the usage of a node on which nobody holds anything.
func NewUsage(c *Capacity) Usage {
	u := Usage{capacity: c, nodes: make([]nodeUsage, len(c.nodes))}
	reserved := make([]int64, len(c.nodes)*len(c.types))
	for i, n := range c.nodes {
		u.nodes[i] = nodeUsage{group: mask.Of(n.ID), reserved: reserved[i*len(c.types):][:len(c.types):len(c.types)]}
	}
	return u
}

// Capacity is what the usage is of.
func (u Usage) Capacity() *Capacity { return u.capacity }

func (u Usage) clone() Usage {
	c := Usage{capacity: u.capacity, nodes: slices.Clone(u.nodes)}
	types := len(u.capacity.types)
	reserved := make([]int64, len(u.nodes)*types)
	for i := range c.nodes {
		at := reserved[i*types:][:types:types]
		copy(at, u.nodes[i].reserved)
		c.nodes[i].reserved = at
	}
	return c
}

// Charge books blocks. charged[i] is how many bytes of blocks[i] are new, the rest is
// reused from init containers; nil charges the full sizes. Place makes sure that there is room.
// Bytes for which there is none, because the machine shrank under running pods, leave the highest
// of the block's NUMA nodes overdrawn; the reference would drop them (R-MEM-39).
func (u Usage) Charge(blocks []Block, charged []int64) Usage {
	if len(blocks) == 0 {
		return u
	}
	u = u.clone()
	for i, b := range blocks {
		bytes := b.Size
		if charged != nil {
			bytes = charged[i]
		}
		t := u.capacity.typeIndex(b.Type)
		for n := range u.nodes {
			id := u.capacity.nodes[n].ID
			if !b.Nodes.Has(id) {
				continue
			}
			node := &u.nodes[n]
			node.assignments++
			node.group = b.Nodes
			if t < 0 {
				continue
			}
			part := max(0, min(bytes, u.free(n, t)))
			if id == b.Nodes.Highest() {
				part = bytes
			}
			node.reserved[t] += part
			bytes -= part
		}
	}
	return u
}

// Release takes blocks back that were charged before (R-MEM-62).
func (u Usage) Release(blocks []Block) Usage {
	if len(blocks) == 0 {
		return u
	}
	u = u.clone()
	for _, b := range blocks {
		bytes := b.Size
		t := u.capacity.typeIndex(b.Type)
		for n := range u.nodes {
			id := u.capacity.nodes[n].ID
			if !b.Nodes.Has(id) {
				continue
			}
			node := &u.nodes[n]
			node.assignments--
			if node.assignments == 0 {
				node.group = mask.Of(id)
			}
			if t < 0 {
				continue
			}
			part := min(bytes, node.reserved[t])
			node.reserved[t] -= part
			bytes -= part
		}
	}
	return u
}

// Equal tells whether two usages of the same machine agree in what is meaningful: the
// assignments and group of every NUMA node, and the bytes held in each group.
func (u Usage) Equal(v Usage) bool {
	if len(u.nodes) != len(v.nodes) {
		return false
	}
	for i := range u.nodes {
		if u.nodes[i].assignments != v.nodes[i].assignments || u.nodes[i].group != v.nodes[i].group {
			return false
		}
		for t := range u.capacity.types {
			if u.groupReserved(u.nodes[i].group, t) != v.groupReserved(u.nodes[i].group, t) {
				return false
			}
		}
	}
	return true
}

func (u Usage) groupReserved(group mask.Mask, t int) int64 {
	var sum int64
	for i := range u.nodes {
		if group.Has(u.capacity.nodes[i].ID) {
			sum += u.nodes[i].reserved[t]
		}
	}
	return sum
}

// NodeUsage is the state of one NUMA node for people and interfaces.
type NodeUsage struct {
	ID          int
	Assignments int
	Group       mask.Mask
	// Reserved and Free are bytes held and free, parallel to Capacity.Types.
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

// Free is how many bytes of a type the NUMA nodes have free together; 0 if they are overdrawn.
func (u Usage) Free(nodes mask.Mask, typ string) int64 {
	t := u.capacity.typeIndex(typ)
	if t < 0 {
		return 0
	}
	return max(0, u.freeOn(nodes, t))
}

// Overdrawn is how many bytes of a type more are held on the NUMA nodes than there are.
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
	for i := range u.nodes {
		if nodes.Has(u.capacity.nodes[i].ID) {
			sum += u.free(i, t)
		}
	}
	return sum
}
