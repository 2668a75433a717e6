package memory

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Excess is the difference between two usages on one set of NUMA nodes, in blocks and bytes.
// Negative numbers mean that the first usage has fewer.
type Excess struct {
	Nodes  mask.Mask
	Blocks int
	Bytes  []int64 // parallel to Capacity.Types
}

func (e *Excess) isEmpty() bool {
	return e.Blocks == 0 && !slices.ContainsFunc(e.Bytes, func(n int64) bool { return n != 0 })
}

// Beyond returns the differences of u from v, which must have the same capacity. The list is
// ascending by width and mask of the NUMA nodes. It is nil if the usages are equal.
func (u Usage) Beyond(v Usage) []Excess {
	var list []Excess
	for i, k := 0, 0; i < len(u.sums) || k < len(v.sums); {
		e := Excess{Bytes: make([]int64, len(u.capacity.types))}
		order := 1
		switch {
		case k == len(v.sums):
			order = -1
		case i < len(u.sums):
			order = u.sums[i].compare(v.sums[k].nodes)
		}
		if order <= 0 {
			e.add(&u.sums[i], 1)
			i++
		}
		if order >= 0 {
			e.add(&v.sums[k], -1)
			k++
		}
		if !e.isEmpty() {
			list = append(list, e)
		}
	}
	return list
}

func (e *Excess) add(s *sum, sign int) {
	e.Nodes = s.nodes
	e.Blocks += sign * s.blocks
	for t, n := range s.bytes {
		e.Bytes[t] += int64(sign) * n
	}
}

// Plus returns u with the excess of list added. Less is the inverse.
func (u Usage) Plus(list []Excess) Usage { return u.plus(list, 1) }

// Less returns u with the excess of list removed. It is the inverse of Plus.
func (u Usage) Less(list []Excess) Usage { return u.plus(list, -1) }

func (u Usage) plus(list []Excess, sign int) Usage {
	sums := slices.Clone(u.sums)
	for _, e := range list {
		i, found := slices.BinarySearchFunc(sums, e.Nodes, func(s sum, nodes mask.Mask) int { return s.compare(nodes) })
		s := sum{nodes: e.Nodes, bytes: make([]int64, len(u.capacity.types))}
		if found {
			s.blocks = sums[i].blocks
			copy(s.bytes, sums[i].bytes)
		} else {
			sums = slices.Insert(sums, i, s)
		}
		s.blocks += sign * e.Blocks
		for t, n := range e.Bytes {
			s.bytes[t] += int64(sign) * n
		}
		sums[i] = s
	}
	sums = slices.DeleteFunc(sums, func(s sum) bool {
		return s.blocks == 0 && !slices.ContainsFunc(s.bytes, func(n int64) bool { return n != 0 })
	})
	if u.kept {
		u.sums = sums
		return u
	}
	return newUsage(u.capacity, sums)
}

// Shared divides now into the part that old explains and the rest. For each set of NUMA nodes, it
// shares the amounts up to those of old. Both lists are ordered as by Beyond.
func Shared(old, now []Excess) (shared, rest []Excess) {
	for _, e := range now {
		i := slices.IndexFunc(old, func(o Excess) bool { return o.Nodes == e.Nodes })
		if i < 0 {
			rest = append(rest, e)
			continue
		}
		s, r := Excess{Nodes: e.Nodes, Bytes: make([]int64, len(e.Bytes))}, Excess{Nodes: e.Nodes, Bytes: make([]int64, len(e.Bytes))}
		s.Blocks = within(e.Blocks, old[i].Blocks)
		r.Blocks = e.Blocks - s.Blocks
		for t, n := range e.Bytes {
			s.Bytes[t] = within(n, old[i].Bytes[t])
			r.Bytes[t] = n - s.Bytes[t]
		}
		if !s.isEmpty() {
			shared = append(shared, s)
		}
		if !r.isEmpty() {
			rest = append(rest, r)
		}
	}
	return shared, rest
}

// within returns n limited to bound, or 0 if their signs differ.
func within[N int | int64](n, bound N) N {
	switch {
	case n > 0 && bound > 0:
		return min(n, bound)
	case n < 0 && bound < 0:
		return max(n, bound)
	}
	return 0
}
