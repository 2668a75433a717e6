package memory

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Block is memory of one type on a set of NUMA nodes, assigned to a container or a pod.
type Block struct {
	Type  string
	Size  int64 // bytes
	Nodes mask.Mask
}

// Usage is the memory of a capacity that is assigned. It is a value: every change makes a new one.
//
// A Usage depends only on the charged blocks, not on their order and not on blocks that were
// released in between. It keeps sums for each set of NUMA nodes. The sums determine how the bytes
// of a set are spread over its NUMA nodes, by one rule (layOut).
//
// A kubelet keeps that split in its state file and changes it with every block, so its answers
// depend on the history of the Kubernetes node, and on whether a NUMA node served a block
// alone or in a group last. Kept and Found return a Usage that does the same.
type Usage struct {
	capacity *Capacity
	sums     []sum       // ascending by width, then by mask: one for each set of NUMA nodes in use
	nodes    []nodeUsage // parallel to capacity.nodes; follows from sums unless kept is set
	// kept is set if nodes change with each block, as in a kubelet.
	kept bool
}

// sum is the total of the blocks on one set of NUMA nodes. It is never changed, only replaced.
type sum struct {
	nodes  mask.Mask
	blocks int     // number of blocks
	bytes  []int64 // by type
}

// compare orders sums by width and then by mask.
func (s *sum) compare(nodes mask.Mask) int {
	return cmp.Or(cmp.Compare(s.nodes.Len(), nodes.Len()), cmp.Compare(s.nodes, nodes))
}

type nodeUsage struct {
	// assignments is the number of blocks on the NUMA node. group is the set of NUMA nodes that the
	// last one is on, or the NUMA node itself if there are none (R-MEM-20, R-MEM-21).
	assignments int
	group       mask.Mask
	reserved    []int64 // by type
}

// NewUsage returns the usage of a Kubernetes node on which nothing is assigned.
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

// layOut spreads the bytes of one set over its NUMA nodes. It fills the lowest NUMA node first, as
// the reference does for every block (R-MEM-39). If the machine shrank under running pods, there
// may not be room for all bytes. The rest then makes the highest NUMA node overdrawn; the reference
// would drop it.
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

// Capacity returns the capacity that the usage refers to.
func (u Usage) Capacity() *Capacity { return u.capacity }

// Charge adds blocks. charged[i] is the number of bytes of blocks[i] that are new; the rest is
// reused from init containers. If charged is nil, the full sizes are charged. Charge does not check
// that there is room; Place does.
func (u Usage) Charge(blocks []Block, charged []int64) Usage {
	if len(blocks) == 0 {
		return u
	}
	sums := slices.Grow(slices.Clone(u.sums), 1)
	for from := 0; from < len(blocks); {
		end := from + together(blocks[from:])
		var part []int64
		if charged != nil {
			part = charged[from:end]
		}
		sums = u.capacity.add(sums, blocks[from:end], 1, part)
		from = end
	}
	if !u.kept {
		return newUsage(u.capacity, sums)
	}
	next := u.with(sums)
	for i, b := range blocks {
		bytes := b.Size
		if charged != nil {
			bytes = charged[i]
		}
		next.charge(b, bytes)
	}
	return next
}

// Release removes blocks that were charged before (R-MEM-62).
func (u Usage) Release(blocks []Block) Usage {
	if len(blocks) == 0 {
		return u
	}
	sums := slices.Clone(u.sums)
	for from := 0; from < len(blocks); {
		end := from + together(blocks[from:])
		sums = u.capacity.add(sums, blocks[from:end], -1, nil)
		from = end
	}
	if !u.kept {
		return newUsage(u.capacity, sums)
	}
	next := u.with(sums)
	for _, b := range blocks {
		next.release(b)
	}
	return next
}

