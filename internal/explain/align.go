package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// most bounds the number of sets of NUMA nodes of one size that are checked. It is the number of
// pairs of 64 NUMA nodes. If there are more sets, they are described by what they must offer.
const most = 2016

// maxJudged bounds the number of sets of NUMA nodes that one decision checks. With 64 NUMA nodes,
// this is enough for about 25 alignments.
const maxJudged = 50_000

// maxLosers bounds the number of listed sets that were not chosen.
const maxLosers = 64

// maxDevices bounds the number of given devices that a sentence about one set names.
const maxDevices = 3

// Alignment is one question to the Topology Manager.
type Alignment struct {
	// Container is the name of the aligned container. It is empty for the pod as a whole.
	Container string `json:"container,omitempty"`
	Fits      []Fit  `json:"fits,omitempty"`
	// NUMANodes are the chosen NUMA nodes. It is empty if no affinity is stored.
	NUMANodes []int `json:"numaNodes,omitempty"`
	Preferred bool  `json:"preferred"`
	// Admitted is false if this alignment rejects the pod: because of the policy, or because no
	// NUMA nodes have enough memory, which only shows when memory is placed (R-HINT-34).
	Admitted bool `json:"admitted"`
	// Why describes why the set was chosen, or why no set could be.
	Why  string `json:"why"`
	Rule string `json:"rule,omitempty"`
	// Losers are other sets, the nearest first. If many containers are aligned one by one, losers
	// are computed only for the first containers, as far as maxJudged allows, and for the last.
	Losers []Loser `json:"losers,omitempty"`
	// Steps is the number of steps that the search took.
	Steps int `json:"steps"`
}

// Fit describes where one resource fits.
type Fit struct {
	Resource string   `json:"resource"`
	Wanted   []Amount `json:"wanted,omitempty"`
	// Given has the names of the devices that were chosen for the pod elsewhere. Nothing else of
	// the resource is then requested.
	Given []string `json:"given,omitempty"`
	// Preferred is the number of NUMA nodes of a preferred set: the smallest number that could ever
	// have room for the request.
	Preferred int `json:"preferred,omitempty"`
	// Sets describes the smallest sets of NUMA nodes that have room for the request now. Size is
	// the number of their NUMA nodes. It is 0 if the request fits nowhere or has no preference.
	Sets string `json:"sets"`
	Size int    `json:"size,omitempty"`
	Rule string `json:"rule,omitempty"`
}

// Loser is a set of NUMA nodes that was not chosen.
type Loser struct {
	NUMANodes []int `json:"numaNodes"`
	// Fits is true if all resources fit there.
	Fits bool   `json:"fits"`
	Why  string `json:"why"`
	Rule string `json:"rule,omitempty"`
}

// alignmentOf explains one alignment. If wanted is true, it also looks for losers. judged is the
// number of sets that it checked.
func alignmentOf(s *node.State, p *node.Plan, a *node.Alignment, wanted bool) (out Alignment, judged int) {
	out = Alignment{
		Container: a.Container, Preferred: a.Choice.Preferred, Admitted: a.Choice.Admit && a.Outcome != node.MemoryNowhere, Steps: a.Choice.Steps,
	}
	if a.Choice.HasMask {
		out.NUMANodes = a.Choice.Mask.Nodes()
	}
	for i, f := range a.HintSets {
		fit := fitOf(s, f, a.Outcome)
		if request.IsCache(f.Resource) {
			fit.Wanted = []Amount{{f.Resource, cacheOf(p, a.Container).Amount(f.Resource)}}
		}
		if i < len(a.Given) {
			fit.Wanted = []Amount{{a.Given[i].Of, int64(len(a.Given[i].Devices))}}
			fit.Given = givenNames(a.Given[i].Devices)
		}
		out.Fits = append(out.Fits, fit)
	}
	why := whyChosen(s.Policy(), a)
	if m := s.Misfit(p, a); m != nil {
		why = node.Why{Text: m.String()}.And(why)
	}
	out.Why, out.Rule = why.Text, why.Rule
	switch a.Outcome {
	case node.OutOfSteps, node.Unsatisfiable, node.MemoryNowhere, node.MemoryApart: // No set is nearer than another.
	case node.NotPreferred, node.Preferred, node.Indifferent:
		if wanted {
			out.Losers, judged = losersOf(s, a)
		}
	}
	return out, judged
}

