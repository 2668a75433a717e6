package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Scoring is the method by which the fleet chooses among the nodes that take a pod.
type Scoring int

//go:generate go tool stringer -type=Scoring -linecomment -output=enum_string.go

// The scorings.
const (
	// LeastStranded leaves the fewest stranded CPUs behind; see the package comment.
	LeastStranded Scoring = iota // least-stranded
	// LeastAllocated and MostAllocated compare the sums of CPU and memory requests with what is
	// allocatable, as NodeResourcesFit in the scheduler does with equal weights.
	LeastAllocated // least-allocated
	MostAllocated  // most-allocated
	// BestFit keeps what is left of each NUMA node useful; see the package comment.
	BestFit // best-fit
)

// Scorings returns all scorings.
func Scorings() []Scoring { return []Scoring{LeastStranded, LeastAllocated, MostAllocated, BestFit} }

// Cost is the cost of placing a pod on a node. Less is better. The first field that differs
// decides.
type Cost struct {
	// Stranded is the growth of stranded CPUs, weighted over the typical requests, in 1/unit of a
	// CPU. With another Scoring, it is the negated score in millionths.
	Stranded int64
	// NUMANodes is the number of NUMA nodes that the pod uses. Uncores is the number of uncore
	// caches on which it would be the first pod with exclusive CPUs.
	NUMANodes, Uncores int32
	// Left is the CPU time that remains allocatable, in thousandths of a CPU.
	Left int64
}

// Compare returns a negative number if c is less than d.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.Stranded, d.Stranded), cmp.Compare(c.NUMANodes, d.NUMANodes),
		cmp.Compare(c.Uncores, d.Uncores), cmp.Compare(c.Left, d.Left))
}

func (c Cost) less(d Cost) bool { return c.Compare(d) < 0 }

// unit is the weight of all typical requests together. Costs are sums of free CPUs times weights.
// 2^20 leaves room for 2^43 CPUs and can represent a request with a frequency of one in a million.
const unit = 1 << 20

// weight is a typical request. share is its frequency in 1/unit.
type weight struct {
	cpus  int
	asks  Amounts
	share int64
}

// Shape is a request and the number of pods with it.
type Shape struct {
	Pod   Pod
	Count int64
}

// Ranking compares nodes by a scoring and the typical requests. It never changes, and any number of
// goroutines may use it.
type Ranking struct {
	scoring Scoring
	weights []weight
	assumed bool // no shape has exclusive CPUs
	shapes  []Shape
	mu      sync.Mutex // for tables
	tables  map[machines]*table
	kinds   kinds     // for BestFit alone
	scratch sync.Pool // of *node.Scratch
}

// NewRanking returns a ranking. The typical requests are those of shapes with exclusive CPUs: if
// there are more than maxWeighed, those with the most CPU time in all. If there are none, it
// assumes requests for 1, 2, 4, 8, 16 and 32 CPUs with equal frequency.
func NewRanking(scoring Scoring, shapes []Shape) *Ranking {
	r := &Ranking{scoring: scoring, shapes: shapes, tables: map[machines]*table{}}
	var total int64
	merged, milli := map[string]*weight{}, map[string]int64{}
	for _, s := range shapes {
		cpus, asks := s.Pod.exclusive()
		if cpus == 0 || s.Count <= 0 {
			continue
		}
		key := string(asks.AppendKey(fmt.Appendf(nil, "%d ", cpus)))
		if merged[key] == nil {
			merged[key] = &weight{cpus: cpus, asks: asks}
		}
		merged[key].share += s.Count
		milli[key] += s.Count * asks.Milli
	}
	kept := mostOf(milli)
	for _, key := range kept {
		total += merged[key].share
	}
	r.assumed = total == 0
	for cpus := 1; r.assumed && cpus <= 32; cpus *= 2 {
		merged[fmt.Sprint(cpus)] = &weight{cpus: cpus, asks: Amounts{Milli: int64(cpus) * 1000, Pods: 1}, share: 1}
		kept = append(kept, fmt.Sprint(cpus))
		total++
	}
	for _, key := range kept {
		w := merged[key]
		w.share = int64(float64(w.share) / float64(total) * unit)
		r.weights = append(r.weights, *w)
	}
	return r
}

