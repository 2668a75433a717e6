package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// notFurther ends the summary of every search that did not check everything.
const notFurther = "not searched further"

// amounts looks for the largest amount of each resource that the pod could have with all other
// amounts unchanged. If no single resource helps, it lowers several of them together. The summary
// is "none" only if no amounts at all would be admitted. If that is not known, because the search
// has reached its bound or cannot check every combination, the summary is that it was not searched
// further.
func (x *search) amounts() ([]Proposal, string) {
	x.limit = x.allowed(maxAmountPlans)
	resources := x.resources()
	x.what = "less " + strings.Join(resources, ", less ")
	if len(resources) == 0 {
		x.what = ""
		return nil, ""
	}
	var found []Proposal
	hopeless := x.hopeless(resources)
	for _, resource := range resources {
		if p, ok := x.raised(resource); ok {
			x.what = "other amounts of " + strings.Join(resources, ", ")
			found = append(found, p)
		}
		if hopeless {
			continue
		}
		for _, who := range x.subjects() {
			if lowered, ok := x.most(x.pod, x.axisOf(x.pod, resource, who)); ok {
				found = append(found, x.amountProposal(x.grown(lowered)))
				break
			}
		}
	}
	if len(found) > 0 {
		return found, x.ended(fmt.Sprintf("%d would admit it", len(found)), "; larger amounts were "+notFurther)
	}
	for _, who := range x.subjects() {
		if hopeless {
			break
		}
		if p, ok := x.less(resources, who); ok {
			return []Proposal{p}, x.ended("only less of several at once would admit it", "; other combinations, such as less of one with more of another, were "+notFurther)
		}
	}
	if x.cut {
		return nil, "none found; " + notFurther
	}
	for _, resource := range resources { // The API server may limit how far a pool can be lowered.
		if !x.pools(resource) {
			continue
		}
		least := Change{Resource: resource, To: x.unit(resource)}.apply(x.pod)
		if why := AgainstAPI(capped(least, resource, "", 0)); why.Text != "" { // Applies to containers that share, because slices can be small.
			x.rule = why.Rule
			return nil, "none admits it that the API server takes: of less, " + why.Text
		}
	}
	return nil, "none admits it, however little"
}

// ended adds more to a summary if the search did not check everything.
func (x *search) ended(found, more string) string {
	if !x.cut {
		return found
	}
	return strings.TrimPrefix(found, "only ") + more
}