func fitOf(s *node.State, f hint.Set, outcome node.Outcome) Fit {
	out := Fit{Resource: f.Resource}
	switch f.Kind {
	case hint.None:
		out.Sets = "nowhere: " + f.Why
		if request.IsCache(f.Resource) { // The reason is about CPUs.
			out.Sets, out.Rule = "nowhere: too few of the free CPUs have caches with room", "R-CACHE-11"
		}
		return out
	case hint.Any:
		switch {
		case !request.IsMemory(f.Resource):
			out.Sets, out.Rule = "anywhere: no device reports a NUMA node", "R-HINT-40"
		case outcome == node.MemoryApart:
			out.Sets, out.Rule = "nowhere for the containers together", "Q-26"
		default:
			out.Sets, out.Rule = "fits on no set of NUMA nodes, so it has no say here", "R-HINT-34"
		}
		return out
	case hint.Fits:
	}
	out.Preferred = f.Preferred
	for i, n := range f.Needs {
		switch {
		case i == 0 || n.Resource != request.CPU:
			out.Wanted = append(out.Wanted, Amount{n.Resource, n.Amount})
		case i == 1 && f.Needs[0].Which != "": // the other part of a pool; further needs are of CPUs that are counted
			out.Wanted[0].Value += n.Amount
		}
	}
	nodes := reach(f, s.Machine().NodeMask())
	for size := 1; size <= nodes.Len(); size++ {
		if choose(nodes.Len(), size) > most {
			out.Size, out.Sets = size, fmt.Sprintf("%d or more of %s", size, nodes.List())
			return out
		}
		if fitting := sets(nodes, size, f.Has); len(fitting) > 0 {
			out.Size, out.Sets = size, setsText(fitting, size)
			return out
		}
	}
	out.Sets = "nowhere"
	return out
}

func givenNames(devices []*request.Given) []string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Name
	}
	return names
}

// reach returns all NUMA nodes that a mask of the hint set can have.
func reach(f hint.Set, all mask.Mask) mask.Mask {
	nodes := f.Candidates
	for _, m := range f.Explicit {
		nodes |= m
	}
	return nodes & all
}

// setsText describes sets of one size briefly.
func setsText(fitting []mask.Mask, size int) string {
	var union mask.Mask
	for _, m := range fitting {
		union |= m
	}
	switch {
	case len(fitting) == 1:
		return fitting[0].List()
	case size == 1:
		return "one of " + union.List()
	case len(fitting) == choose(union.Len(), size):
		return fmt.Sprintf("any %d of %s", size, union.List())
	}
	const few = 3
	var parts []string
	for _, m := range fitting[:min(few, len(fitting))] {
		parts = append(parts, m.String())
	}
	text := strings.Join(parts, ", ")
	if more := len(fitting) - few; more > 0 {
		text += fmt.Sprintf(" and %d more sets of %d", more, size)
	}
	return text
}

// sets returns the sets with size NUMA nodes that keep accepts, ascending as numbers.
func sets(nodes mask.Mask, size int, keep func(mask.Mask) bool) []mask.Mask {
	var out []mask.Mask
	ids := nodes.Nodes()
	var walk func(from int, m mask.Mask, left int)
	walk = func(from int, m mask.Mask, left int) {
		if left == 0 {
			if keep(m) {
				out = append(out, m)
			}
			return
		}
		for i := from; i+left <= len(ids); i++ {
			walk(i+1, m.With(ids[i]), left-1)
		}
	}
	walk(0, 0, size)
	slices.Sort(out)
	return out
}

// choose returns the binomial coefficient of n over k, or a number larger than most.
func choose(n, k int) int {
	k = min(k, n-k)
	result := 1
	for i := range k {
		if result = result * (n - i) / (i + 1); result > most {
			return most + 1
		}
	}
	return result
}

