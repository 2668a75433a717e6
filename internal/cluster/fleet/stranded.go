package fleet

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Stranded describes how much of the free CPUs of some nodes is stranded; see the package comment.
type Stranded struct {
	// Free counts the free CPUs. CPUs is the part of them that is stranded.
	Free int
	CPUs float64
	// Assumed is true if no request has exclusive CPUs, so that the typical requests are those that
	// NewRanking assumes.
	Assumed bool
	// Worst is the typical request that strands most of them. It is nil if none strands a CPU.
	Worst *Stranding
}

// Stranding is what one typical request strands.
type Stranding struct {
	// CPUs is the number of exclusive CPUs of the request, and Stranded how many CPUs are stranded
	// for this request alone.
	CPUs     int
	Stranded float64
	// Less is the largest number of CPUs below CPUs, and at least three quarters of it, with which
	// the request would strand at most half as much: Left. Less is 0 if there is none.
	Less int
	Left float64
}

// Alone returns the view of a node of which only the state is known, so that no amounts limit its
// pods. The typical requests are those of its pods with exclusive CPUs. If it has none, they are
// those of NewRanking without shapes.
func Alone(s *node.State) *View {
	const plenty = maxMemory // more CPU time, too, than any node has
	n := Node{State: s, Allocatable: Amounts{Milli: plenty, Memory: plenty, Pods: plenty}}
	return NewRanking(LeastStranded, Running(s, 1)).View(n)
}

// Running returns the requests with exclusive CPUs of the pods on a number of nodes in this state.
func Running(s *node.State, nodes int) []Shape {
	var shapes []Shape
	for g := range s.AllGrants() {
		if cpus := exclusive(&g.Pod); cpus > 0 {
			asks := Amounts{Milli: int64(cpus) * 1000, Memory: pinned(&g.Pod), Pods: 1}
			shapes = append(shapes, Shape{Pod{Pod: g.Pod, Asks: asks}, int64(nodes)})
		}
	}
	return shapes
}

// Stranded returns how many of the node's free CPUs are stranded.
func (v *View) Stranded() float64 {
	o := v.outlook(v.Used)
	return float64(o.byNUMANode(v.free)) / unit
}

// byNUMANode returns the sum of what is stranded on each NUMA node, in 1/unit of a CPU.
func (o *outlook) byNUMANode(free []room) (sum int64) {
	for k := range free {
		sum += o.stranded(free[k : k+1])
	}
	return sum
}

// Add adds what is stranded on a node. It does not change Worst.
func (s *Stranded) Add(v *View) {
	s.Free += v.total
	s.CPUs += v.Stranded()
}

// StrandedOn returns what is stranded on nodes that have the same ranking. The search for a smaller
// request views every node again for each number of CPUs that it tries.
func StrandedOn(views []*View) Stranded {
	var s Stranded
	if len(views) == 0 {
		return s
	}
	s.Assumed = views[0].ranking.assumed
	weights := views[0].ranking.weights
	alone := make([]int64, len(weights)) // CPUs that are stranded for each request alone
	for _, v := range views {
		s.Add(v)
		v.addAlone(alone)
	}
	worst, most := -1, 0.0
	for i, w := range weights {
		if weighted := float64(alone[i]) * float64(w.share); weighted > most {
			worst, most = i, weighted
		}
	}
	if worst >= 0 {
		s.Worst = &Stranding{CPUs: weights[worst].cpus, Stranded: float64(alone[worst])}
		s.Worst.lower(views, weights[worst])
	}
	return s
}

// addAlone adds for each typical request how many CPUs are stranded for it alone. It adds nothing
// for a request that something else than CPUs and memory keeps away.
func (v *View) addAlone(to []int64) {
	o := v.outlook(v.Used)
	next := 0 // of the requests whose memory counts
	for i := range v.ranking.weights {
		p := &v.table.portions[i]
		switch {
		case slices.Contains(o.absent, i):
		case p.memory == 0:
			for _, r := range v.free {
				to[i] += int64(r.cpus % p.cpus)
			}
		default:
			w := &o.withMemory[next]
			next++
			for _, r := range v.free {
				to[i] += int64(r.cpus) - min(p.fit(r), w.most)*int64(p.cpus)
			}
		}
	}
}

// lower looks for a smaller request that strands less.
func (s *Stranding) lower(views []*View, w weight) {
	for cpus := w.cpus - 1; cpus > 0 && cpus*4 >= w.cpus*3; cpus-- {
		less := w
		less.share, less.cpus = unit, cpus
		less.asks.Milli -= int64(w.cpus-cpus) * 1000
		ranking := &Ranking{scoring: LeastStranded, weights: []weight{less}, tables: map[machines]*table{}}
		left := 0.0
		for _, v := range views {
			left += ranking.View(v.Node).Stranded()
		}
		if left*2 <= s.Stranded {
			s.Less, s.Left = cpus, left
			return
		}
	}
}
