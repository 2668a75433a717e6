package search

import (
	"math"
	"math/bits"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Problem is a set of NUMA nodes, and bins for the NUMA nodes that are not kept. To state a
// problem, call Reset, then AddBin for each bin, AddDimension for each of the bin's dimensions,
// AddLoad for each load that several NUMA nodes have together, and Finish.
type Problem struct {
	nodes mask.Mask
	bins  []bin
	// capacity is indexed by dimension. load is what a NUMA node takes of the capacity:
	// load[t*stride+x] is for dimension t and NUMA node x. parts is the same as load, in parts of
	// the capacity (see part).
	capacity []int64
	load     []int64
	parts    []uint32
	stride   int
	joints   []joint
	// pinned NUMA nodes fit into no bin, so every answer keeps them. free NUMA nodes take nothing
	// from one of the bins, so they never prevent an answer.
	pinned, free mask.Mask
}

// bin has the dimensions from first to end, without end. open has the NUMA nodes that may be
// dropped into it.
type bin struct {
	open       mask.Mask
	first, end int
	// copied means that the bin before this one has the same dimensions and loads.
	copied bool
}

// joint is a load that counts once all of nodes are in the bin. For example, two NUMA nodes that
// offer a device together lose it together. With capacity 0, at least one of nodes must be kept or
// go into another bin.
type joint struct {
	nodes       mask.Mask
	bin, dim    int
	load, parts int64
}

// Reset starts a problem with the given NUMA nodes. It reuses the memory of the previous problem.
func (p *Problem) Reset(nodes mask.Mask) {
	p.nodes, p.stride = nodes, nodes.Highest()+1
	p.bins, p.capacity, p.joints = p.bins[:0], p.capacity[:0], p.joints[:0]
	p.load, p.parts = p.load[:0], p.parts[:0]
}

// Nodes returns the NUMA nodes of the problem.
func (p *Problem) Nodes() mask.Mask { return p.nodes }

// AddBin adds a bin that takes only the NUMA nodes of open. If copied is true, the caller gives it
// the same dimensions and loads as the bin before it.
func (p *Problem) AddBin(open mask.Mask, copied bool) {
	t := len(p.capacity)
	p.bins = append(p.bins, bin{open: open & p.nodes, first: t, end: t, copied: copied})
}

// AddDimension adds a dimension to the last bin. The capacity must not be negative. It returns the
// loads of single NUMA nodes by id, which are all 0. The caller sets them before it adds another
// dimension; they must not be negative either.
func (p *Problem) AddDimension(capacity int64) []int64 {
	p.capacity = append(p.capacity, capacity)
	p.bins[len(p.bins)-1].end = len(p.capacity)
	size := len(p.load)
	p.load = slices.Grow(p.load, p.stride)[:size+p.stride]
	clear(p.load[size:])
	return p.load[size:]
}

// AddLoad makes the last dimension lose load once all of nodes are dropped into its bin. nodes must
// not be empty, and load must not be negative.
func (p *Problem) AddLoad(nodes mask.Mask, load int64) {
	dim := len(p.capacity) - 1
	if nodes.Len() == 1 {
		at := &p.load[dim*p.stride+nodes.Lowest()]
		*at = Add(*at, load)
		return
	}
	for i := range p.joints {
		if j := &p.joints[i]; j.nodes == nodes && j.dim == dim {
			j.load = Add(j.load, load)
			return
		}
	}
	p.joints = append(p.joints, joint{nodes: nodes, bin: len(p.bins) - 1, dim: dim, load: load})
}

// Finish completes the problem: it closes bins for the NUMA nodes that do not fit, removes joint
// loads that cannot occur, and finds the pinned and the free NUMA nodes.
func (p *Problem) Finish() {
	p.pinned, p.free = p.nodes, 0
	for i := range p.bins {
		b := &p.bins[i]
		unloaded := b.open
		for t := b.first; t < b.end; t++ {
			for x := range b.open.All() {
				load := p.load[t*p.stride+x]
				if load > 0 {
					unloaded = unloaded.Without(x)
				}
				if load > p.capacity[t] {
					b.open = b.open.Without(x)
				}
			}
		}
		p.pinned &^= b.open
		p.joints = slices.DeleteFunc(p.joints, func(j joint) bool {
			return j.bin == i && (j.load == 0 || !b.open.Contains(j.nodes))
		})
		for k := range p.joints {
			if p.joints[k].bin == i {
				unloaded &^= p.joints[k].nodes
			}
		}
		p.free |= unloaded
	}
}

// divide expresses all loads as parts of their capacity. Fewest often does not need them.
func (p *Problem) divide() {
	p.parts = slices.Grow(p.parts, len(p.load))[:len(p.load)]
	for t, capacity := range p.capacity {
		for x := range p.nodes.All() {
			p.parts[t*p.stride+x] = uint32(part(p.load[t*p.stride+x], capacity))
		}
	}
	for i := range p.joints {
		p.joints[i].parts = part(p.joints[i].load, p.capacity[p.joints[i].dim])
	}
}

// whole is the number of parts of a capacity. 2^20 keeps prices times parts, summed over all NUMA
// nodes and thousands of dimensions, below 2^63. It keeps the error of rounding 64 loads below 0.01
// % of a capacity.
const whole = 1 << 20

// part returns a load in parts of the capacity, rounded down. A load above the capacity, which
// cannot be taken, counts as the whole capacity.
func part(load, capacity int64) int64 {
	if load >= capacity {
		return min(load, 1) * whole
	}
	if load < math.MaxInt64/whole {
		return load * whole / capacity
	}
	high, low := bits.Mul64(uint64(load), whole)
	parts, _ := bits.Div64(high, low, uint64(capacity))
	return int64(parts)
}

// Add returns the sum of two amounts that are not negative, capped at the largest int64.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