func whyChosen(policy node.Policy, a *node.Alignment) node.Why {
	c := a.Choice
	switch a.Outcome {
	case node.OutOfSteps:
		return node.Why{Text: c.Why}
	case node.Unsatisfiable:
		i := slices.IndexFunc(a.HintSets, func(f hint.Set) bool { return f.Kind == hint.None })
		text := resourceName(a.HintSets[i].Resource) + " fits nowhere, so that no set can be preferred"
		if c.Admit {
			text += "; best-effort goes on with the others"
		}
		return node.Why{Text: text, Rule: "R-HINT-11"}
	case node.MemoryApart:
		if c.Admit {
			return node.Why{Text: "no NUMA nodes have enough memory for the containers together: best-effort places each by itself", Rule: "Q-26"}
		}
		return node.Why{Text: fmt.Sprintf("no NUMA nodes have enough memory for the containers together, and %s takes nothing less", policy.Topology), Rule: "Q-26"}
	case node.MemoryNowhere:
		return node.Why{Text: "no NUMA nodes have enough memory", Rule: "R-MEM-32, R-MEM-33"}
	case node.Indifferent:
		return node.Why{Text: "nothing has a preference: all NUMA nodes will do", Rule: "R-HINT-51"}
	case node.Preferred:
		lowest, rule := "the lowest", "R-HINT-53"
		if policy.PreferClosest && policy.Topology != node.TopologySingleNUMANode {
			lowest, rule = "the closest, then the lowest", "R-HINT-54"
		}
		return node.Why{Text: fmt.Sprintf("every resource fits there, and prefers %s; of such sets %s", countText(c.Mask.Len(), "NUMA node"), lowest), Rule: rule}
	case node.NotPreferred:
	}
	switch {
	case c.Admit:
		return node.Why{Text: "no set is preferred by every resource: best-effort takes where the resources' sets overlap best", Rule: "R-HINT-52"}
	case policy.Topology == node.TopologySingleNUMANode:
		return node.Why{Text: "no single NUMA node is preferred by every resource, and single-numa-node takes nothing less", Rule: "R-HINT-63"}
	}
	return node.Why{Text: "no set of NUMA nodes is preferred by every resource, and restricted takes nothing less", Rule: "R-HINT-62"}
}

// verdict is the result of judging one set. Smaller verdicts were closer to being chosen.
type verdict struct {
	nodes   mask.Mask
	faults  int
	missing float64 // the largest missing share of a requested amount
	// lacks is the first resource that does not fit, or empty.
	lacks string
	loser Loser
}

// losersOf judges the sets of the relevant sizes: the size of the chosen set and the preferred
// sizes. judged is the number of sets that it checked.
func losersOf(s *node.State, a *node.Alignment) (losers []Loser, judged int) {
	var nodes mask.Mask
	sizes := map[int]bool{}
	for _, f := range a.HintSets {
		if f.Kind == hint.Fits {
			nodes |= reach(f, s.Machine().NodeMask())
			sizes[f.Preferred] = s.Policy().Topology != node.TopologySingleNUMANode
		}
	}
	if s.Policy().Topology == node.TopologySingleNUMANode {
		sizes[1] = true
	}
	if a.Choice.Admit && a.Choice.HasMask {
		sizes[a.Choice.Mask.Len()] = true
	}
	var verdicts []verdict
	for size, wanted := range sizes {
		if wanted && choose(nodes.Len(), size) <= most {
			for _, m := range sets(nodes, size, func(m mask.Mask) bool { return !a.Choice.Admit || m != a.Choice.Mask }) {
				verdicts = append(verdicts, judge(s, a, m))
			}
		}
	}
	slices.SortFunc(verdicts, func(x, y verdict) int {
		return cmp.Or(cmp.Compare(x.faults, y.faults), cmp.Compare(x.missing, y.missing),
			cmp.Compare(x.nodes.Len(), y.nodes.Len()), cmp.Compare(x.nodes, y.nodes))
	})
	// Put the nearest set of each size before all others: what is missing on one NUMA node is as
	// relevant as what rules out two NUMA nodes. For a rejected pod, put there the nearest one for
	// each resource that does not fit: two that fit on different NUMA nodes are both the reason.
	type kind struct {
		size  int
		lacks string
	}
	var front, rest []Loser
	seen := map[kind]bool{}
	for _, v := range verdicts {
		of := kind{size: v.nodes.Len()}
		if !a.Choice.Admit {
			of.lacks = v.lacks
		}
		if seen[of] {
			rest = append(rest, v.loser)
		} else {
			front = append(front, v.loser)
		}
		seen[of] = true
	}
	return append(front, rest...)[:min(maxLosers, len(verdicts))], len(verdicts)
}

