package memory

import (
	"cmp"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Kept returns the usage as one whose NUMA nodes change with each block from now on, as in a
// kubelet.
func (u Usage) Kept() Usage {
	u.kept = true
	return u
}

// Found returns the usage as that of a kubelet whose file has these NUMA nodes. What they have and
// the blocks do not explain, or lack, is in Beyond. The nodes must be those of the machine,
// ascending.
func (u Usage) Found(nodes []NodeUsage) Usage {
	found := Usage{capacity: u.capacity, nodes: make([]nodeUsage, len(nodes)), kept: true}
	for i, n := range nodes {
		found.nodes[i] = nodeUsage{assignments: n.Assignments, group: n.Group, reserved: n.Reserved}
	}
	found.sums = u.plus(found.unexplained(u), 1).sums
	return found
}

// unexplained returns what the NUMA nodes have beyond those of v. It compares sets of NUMA nodes
// that have blocks together in one of the two, because how the bytes of such a set are split has no
// cause.
func (u Usage) unexplained(v Usage) (list []Excess) {
	var seen mask.Mask
	for id := range u.capacity.all.All() {
		if seen.Has(id) {
			continue
		}
		together := u.together(v, mask.Of(id))
		seen |= together
		e := Excess{Nodes: together, Bytes: make([]int64, len(u.capacity.types))}
		for id := range together.All() {
			has, expected := &u.nodes[u.capacity.index[id]], &v.nodes[u.capacity.index[id]]
			for t := range e.Bytes {
				e.Bytes[t] += has.reserved[t] - expected.reserved[t]
			}
			if d := has.assignments - expected.assignments; d*d > e.Blocks*e.Blocks { // It can have fewer, too.
				e.Blocks = d
			}
		}
		if !e.isEmpty() {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Excess) int {
		return cmp.Or(cmp.Compare(a.Nodes.Len(), b.Nodes.Len()), cmp.Compare(a.Nodes, b.Nodes))
	})
	return list
}

// together returns m with all NUMA nodes that are in a group with one of them, in u or in v.
func (u Usage) together(v Usage, m mask.Mask) mask.Mask {
	for {
		more := m
		for i := range u.nodes {
			for _, group := range []mask.Mask{u.nodes[i].group, v.nodes[i].group} {
				if group &= u.capacity.all; !(more & group).IsEmpty() {
					more |= group
				}
			}
		}
		if more == m {
			return m
		}
		m = more
	}
}

// with returns a copy with these sums. Its NUMA nodes can be changed.
func (u Usage) with(sums []sum) Usage {
	next := Usage{capacity: u.capacity, sums: sums, nodes: slices.Clone(u.nodes), kept: true}
	types := len(u.capacity.types)
	reserved := make([]int64, len(next.nodes)*types)
	for i := range next.nodes {
		own := reserved[i*types:][:types:types]
		copy(own, next.nodes[i].reserved)
		next.nodes[i].reserved = own
	}
	return next
}

// charge adds one block as a kubelet does (R-MEM-39): the lowest NUMA node is filled first, and
// bytes for which there is no room are dropped.
func (u *Usage) charge(b Block, bytes int64) {
	t := u.capacity.typeIndex(b.Type)
	for id := range (b.Nodes & u.capacity.all).All() {
		i := u.capacity.index[id]
		n := &u.nodes[i]
		n.assignments++
		n.group = b.Nodes
		if t >= 0 {
			part := max(0, min(bytes, u.free(i, t)))
			n.reserved[t] += part
			bytes -= part
		}
	}
}

// release removes one block as a kubelet does (R-MEM-62).
func (u *Usage) release(b Block) {
	t, bytes := u.capacity.typeIndex(b.Type), b.Size
	for id := range (b.Nodes & u.capacity.all).All() {
		n := &u.nodes[u.capacity.index[id]]
		if n.assignments--; n.assignments <= 0 {
			n.assignments, n.group = 0, mask.Of(id)
		}
		if t >= 0 {
			part := max(0, min(bytes, n.reserved[t]))
			n.reserved[t] -= part
			bytes -= part
		}
	}
}

// SameNodes reports whether two usages of the same machine have the same bytes assigned on each
// NUMA node, in the same groups, so that they decide alike. Equal compares their blocks.
func (u Usage) SameNodes(v Usage) bool {
	return slices.EqualFunc(u.nodes, v.nodes, func(a, b nodeUsage) bool {
		return a.group == b.group && (a.assignments > 0) == (b.assignments > 0) && slices.Equal(a.reserved, b.reserved)
	})
}

// Alone returns the NUMA nodes that are in a group and served a block alone last, and those
// of them on which such a block still is. A kubelet that starts computes the groups again from the
// blocks: it rejects its file where none is left, and otherwise if it counts the group last.
func (u Usage) Alone() (all, left mask.Mask) {
	var single mask.Mask
	fresh := newUsage(u.capacity, u.sums)
	for i, n := range u.nodes {
		if id := u.capacity.nodes[i].ID; n.group.Len() == 1 && fresh.nodes[i].group.Len() > 1 {
			all = all.With(id)
		}
	}
	for _, s := range u.sums {
		if s.nodes.Len() == 1 {
			single |= s.nodes
		}
	}
	return all, all & single
}