// resources returns the resources that can be lowered. The one that was short comes first.
func (x *search) resources() []string {
	var all []string
	add := func(resource string, n int64) {
		if n > 0 && !slices.Contains(all, resource) {
			all = append(all, resource)
		}
	}
	asks := func(a *node.Ask) {
		add(request.CPU, int64(a.CPUs))
		for _, d := range a.Devices {
			add(d.Resource, d.Value)
		}
		for _, m := range a.Memory {
			add(m.Resource, m.Value)
		}
	}
	for i := range x.trace.Demand.Containers {
		asks(&x.trace.Demand.Containers[i].Ask)
	}
	if x.trace.Demand.Path == node.AsPool {
		asks(&x.trace.Demand.Together)
	}
	slices.SortStableFunc(all, func(a, b string) int { return first(b == x.rejection.Resource) - first(a == x.rejection.Resource) })
	return all
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// subjects returns the containers whose amounts are lowered: first the rejected one, then all, for
// which the name is empty.
func (x *search) subjects() []string {
	if x.rejection.Container == "" || x.trace.Demand.Path == node.AsPool {
		return []string{""}
	}
	return []string{x.rejection.Container, ""}
}

// most returns the pod with the largest admitted amount of one resource that is below its current
// amount.
//
// Admission is not monotone: under restricted, 60 CPUs may fit on two NUMA nodes while 40 CPUs fit
// nowhere, because 40 CPUs must fit on one. So most tries every amount at which the answer can
// change, the largest first. If there are too many, it tries a few of them and bisects above the
// first one that is admitted.
func (x *search) most(pod request.Pod, a axis) (request.Pod, bool) {
	fits := func(n int64) (request.Pod, bool) {
		lowered, ok := x.lower(pod, a, n)
		if !ok || sameAmounts(lowered, pod) || x.plan(x.state, lowered) == nil {
			return pod, false
		}
		return lowered, true
	}
	if len(a.values) > (x.limit-x.plans)/2 {
		return x.roughly(pod, a, fits)
	}
	for i, n := range a.values {
		lowered, ok := fits(n)
		switch {
		case ok && (i == 0 || a.complete):
			return lowered, true
		case ok:
			x.cut = true
			return x.between(lowered, n, a.values[i-1], a.unit, fits), true
		}
	}
	x.cut = x.cut || !a.complete
	return pod, false
}

// samples is the number of amounts to try if there are too many to try all.
const samples = 8

// roughly tries a few amounts, the largest first, and bisects between the first admitted one and
// the one before it.
func (x *search) roughly(pod request.Pod, a axis, fits func(int64) (request.Pod, bool)) (request.Pod, bool) {
	step := max(1, (len(a.values)-1)/min(samples, max(1, x.limit/2)))
	for i := 0; i < len(a.values); i += step {
		best, ok := fits(a.values[i])
		x.cut = x.cut || !ok || i > 0
		switch {
		case ok && i == 0:
			return best, true
		case ok:
			return x.between(best, a.values[i], a.values[i-step], a.unit, fits), true
		}
	}
	if n := len(a.values); n > 1 && (n-1)%step != 0 {
		if best, ok := fits(a.values[n-1]); ok {
			return x.between(best, a.values[n-1], a.values[(n-1)/step*step], a.unit, fits), true
		}
	}
	return pod, false
}

// between looks for an amount above low, which is admitted and gives best, and below high, which is
// rejected.
func (x *search) between(best request.Pod, low, high, unit int64, fits func(int64) (request.Pod, bool)) request.Pod {
	for high-low > unit && !x.spent() {
		middle := low + (high-low)/2/unit*unit
		if middle == low {
			middle += unit
		}
		if p, ok := fits(middle); ok {
			low, best = middle, p
		} else {
			high = middle
		}
	}
	return best
}

// pools reports whether the resource comes from a pod-level pool.
func (x *search) pools(resource string) bool {
	return x.trace.Demand.Path == node.AsPool && (resource == request.CPU || request.IsMemory(resource))
}

// unit returns the step in which a resource is lowered: whole cores under full-pcpus-only, MiB of
// memory, huge pages, or otherwise single CPUs and devices.
func (x *search) unit(resource string) int64 {
	switch {
	case resource == request.CPU && x.state.Policy().CPU.FullPCPUsOnly:
		return int64(max(1, x.state.Machine().CPUsPerCore()))
	case resource == machine.Memory:
		return 1 << 20
	case request.IsMemory(resource):
		for _, n := range x.state.Machine().Nodes() {
			for _, h := range n.HugePages {
				if machine.HugePageType(h.SizeKiB) == resource {
					return h.SizeKiB << 10
				}
			}
		}
	}
	return 1
}

// sums returns how much of a resource the largest NUMA node, the two largest, and so on could ever
// have together.
func sums(s *node.State, resource string) []int64 {
	var sizes []int64
	switch t := s.Machine().MemoryType(resource); {
	case resource == request.CPU:
		for _, n := range s.Machine().CPUNodes() {
			sizes = append(sizes, int64(n.Size))
		}
	case t >= 0:
		for _, n := range s.Memory().Capacity().Nodes() {
			sizes = append(sizes, n.Types[t].Allocatable)
		}
	}
	return largestSums(sizes)
}

// less lowers several resources together, in one container or in all, as far as necessary, and then
// raises them again one by one.
func (x *search) less(resources []string, who string) (Proposal, bool) {
	var axes []axis
	for _, resource := range resources {
		if who != "" && highest(x.pod, resource, who, false) == 0 {
			continue
		}
		a := x.axisOf(x.pod, resource, who)
		x.cut = x.cut || !a.complete || !x.simple(x.pod, resource)
		if !a.pool { // A pool's values have the present amount.
			a.values = slices.Insert(a.values, 0, highest(x.pod, resource, who, false))
		}
		axes = append(axes, a)
	}
	least, ok := x.agreeing(axes)
	if ok {
		x.cut = true // It is not the only way.
	} else if least, ok = x.smallest(axes); !ok {
		return Proposal{}, false
	}
	for _, a := range axes {
		whole := applied(least, slices.DeleteFunc(difference(least, x.pod), func(c Change) bool { return c.Resource != a.resource }))
		if sameAmounts(whole, least) {
			continue
		}
		if x.plan(x.state, whole) != nil {
			least = whole
		} else if grown, ok := x.most(whole, a); ok {
			least = grown
		}
	}
	return x.amountProposal(x.grown(least)), true
}

// agreeing lowers the resources to what a number of NUMA nodes could ever have of each, and returns
// the first such pod that is admitted, for the largest number of NUMA nodes. The policies want the
// resources of a pod to agree on the number, and this takes the least away.
func (x *search) agreeing(axes []axis) (request.Pod, bool) {
	for size := len(x.state.Machine().Nodes()) - 1; size > 0; size-- {
		pod, ok := x.pod, true
		for _, a := range axes {
			if sizes := x.sizes(a.resource); ok && size <= len(sizes) {
				pod, ok = x.lower(pod, a, sizes[size-1]/a.unit*a.unit)
			}
		}
		if ok && !sameAmounts(pod, x.pod) && x.plan(x.state, pod) != nil {
			return pod, true
		}
		if x.spent() {
			return x.pod, false
		}
	}
	return x.pod, false
}

// grown raises the amounts of containers again that a common limit lowered unnecessarily. In the
// result, no single amount of the pod can be larger with the others unchanged.
func (x *search) grown(lowered request.Pod) request.Pod {
	changes := difference(x.pod, lowered)
	if len(changes) < 2 {
		return lowered // The single change is already the largest.
	}
	for again := true; again; changes = difference(x.pod, lowered) {
		again = false
		for _, c := range changes {
			if more, ok := x.raise(lowered, c); ok {
				lowered, again = more, true
			}
		}
	}
	return lowered
}

// raise raises the amount of one change as far as it can.
func (x *search) raise(pod request.Pod, c Change) (request.Pod, bool) {
	with := func(n int64) request.Pod {
		return Change{Container: c.Container, Resource: c.Resource, To: n}.apply(pod)
	}
	slice := x.pools(c.Resource) && c.Container != ""
	fits := func(n int64) (request.Pod, bool) {
		more := with(n)
		return more, AgainstAPI(more).Text == "" && (!slice || x.shared(more, c.Resource)) && x.plan(x.state, more) != nil
	}
	if more, ok := fits(c.From); ok {
		return more, true
	}
	if slice { // Smaller slices leave more to the other containers.
		more := x.between(pod, c.To, c.From, x.unit(c.Resource), fits)
		x.cut = x.cut || x.spent()
		return more, !sameAmounts(more, pod)
	}
	a := x.axisOf(with(c.From), c.Resource, c.Container)
	for _, n := range a.values {
		if n <= c.To {
			break
		}
		if more, ok := fits(n); ok {
			return more, true
		}
	}
	x.cut = x.cut || !a.complete
	return pod, false
}

// shared reports whether the pool of the changed pod leaves as much, in proportion, to the
// containers that share as the pool of the original pod; see lower.
func (x *search) shared(changed request.Pod, resource string) bool {
	limit, unit := budgetOf(changed, resource), x.unit(resource)
	fair := pieces(x.pod, resource).fair(budgetOf(x.pod, resource), limit, unit, sliceUnit(resource, unit))
	return pieces(changed, resource).divides(limit, math.MaxInt64, fair)
}

// smallest tries all combinations of amounts, the smallest first, and returns the first that is
// admitted.
func (x *search) smallest(axes []axis) (request.Pod, bool) {
	at := make([]int, len(axes)) // counted from the smallest value
	for i := range axes {
		// Skip amounts that are too small for the pod's containers. If an amount is feasible, so
		// are larger ones.
		a := &axes[i]
		n, _ := slices.BinarySearchFunc(a.values, true, func(n int64, _ bool) int {
			if _, ok := x.lower(x.pod, *a, n); ok {
				return -1
			}
			return 1
		})
		if a.values = a.values[:n]; n == 0 {
			return x.pod, false
		}
	}
	for {
		pod, ok := x.pod, true
		for i, a := range axes {
			if ok {
				pod, ok = x.lower(pod, a, a.values[len(a.values)-1-at[i]])
			}
		}
		if ok && x.plan(x.state, pod) != nil {
			return pod, true
		}
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < len(axes[i].values) {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return x.pod, false
		}
		if x.spent() {
			x.cut = true
			return x.pod, false
		}
	}
}

func (x *search) amountProposal(pod request.Pod) Proposal {
	changes := difference(x.pod, pod)
	p := Proposal{Kind: Amounts, Changes: changes, Text: changesText(changes)}
	if plan := x.state.Plan(pod); plan.Grant != nil {
		p.Outcome = outcome(x.state, plan)
	}
	x.plans++
	return p
}

// raised handles rejections that a slightly larger amount cures: a pool that leaves nothing to
// share, or a number of CPUs that is not a whole number of cores.
func (x *search) raised(resource string) (Proposal, bool) {
	if resource != x.rejection.Resource {
		return Proposal{}, false
	}
	pod, unit := x.pod, x.unit(resource)
	switch x.trace.Cause {
	case rejection.PoolEmpty, rejection.PoolNotAligned:
		pod = Change{Resource: resource, To: x.rejection.Wanted + unit}.apply(pod)
	case rejection.PartialCores:
		c := Change{Container: x.rejection.Container, Resource: resource, To: (x.rejection.Wanted + unit - 1) / unit * unit}
		if x.trace.Demand.Path == node.AsPool {
			c.Container = ""
		}
		pod = c.apply(pod)
	default:
		return Proposal{}, false
	}
	if AgainstAPI(pod).Text != "" || x.plan(x.state, pod) == nil {
		return Proposal{}, false
	}
	return x.amountProposal(pod), true
}

// changesText returns a text such as "ask for 40 CPUs instead of 48 and 95Gi of memory instead of
// 112Gi in container query".
func changesText(changes []Change) string {
	var who []string
	what := map[string][]string{}
	for _, c := range changes {
		name := "at pod level"
		if c.Container != "" {
			name = "in container " + c.Container
		}
		if what[name] == nil {
			who = append(who, name)
		}
		what[name] = append(what[name], c.Instead())
	}
	more := len(who) - maxNamed
	if more > 1 {
		who = who[:maxNamed]
	}
	for i, name := range who {
		who[i] = strings.Join(what[name], " and ") + " " + name
	}
	text := "ask for " + strings.Join(who, ", ")
	if more > 1 {
		text += fmt.Sprintf(", and for less in %d more containers", more)
	}
	return text
}

// maxNamed bounds the number of containers that the text of a proposal names.
const maxNamed = 8
