package fleet

import (
	"math"

	"github.com/paddock-project/paddock/internal/core/request"
)

// portion is what one NUMA node gives to a typical request: the whole request or, if that is larger
// than every NUMA node, one of several equal parts.
type portion struct {
	cpus   int
	memory int64 // bytes; 0 if only CPUs count
	parts  int64
}

// table has the typical requests for machines. For requests of which only CPUs count, it has the
// number of CPUs that they leave of the free CPUs of a NUMA node. This is a lookup because it is
// needed for every node, pod and NUMA node.
type table struct {
	machines
	memory   bool      // some portions have memory
	portions []portion // by weight
	// each is share * (free % part), by weight and number of free CPUs. all is the sum over the
	// weights. Weights whose memory counts contribute 0 to both.
	each [][]int64
	all  []int64
}

// newTable returns the table for machines.
func newTable(weights []weight, m machines) *table {
	t := &table{machines: m, all: make([]int64, m.size+1)}
	for _, w := range weights {
		p := portion{cpus: w.cpus, parts: 1}
		if m.size > 0 && p.cpus > m.size { // The part of each NUMA node if several give equal parts.
			nodes := (p.cpus + m.size - 1) / m.size
			p.cpus, p.parts = (p.cpus+nodes-1)/nodes, int64(nodes)
		}
		if m.pins {
			p.memory = (min(w.asks.Memory, maxMemory) + p.parts - 1) / p.parts
			t.memory = t.memory || p.memory > 0
		}
		each := make([]int64, m.size+1)
		for free := range each {
			if p.memory == 0 {
				each[free] = int64(free%p.cpus) * w.share
			}
			t.all[free] += each[free]
		}
		t.portions, t.each = append(t.portions, p), append(t.each, each)
	}
	return t
}

// of returns the sum over the possible weights. absent has the positions of the others.
func (t *table) of(free int, absent []int) int64 {
	sum := t.all[free]
	for _, w := range absent {
		sum -= t.each[w][free]
	}
	return sum
}

// room is the free CPUs and memory of a NUMA node. Memory is unlimited if it does not count.
type room struct {
	cpus   int
	memory int64
}

const (
	unlimited = math.MaxInt64
	maxMemory = 1 << 50 // More than any NUMA node has. The product with a number of CPUs fits an int64.
)

// fit returns the number of portions for which a NUMA node has room.
func (p *portion) fit(r room) int64 {
	n := int64(r.cpus / p.cpus)
	if n*p.memory > r.memory {
		n = max(0, r.memory) / p.memory
	}
	return n
}

// outlook has the requests that can come to a node after a pod: those that the amounts still allow.
// If memory counts, it includes requests that only lack memory, because all free CPUs are stranded
// for them. Other amounts are different: a node without free GPUs has CPUs for pods without GPUs.
type outlook struct {
	table  *table
	absent []int // positions of the weights that the amounts do not allow
	// possible is the total share of the other weights.
	possible int64
	// withMemory has the requests whose memory counts.
	withMemory []pressed
}

// pressed is a request whose memory counts. most is the number of portions that the node's amounts
// allow.
type pressed struct {
	portion *portion
	share   int64
	most    int64
}

func (v *View) outlook(used Amounts) outlook {
	o := outlook{table: v.table}
	for i := range v.ranking.weights {
		w := &v.ranking.weights[i]
		short := v.Allocatable.Short(used, w.asks)
		switch p := &v.table.portions[i]; {
		case short != "" && (p.memory == 0 || short != request.Memory):
			if o.absent == nil {
				o.absent = make([]int, 0, len(v.ranking.weights))
			}
			o.absent = append(o.absent, i)
			continue
		case p.memory > 0:
			if o.withMemory == nil {
				o.withMemory = make([]pressed, 0, len(v.ranking.weights))
			}
			o.withMemory = append(o.withMemory, pressed{p, w.share, max(0, v.Allocatable.Memory-used.Memory) / w.asks.Memory * p.parts})
		}
		o.possible += w.share
	}
	return o
}

// stranded returns the number of stranded CPUs on NUMA nodes with this room, in 1/unit of a CPU. If
// no request is possible, all free CPUs are stranded.
func (o *outlook) stranded(free []room) int64 {
	var left, total int64
	for _, r := range free {
		left += o.table.of(r.cpus, o.absent)
		total += int64(r.cpus)
	}
	for i := range o.withMemory {
		w := &o.withMemory[i]
		var fit int64
		for _, r := range free {
			fit += w.portion.fit(r)
		}
		left += w.left(total, fit)
	}
	return o.mean(left, total)
}

// left returns how many CPUs, weighted by share, the request leaves of the free CPUs if fit
// portions fit.
func (w *pressed) left(free, fit int64) int64 {
	return w.share * (free - min(fit, w.most)*int64(w.portion.cpus))
}

// mean returns the mean of left over the requests, in 1/unit of a CPU.
func (o *outlook) mean(left, free int64) int64 {
	if o.possible == 0 {
		return free * unit
	}
	return int64(float64(left) / float64(o.possible) * unit)
}