// judge explains why m was not chosen.
func judge(s *node.State, a *node.Alignment, m mask.Mask) verdict {
	v := verdict{nodes: m, loser: Loser{NUMANodes: m.Nodes(), Fits: true}}
	var faults, dislikes node.Why
	for i := range a.HintSets {
		f := &a.HintSets[i]
		if f.Kind != hint.Fits {
			continue
		}
		if !f.Has(m) {
			why, missing := misfit(s, f, m)
			if i < len(a.Given) {
				why = cmp.Or(node.Why{Text: awayText(a.Given[i].Devices, m)}, why)
			}
			v.lacks = cmp.Or(v.lacks, f.Resource)
			faults = faults.And(why)
			v.faults += 100
			v.missing = max(v.missing, missing)
			continue
		}
		if !f.Prefers(m) {
			dislikes = dislikes.And(node.Why{Text: fmt.Sprintf("%s prefers %s", resourceName(f.Resource), countText(f.Preferred, "NUMA node"))})
			v.faults++
		}
	}
	why := faults.And(dislikes)
	v.loser.Fits = faults.Text == ""
	switch {
	case !v.loser.Fits:
	case dislikes.Text != "":
		why.Text = "all fits, but " + why.Text
	case m.Len() > a.Choice.Mask.Len():
		why = node.Why{Text: "all fits, on more NUMA nodes", Rule: "R-HINT-53"}
	case s.Policy().PreferClosest && s.Policy().Topology != node.TopologySingleNUMANode && spread(s, m) > spread(s, a.Choice.Mask):
		why = node.Why{Text: "all fits, farther apart", Rule: "R-HINT-54"}
	default:
		why = node.Why{Text: "all fits as well, and the lowest wins", Rule: "R-HINT-53"}
	}
	v.loser.Why, v.loser.Rule = why.Text, why.Rule
	return v
}

// awayText names the given devices that are not near m.
func awayText(devices []*request.Given, m mask.Mask) string {
	var away []string
	for _, d := range devices {
		if !d.Nodes.IsEmpty() && d.Nodes&m == 0 {
			away = append(away, d.Name+" is on "+d.Nodes.Text())
		}
	}
	if len(away) > maxDevices {
		return strings.Join(away[:maxDevices], ", ") + fmt.Sprintf(" and %d more devices elsewhere", len(away)-maxDevices)
	}
	return strings.Join(away, ", ")
}

func spread(s *node.State, m mask.Mask) int {
	sum := 0
	for a := range m.All() {
		for b := range m.All() {
			sum += s.Machine().Distance(a, b)
		}
	}
	return sum
}

// misfit explains why the hint set does not have m. It also returns the share of the requested
// amount that is missing on m.
func misfit(s *node.State, f *hint.Set, m mask.Mask) (node.Why, float64) {
	if !f.Kept.IsEmpty() {
		return node.Why{Text: fmt.Sprintf("%s: the pod keeps what it has on %s", resourceName(f.Resource), f.Kept.Text())}, 0
	}
	for i := range f.Needs {
		n := &f.Needs[i]
		if have := n.Offered(m); have < n.Amount {
			free := fmt.Sprint(have)
			if request.IsMemory(n.Resource) {
				free = request.RoundedBytes(have)
			}
			if request.IsCache(f.Resource) {
				text := fmt.Sprintf("%s: %s free CPUs have caches with room, %d asked for", resourceName(f.Resource), free, n.Amount)
				return node.Why{Text: text, Rule: "R-CACHE-11"}, float64(n.Amount-have) / float64(n.Amount)
			}
			text := fmt.Sprintf("%s: %s free, %s asked for", strings.TrimSpace(n.Which+" "+n.Resource), free, Amount{n.Resource, n.Amount}.Text())
			return node.Why{Text: text}, float64(n.Amount-have) / float64(n.Amount)
		}
	}
	if !m.Contains(f.Required) {
		return node.Why{Text: fmt.Sprintf("%s: what init containers have on %s is to be reused", resourceName(f.Resource), f.Required.Text()), Rule: "R-HINT-24"}, 0
	}
	if !request.IsMemory(f.Resource) {
		return node.Why{Text: fmt.Sprintf("%s: %s has none", resourceName(f.Resource), (m &^ f.Candidates).Text())}, 1
	}
	groups, single := s.Memory().Serving(m) // The rule of groups forbids memory on m (R-MEM-22).
	if i := slices.IndexFunc(groups, func(g mask.Mask) bool { return g != m }); i >= 0 {
		return node.Why{Text: fmt.Sprintf("%s: %s form one group", f.Resource, groups[i].Text()), Rule: "R-MEM-22"}, 0
	}
	switch single.Len() {
	case 0:
		return node.Why{Text: fmt.Sprintf("%s: %s cannot provide so much", f.Resource, m.Text())}, 0
	case 1:
		return node.Why{Text: fmt.Sprintf("%s: %s serves only pods with memory on one NUMA node", f.Resource, single.Text()), Rule: "R-MEM-22"}, 0
	}
	return node.Why{Text: fmt.Sprintf("%s: %s serve only pods with memory on one NUMA node", f.Resource, single.Text()), Rule: "R-MEM-22"}, 0
}