// together returns how many of the first blocks are on the same set of NUMA nodes.
func together(blocks []Block) int {
	n := 1
	for n < len(blocks) && blocks[n].Nodes == blocks[0].Nodes {
		n++
	}
	return n
}

// add adds blocks on one set of NUMA nodes to sums if times is 1, and removes them if times is -1.
// It changes and returns sums. charged is the number of bytes that count for each block. If nil,
// all bytes count. A block of a type that the machine does not have counts as a block without
// bytes.
func (c *Capacity) add(sums []sum, blocks []Block, times int64, charged []int64) []sum {
	i, found := slices.BinarySearchFunc(sums, blocks[0].Nodes, func(s sum, nodes mask.Mask) int { return s.compare(nodes) })
	s := sum{nodes: blocks[0].Nodes, blocks: int(times) * len(blocks)}
	if found {
		s.blocks += sums[i].blocks
	}
	switch {
	case s.blocks <= 0 && found:
		return slices.Delete(sums, i, i+1)
	case s.blocks <= 0:
		return sums
	}
	s.bytes = make([]int64, len(c.types))
	if found {
		copy(s.bytes, sums[i].bytes)
	}
	for k, b := range blocks {
		bytes := b.Size
		if charged != nil {
			bytes = charged[k]
		}
		if t := c.typeIndex(b.Type); t >= 0 {
			s.bytes[t] = max(0, s.bytes[t]+times*bytes)
		}
	}
	if found {
		sums[i] = s
		return sums
	}
	return slices.Insert(sums, i, s)
}

// Equal reports whether two usages of the same machine have the same blocks.
func (u Usage) Equal(v Usage) bool {
	return len(u.nodes) == len(v.nodes) && slices.EqualFunc(u.sums, v.sums, func(a, b sum) bool {
		return a.nodes == b.nodes && a.blocks == b.blocks && slices.Equal(a.bytes, b.bytes)
	})
}

// AppendKey appends bytes that are the same for two usages of one capacity exactly if they are
// Equal. No key is the beginning of another one.
func (u Usage) AppendKey(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(u.sums)))
	for _, s := range u.sums {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.nodes)), uint64(s.blocks)) //nolint:gosec // A key keeps every bit.
		for _, bytes := range s.bytes {
			b = binary.AppendUvarint(b, uint64(bytes)) //nolint:gosec // As above.
		}
	}
	return b
}

// NodeUsage is the state of one NUMA node, for output.
type NodeUsage struct {
	ID          int
	Assignments int
	Group       mask.Mask
	// Reserved is the number of assigned bytes, Free the number of free bytes. Both are parallel to
	// Capacity.Types.
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

// Serving returns how the NUMA nodes of m serve memory now: in groups, which may contain NUMA nodes
// outside m, or as single NUMA nodes. Neither can join another group (R-MEM-22).
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

// Free returns the number of bytes of a type that are free on the NUMA nodes together, or 0 if they
// are overdrawn.
func (u Usage) Free(nodes mask.Mask, typ string) int64 {
	t := u.capacity.typeIndex(typ)
	if t < 0 {
		return 0
	}
	return max(0, u.freeOn(nodes, t))
}

// Overdrawn returns by how many bytes of a type the assignments on the NUMA nodes exceed what they
// have.
func (u Usage) Overdrawn(nodes mask.Mask, typ string) int64 {
	t := u.capacity.typeIndex(typ)
	if t < 0 {
		return 0
	}
	return max(0, -u.freeOn(nodes, t))
}

// Overcommitted reports whether the blocks of a type do not fit on their NUMA nodes, however they
// are split.
func (u Usage) Overcommitted(typ string) bool {
	fresh, t := newUsage(u.capacity, u.sums), u.capacity.typeIndex(typ)
	if t < 0 {
		return true
	}
	for i := range fresh.nodes {
		if fresh.free(i, t) < 0 {
			return true
		}
	}
	return false
}

// free returns the free bytes, which are negative if the NUMA node is overdrawn.
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