// machines identifies the nodes of a table: their largest NUMA node has size CPUs, and pins is
// true if they assign memory.
type machines struct {
	size int
	pins bool
}

// table returns the table of a node.
func (r *Ranking) table(s *node.State) *table {
	policy := s.Policy()
	m := machines{largest(s), policy.StaticMemory}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tables[m]
	if t == nil {
		t = newTable(r.weights, m)
		r.tables[m] = t
	}
	return t
}

// exclusive returns the exclusive CPUs and the amounts of a pod on the nodes that give it the most.
func (pod *Pod) exclusive() (cpus int, asks Amounts) {
	cpus, asks = exclusive(&pod.Pod), pod.Asks
	for _, r := range pod.Readings {
		if n := exclusive(&request.Pod{Ask: r.Ask}); n > cpus {
			cpus, asks = n, r.Asks
		}
	}
	return cpus, asks
}

// exclusive returns the number of exclusive CPUs that a pod needs at the same time. The managers
// ignore an Unmanaged pod (R-DEM-26).
func exclusive(pod *request.Pod) int {
	if pod.Kind == request.Unmanaged {
		return 0
	}
	if pod.BudgetCPUs > 0 {
		return pod.BudgetCPUs
	}
	together, worst := 0, 0
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.Type == request.Init {
			worst = max(worst, c.CPUs)
		} else {
			together += c.CPUs
		}
	}
	return max(together, worst)
}

// largest returns the largest number of allocatable CPUs on one NUMA node.
func largest(s *node.State) int {
	most := 0
	for _, n := range s.Machine().CPUNodes() {
		most = max(most, n.CPUs.IntersectionLen(s.AllocatableCPUs()))
	}
	return most
}

// leftMilli returns the CPU time that is left on a node after a pod.
func (v *View) leftMilli(pod *Pod) int64 {
	return v.Allocatable.Milli - v.Used.Milli - pod.Asks.Milli
}

// leastCost returns a lower bound of costOf for every grant of the pod on a node. The class keeps
// what the pod takes of a kind of node.
func (v *View) leastCost(pod *Pod, c *Class) Cost {
	cost := Cost{Left: v.leftMilli(pod)}
	switch v.ranking.scoring {
	case BestFit:
		takes, known := c.takes[v.fitting]
		if !known {
			takes = v.fitting.relaxed.takingOf(pod, v.State.Policy())
			c.takes[v.fitting] = takes
		}
		return v.leastFit(pod, takes)
	case LeastAllocated, MostAllocated:
		cost.Stranded = v.allocated(pod)
		return cost
	case LeastStranded:
	}
	cpus := exclusive(&pod.Pod)
	if cpus == 0 {
		return cost
	}
	cost.NUMANodes = 1
	if v.single(cpus) && takesAtOnce(&pod.Pod) {
		cost.Stranded = v.onOne(cpus, pinned(&pod.Pod), v.Used.Plus(pod.Asks))
	}
	cost.Stranded -= v.stranded // The bound for what remains stranded is otherwise 0.
	return cost
}

// single reports whether a node admits a pod with this many CPUs only if one NUMA node has them
// all. Under policy restricted, the preferred width depends on the total CPUs of NUMA nodes
// (R-HINT-31), so a pod that fits on an empty NUMA node must be on one.
func (v *View) single(cpus int) bool {
	policy := v.State.Policy()
	if policy.Scope != node.PodScope || cpus > v.table.size || policy.CPU.AlignBySocket { // A socket has several NUMA nodes.
		return false
	}
	return policy.Topology == node.TopologySingleNUMANode || policy.Topology == node.TopologyRestricted
}

// takesAtOnce reports whether a pod takes exactly the number of CPUs that exclusive returns. Init
// containers may take more CPUs than the other containers leave them to share.
func takesAtOnce(pod *request.Pod) bool {
	return pod.BudgetCPUs > 0 || !slices.ContainsFunc(pod.Containers, func(c request.Container) bool { return c.Type == request.Init && c.CPUs > 0 })
}

