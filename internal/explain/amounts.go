package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// amounts looks for the most that the pod could have of each resource, the others as they are, and,
// where no single resource helps, of all.
func (x *search) amounts() ([]Proposal, string) {
	x.limit = maxAmountPlans
	resources := x.resources()
	x.what = "less " + strings.Join(resources, ", less ")
	if len(resources) == 0 {
		x.what = ""
		return nil, ""
	}
	var found []Proposal
	for _, resource := range resources {
		if p, ok := x.raised(resource); ok {
			found = append(found, p)
		}
		for _, who := range x.subjects() {
			if lowered, ok := x.most(x.pod, resource, who); ok {
				found = append(found, x.amountProposal(lowered))
				break
			}
		}
	}
	if len(found) > 0 {
		return found, fmt.Sprintf("%d would admit it", len(found))
	}
	if p, ok := x.less(resources); ok {
		return []Proposal{p}, "only less of all would admit it"
	}
	if x.spent() {
		return nil, "none found within the bound of the search"
	}
	if why := x.barred(resources); why != "" {
		return nil, "none admits it that the API server takes: of less, " + why
	}
	return nil, "none admits it, however little"
}

// barred is why the API server sets an end to the lowering of a pool; empty: nothing does.
func (x *search) barred(resources []string) string {
	for _, resource := range resources {
		if !x.pools(resource) {
			continue
		}
		least := Change{Resource: resource, To: x.unit(resource)}.apply(x.pod)
		if why := AgainstAPI(capped(least, resource, "", 0)); why != "" { // Of those that share: slices can be small.
			return why
		}
	}
	return ""
}

