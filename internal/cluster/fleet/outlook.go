package fleet

import (
	"math"

	"github.com/paddock-project/paddock/internal/core/request"
)

// portion is what one NUMA node gives to a typical request: all of it or, of one that is larger
// than every NUMA node, one of so many equal parts.
type portion struct {
	cpus   int
	memory int64 // 0: only CPUs count
	parts  int64
}

// table is the typical requests on machines. Of those of which only CPUs count it has what they
// leave of the free CPUs of a NUMA node: a lookup, because it is asked for every node, pod and NUMA
// node.
type table struct {
	machines
	memory   bool      // of some portions
	portions []portion // by weight
	// each is share * (free % part), by weight and number of free CPUs; all is the sum over the
	// weights. Where memory counts both are 0.
	each [][]int64
	all  []int64
}

// newTable makes the table for machines.
func newTable(weights []weight, m machines) *table {
	t := &table{machines: m, all: make([]int64, m.size+1)}
	for _, w := range weights {
		p := portion{cpus: w.cpus, parts: 1}
		if m.size > 0 && p.cpus > m.size { // What each NUMA node gives if several give the same.
			nodes := (p.cpus + m.size - 1) / m.size
			p.cpus, p.parts = (p.cpus+nodes-1)/nodes, int64(nodes)
		}
		if m.near {
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

// of is the sum over the weights that are possible. Absent are the positions of the others.
func (t *table) of(free int, absent []int) int64 {
	sum := t.all[free]
	for _, w := range absent {
		sum -= t.each[w][free]
	}
	return sum
}

// room is what a NUMA node has free. Memory is unlimited where it does not count.
type room struct {
	cpus   int
	memory int64
}

const (
	unlimited = math.MaxInt64
	maxMemory = 1 << 50 // More than any NUMA node has. Times a number of CPUs it is an int64.
)

// fit is how many portions a NUMA node has room for.
func (p *portion) fit(r room) int64 {
	n := int64(r.cpus / p.cpus)
	if n*p.memory > r.memory {
		n = max(0, r.memory) / p.memory
	}
	return n
}

// outlook is what can come to a node after a pod: the requests that the amounts still allow. Where
// memory counts, also those that only lack memory: all free CPUs are stranded for them. Other
// amounts are not like that: a node without free GPUs has CPUs for pods without GPUs.
type outlook struct {
	table  *table
	absent []int // positions of the weights that the amounts do not allow
	// possible is the share of the others.
	possible int64
	// withMemory are those whose memory counts.
	withMemory []pressed
}

// pressed is a request whose memory counts, with the number of portions that the node's amounts
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
		short := v.Allocatable.short(used, w.asks)
		switch p := &v.table.portions[i]; {
		case short != "" && (p.memory == 0 || short != request.Memory):
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

// stranded is how many CPUs are stranded on NUMA nodes with that room. Where no request is possible
// it is all.
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

// left is what the request leaves of so many free CPUs, of which so many portions fit.
func (w *pressed) left(free, fit int64) int64 {
	return w.share * (free - min(fit, w.most)*int64(w.portion.cpus))
}

// mean is the mean over the requests of what they leave.
func (o *outlook) mean(left, free int64) int64 {
	if o.possible == 0 {
		return free * unit
	}
	return int64(float64(left) / float64(o.possible) * unit)
}