// pinned returns a lower bound of the memory that a pod gets near its CPUs. For most pods it is all
// of it.
func pinned(pod *request.Pod) int64 {
	if pod.QoS != request.Guaranteed || pod.Kind == request.Unmanaged {
		return 0
	}
	if pod.Kind == request.PodLevel {
		bytes, _ := pod.BudgetMemory.Get(request.Memory)
		return bytes
	}
	var sum int64
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.Type == request.App {
			bytes, _ := c.Memory.Get(request.Memory)
			sum += bytes
		}
	}
	return sum
}

// onOne returns a lower bound of what is stranded if one NUMA node gives all CPUs and at least
// bytes of memory. If no NUMA node has enough, it returns 0, because the node will reject the pod.
func (v *View) onOne(cpus int, bytes int64, used Amounts) int64 {
	type candidate struct {
		before, after room
		left          int64
	}
	var buffer [8]candidate
	candidates := buffer[:0]
	for _, r := range v.free {
		c := candidate{before: r, after: room{r.cpus - cpus, r.memory}}
		if r.memory != unlimited {
			c.after.memory -= bytes
		}
		if c.after.cpus >= 0 && c.after.memory >= 0 && !slices.Contains(candidates, c) { // NUMA nodes with the same room are equivalent.
			candidates = append(candidates, c)
		}
	}
	o, total := v.outlook(used), int64(v.total-cpus)
	var now int64
	for _, r := range v.free {
		now += o.table.of(r.cpus, o.absent)
	}
	for i := range candidates {
		c := &candidates[i]
		c.left = now - o.table.of(c.before.cpus, o.absent) + o.table.of(c.after.cpus, o.absent)
	}
	for i := range o.withMemory {
		w := &o.withMemory[i]
		var fit int64
		for _, r := range v.free {
			fit += w.portion.fit(r)
		}
		for i := range candidates {
			c := &candidates[i]
			c.left += w.left(total, fit-w.portion.fit(c.before)+w.portion.fit(c.after))
		}
	}
	if len(candidates) == 0 {
		return 0
	}
	least := slices.MinFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.left, b.left) })
	return o.mean(least.left, total)
}

// costOf returns the cost of a grant in the node's current state.
func (v *View) costOf(pod *Pod, g *node.Grant) Cost {
	cost := Cost{Left: v.leftMilli(pod)}
	switch v.ranking.scoring {
	case BestFit:
		return v.fitOf(pod, g)
	case LeastAllocated, MostAllocated:
		cost.Stranded = v.allocated(pod)
		return cost
	case LeastStranded:
	}
	cpus := g.CPUs()
	if cpus.IsEmpty() {
		return cost
	}
	var buffer [8]room // Enough for most machines.
	free := append(buffer[:0], v.free...)
	for k, n := range v.State.Machine().CPUNodes() {
		if took := n.CPUs.IntersectionLen(cpus); took > 0 {
			free[k].cpus -= took
			cost.NUMANodes++
		}
	}
	v.setMemory(free, g)
	o := v.outlook(v.Used.Plus(pod.Asks))
	cost.Stranded = o.stranded(free) - v.stranded
	available := v.State.AvailableCPUs()
	for _, u := range v.State.Machine().Uncores() {
		if u.CPUs.Intersects(cpus) && available.Contains(u.CPUs.Intersection(v.State.AllocatableCPUs())) {
			cost.Uncores++
		}
	}
	return cost
}

// allocated returns the negated score of LeastAllocated and MostAllocated.
func (v *View) allocated(pod *Pod) int64 {
	const million = 1_000_000
	share := func(used, allocatable int64) int64 {
		if allocatable <= 0 {
			return 0
		}
		return used * million / allocatable
	}
	used := v.Used.Plus(pod.Asks)
	taken := (share(used.Milli, v.Allocatable.Milli) + share(used.Memory>>20, v.Allocatable.Memory>>20)) / 2
	if v.ranking.scoring == MostAllocated {
		return -taken
	}
	return taken
}