// resources are what can be lowered, the one that was short first.
func (x *search) resources() []string {
	var all []string
	add := func(resource string, n int64) {
		if n > 0 && !slices.Contains(all, resource) {
			all = append(all, resource)
		}
	}
	policy := x.state.Policy()
	for _, c := range x.pod.Containers {
		if policy.StaticCPU && x.pod.Kind != request.Unmanaged {
			add(request.CPU, int64(c.CPUs))
		}
		for _, d := range c.Devices {
			if x.state.Devices().Inventory().Has(d.Resource) {
				add(d.Resource, d.Value)
			}
		}
		if policy.StaticMemory && x.pod.QoS == request.Guaranteed && x.pod.Kind != request.Unmanaged {
			for _, a := range c.Memory {
				add(a.Resource, a.Value)
			}
		}
	}
	if pooled(policy, x.pod) {
		if policy.StaticCPU {
			add(request.CPU, int64(x.pod.BudgetCPUs))
		}
		for _, a := range x.pod.BudgetMemory {
			if policy.StaticMemory && x.pod.QoS == request.Guaranteed {
				add(a.Resource, a.Value)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return first(b == x.refusal.Resource) - first(a == x.refusal.Resource) })
	return all
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// subjects are whose amounts are lowered: the container that was refused, then all.
func (x *search) subjects() []string {
	if x.refusal.Container == "" || pooled(x.state.Policy(), x.pod) {
		return []string{""}
	}
	return []string{x.refusal.Container, ""}
}

// most is the pod with the most of one resource that is admitted, less than it asks for now.
//
// Admission is not monotone: 60 CPUs may fit two NUMA nodes under restricted where 40 fit none, as
// 40 must fit one. It is between the amounts at which the preferred number of NUMA nodes changes,
// so that each such stretch is looked at by itself, the highest first.
func (x *search) most(pod request.Pod, resource, who string) (request.Pod, bool) {
	unit, want := x.unit(resource), highest(pod, resource, who, x.pools(resource))
	fits := func(n int64) (request.Pod, bool) {
		lowered, ok := lower(pod, resource, who, n*unit, unit, x.pools(resource))
		if !ok || lowered.Equal(pod) || x.plan(x.state, lowered) == nil {
			return pod, false
		}
		return lowered, true
	}
	top := (want - 1) / unit
	if x.pools(resource) {
		top = want / unit // As much for the pod, but smaller slices.
	}
	for _, stretch := range x.stretches(resource, unit, top) {
		low, high := stretch[0], stretch[1]
		best, ok := fits(high)
		if ok {
			return best, true
		}
		if best, ok = fits(low); !ok {
			continue
		}
		for high-low > 1 {
			middle := low + (high-low)/2
			if p, ok := fits(middle); ok {
				low, best = middle, p
			} else {
				high = middle
			}
		}
		return best, true
	}
	return pod, false
}

// pools tells whether the resource is a pod-level pool's.
func (x *search) pools(resource string) bool {
	return pooled(x.state.Policy(), x.pod) && (resource == request.CPU || isMemory(resource))
}

// unit is the step in which a resource is lowered: whole cores under full-pcpus-only, MiB, pages.
func (x *search) unit(resource string) int64 {
	switch {
	case resource == request.CPU && x.state.Policy().CPU.FullPCPUsOnly:
		return int64(max(1, x.state.Machine().CPUsPerCore()))
	case resource == machine.Memory:
		return 1 << 20
	case isMemory(resource):
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

// maxStretches bounds how many stretches are looked at.
const maxStretches = 24

// stretches cut 1…top where the preferred number of NUMA nodes changes, and once or twice more, in
// units, the highest first.
func (x *search) stretches(resource string, unit, top int64) [][2]int64 {
	if top < 1 {
		return nil
	}
	ends := []int64{top, top / 2, top / 4}
	for _, sum := range sums(x.state, resource) {
		ends = append(ends, sum/unit)
	}
	ends = slices.DeleteFunc(ends, func(n int64) bool { return n < 1 || n > top })
	slices.SortFunc(ends, func(a, b int64) int { return int(min(max(b-a, -1), 1)) })
	ends = slices.Compact(ends)
	ends = ends[:min(len(ends), maxStretches)]
	var out [][2]int64
	for i, end := range ends {
		low := int64(1)
		if i+1 < len(ends) {
			low = ends[i+1] + 1
		}
		out = append(out, [2]int64{low, end})
	}
	return out
}

// sums are what the largest NUMA node, the two largest, … could ever have of a resource.
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
	slices.Sort(sizes)
	slices.Reverse(sizes)
	for i := 1; i < len(sizes); i++ {
		sizes[i] += sizes[i-1]
	}
	return sizes
}

// less lowers all resources as far as it goes, and lets them grow again one by one.
func (x *search) less(resources []string) (Proposal, bool) {
	least := x.pod
	for _, resource := range resources {
		unit := x.unit(resource)
		lowered, ok := lower(least, resource, "", unit, unit, x.pools(resource))
		for n := int64(2); !ok && n <= 64; n *= 2 {
			lowered, ok = lower(least, resource, "", n*unit, unit, x.pools(resource))
		}
		if !ok {
			return Proposal{}, false
		}
		least = lowered
	}
	if x.plan(x.state, least) == nil {
		return Proposal{}, false
	}
	for k, resource := range resources {
		// The others as they were found so far; this one as much as fits.
		whole := x.pod
		for i, other := range resources {
			if i != k {
				whole = adopt(whole, least, other)
			}
		}
		if x.plan(x.state, whole) != nil {
			least = whole
		} else if grown, ok := x.most(whole, resource, ""); ok {
			least = grown
		}
	}
	return x.amountProposal(least), true
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

// raised is for refusals that a little more cures: a pool that leaves nothing to share, a number
// of CPUs that is no whole number of cores.
func (x *search) raised(resource string) (Proposal, bool) {
	if resource != x.refusal.Resource {
		return Proposal{}, false
	}
	pod, unit := x.pod, x.unit(resource)
	switch x.refusal.Rule {
	case "R-DEM-61", "R-DEM-62", "R-DEM-64":
		pod = Change{Resource: resource, To: x.refusal.Wanted + unit}.apply(pod)
	case "R-CPU-70":
		to := (x.refusal.Wanted + unit - 1) / unit * unit
		if pooled(x.state.Policy(), pod) {
			pod = Change{Resource: resource, To: to}.apply(pod)
		} else {
			pod = Change{Container: x.refusal.Container, Resource: resource, To: to}.apply(pod)
		}
	default:
		return Proposal{}, false
	}
	if AgainstAPI(pod) != "" || x.plan(x.state, pod) == nil {
		return Proposal{}, false
	}
	return x.amountProposal(pod), true
}

// changesText is "ask for 40 CPUs instead of 48 and 95Gi of memory instead of 112Gi in container query".
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
		to := Amount{c.Resource, c.To}
		text := to.Text()
		if isMemory(c.Resource) {
			text = to.Quantity() + " of " + c.Resource
		}
		what[name] = append(what[name], fmt.Sprintf("%s instead of %s", text, Amount{c.Resource, c.From}.Quantity()))
	}
	for i, name := range who {
		who[i] = strings.Join(what[name], " and ") + " " + name
	}
	return "ask for " + strings.Join(who, ", ")
}
