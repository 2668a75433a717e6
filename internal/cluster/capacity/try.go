package capacity

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Trial is the answer under changed settings.
type Trial struct {
	Setting
	// Now has the settings of the nodes as they are, each once, if the trial changes nothing. It is
	// nil for other trials.
	Now     []Setting
	Scoring fleet.Scoring
	Result  *Result
	// Wrong describes why a kubelet would not start with the settings. Result is then nil.
	Wrong string
}

// Setting names the settings of a trial.
type Setting struct {
	Policy node.TopologyPolicy
	Scope  node.Scope
	// Option is an option that differs from that of the nodes, such as "full-pcpus-only=true". It
	// is empty if none does.
	Option string
}

// change is a setting and how it changes the node's policy.
type change struct {
	Setting
	apply func(p *node.Policy)
}

// alignments returns the Topology Manager policies that align, in both scopes.
func alignments() []change {
	var out []change
	for _, topology := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
		for _, scope := range []node.Scope{node.ContainerScope, node.PodScope} {
			out = append(out, change{Setting{Policy: topology, Scope: scope}, func(p *node.Policy) { p.Topology, p.Scope = topology, scope }})
		}
	}
	return out
}

// option is an option that changes where pods fit. It is toggled.
type option struct {
	name string
	of   func(p *node.Policy) *bool
}

// options are tried for all nodes and pods.
var options = []option{
	{"full-pcpus-only", func(p *node.Policy) *bool { return &p.CPU.FullPCPUsOnly }},
	{"distribute-cpus-across-numa", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossNUMA }},
	{"prefer-align-cpus-by-uncorecache", func(p *node.Policy) *bool { return &p.CPU.PreferUncore }},
	{"prefer-closest-numa-nodes", func(p *node.Policy) *bool { return &p.PreferClosest }},
}

// NumTrials returns how many settings Try tries for these pods on nodes of these kinds.
func NumTrials(kinds []Kind, items []Item) int {
	return 1 + len(alignments()) + len(optionsFor(kinds, items)) + len(isolations(kinds)) + len(fleet.Scorings()) - 1
}

// optionsFor returns the options, and cache-allocation if a pod asks for a part of the caches, all
// machines can divide theirs, and no kubelet decides.
func optionsFor(kinds []Kind, items []Item) []option {
	asks := slices.ContainsFunc(items, func(item Item) bool {
		return !item.Pod.PoolCache.IsZero() || slices.ContainsFunc(item.Pod.Containers, func(c request.Container) bool { return !c.Cache.IsZero() })
	})
	divides := func(k Kind) bool { return k.State.Caches().Divides() && k.State.Policy().Behavior == node.Behavior{} }
	if !asks || slices.ContainsFunc(kinds, func(k Kind) bool { return !divides(k) }) {
		return options
	}
	return append(slices.Clone(options), option{"cache-allocation", func(p *node.Policy) *bool { return &p.CPU.DividesCaches }})
}

// toggles returns every option, switched, on top of a change.
func toggles(kinds []Kind, items []Item, best change) []change {
	var out []change
	add := func(option string, apply func(p *node.Policy)) {
		c := change{best.Setting, func(p *node.Policy) {
			best.apply(p)
			apply(p)
		}}
		c.Option = option
		out = append(out, c)
	}
	for _, o := range optionsFor(kinds, items) {
		policy := kinds[0].State.Policy()
		on := !*o.of(&policy)
		add(fmt.Sprintf("%s=%t", o.name, on), func(p *node.Policy) { *o.of(p) = on })
	}
	for _, value := range isolations(kinds) {
		name := "isolated-cpus=" + value.String()
		if value == cpu.IsolatedAlike {
			name = "without isolated-cpus"
		}
		add(name, func(p *node.Policy) { p.CPU.Isolated = value })
	}
	return out
}

// isolations returns the other values of the option isolated-cpus, or none if no machine has
// isolated CPUs.
func isolations(kinds []Kind) (values []cpu.Isolated) {
	if !slices.ContainsFunc(kinds, func(k Kind) bool { return !k.State.Machine().Isolation().Isolated.IsEmpty() }) {
		return nil
	}
	for _, value := range []cpu.Isolated{cpu.IsolatedAlike, cpu.IsolatedFirst, cpu.IsolatedOnly} {
		if value != kinds[0].State.Policy().CPU.Isolated {
			values = append(values, value)
		}
	}
	return values
}

// unisolable describes why a node does not start with the option isolated-cpus (R-CPU-130,
// R-CPU-131). It is empty if it does.
func unisolable(k Kind, p node.Policy) string {
	isolated := p.CPU.IsolatedCPUs(k.State.Machine())
	switch reserved := isolated.Intersection(p.ReservedCPUs); {
	case p.CPU.Isolated == cpu.IsolatedAlike:
		return ""
	case p.Behavior != node.Behavior{}:
		return "no kubelet has the option isolated-cpus, and one decides on " + k.Name
	case !reserved.IsEmpty():
		return fmt.Sprintf("CPUs %s of %s are reserved and isolated: reserve others", reserved, k.Name)
	case isolated.IsEmpty() && p.CPU.Isolated == cpu.IsolatedOnly:
		return k.Name + " has no isolated CPUs"
	case p.CPU.StrictReservation && isolated.Union(p.ReservedCPUs).Contains(k.State.Machine().AllCPUs()):
		return "all CPUs of " + k.Name + " are reserved or isolated, and containers that share would have none"
	}
	return ""
}

// Try asks a question about nodes as they are, and then the same question under other settings:
// under every aligning policy and scope, under the best of these with every option toggled, and
// with every other scoring. The option isolated-cpus is tried where machines have isolated CPUs,
// and cache-allocation for pods that ask for a part of the caches, on machines that can divide
// them. ask is Fit or Fill with the items; it is called once per trial. The order of the trials is
// fixed. If ask returns an error, Try returns it with the trials before it.
func Try(ctx context.Context, kinds []Kind, items []Item, scoring fleet.Scoring, ask func(context.Context, []Kind, fleet.Scoring) (*Result, error)) ([]Trial, error) {
	var trials []Trial
	unchanged, err := asTheyAre(kinds)
	if err != nil {
		return nil, err
	}
	now := Trial{Setting: settingOf(kinds[0]), Now: settingsOf(kinds), Scoring: scoring}
	if now.Result, err = ask(ctx, unchanged, scoring); err != nil {
		return nil, err
	}
	trials = append(trials, now)
	run := func(c change, scoring fleet.Scoring) error {
		t := Trial{Setting: c.Setting, Scoring: scoring}
		changed, wrong, err := with(kinds, c.apply)
		if err != nil {
			return err
		}
		if t.Wrong = wrong; wrong == "" {
			if t.Result, err = ask(ctx, changed, scoring); err != nil {
				return err
			}
		}
		trials = append(trials, t)
		return nil
	}
	base := alignments()
	for _, c := range base {
		if err := run(c, scoring); err != nil {
			return trials, err
		}
	}
	best := base[max(0, Best(trials[1:]))]
	for _, c := range toggles(kinds, items, best) {
		if err := run(c, scoring); err != nil {
			return trials, err
		}
	}
	for _, other := range fleet.Scorings() {
		if other == scoring {
			continue
		}
		if err := run(best, other); err != nil {
			return trials, err
		}
	}
	return trials, nil
}

// Best returns the position of the trial with the fewest pods for which no node has a place, then
// of the one whose aligned pods request the most CPU time, then of the one whose placed pods do.
// A policy that places a pod anywhere places the most, and one that rejects some pods always has
// more room for others: neither is best for that. Of equal trials, the first wins. Best returns -1
// if no trial aligns a pod.
func Best(trials []Trial) int {
	best := -1
	for i, t := range trials {
		if t.Result != nil && t.Result.score().Aligns() && (best < 0 || t.Result.score().Better(trials[best].Result.score())) {
			best = i
		}
	}
	return best
}

// Score is what Best compares. Never counts pods. Aligned and Placed are CPU time, in any unit.
type Score struct {
	Never           int64
	Aligned, Placed float64
}

// Aligns reports whether the trial aligns a pod. One that does not is never best.
func (s Score) Aligns() bool { return s.Aligned > 0 }

// Better reports whether a trial with this score is better than one with the other.
func (s Score) Better(than Score) bool {
	return cmp.Or(cmp.Compare(than.Never, s.Never), cmp.Compare(s.Aligned, than.Aligned), cmp.Compare(s.Placed, than.Placed)) > 0
}

func (r *Result) score() Score {
	return Score{r.Never, float64(r.AlignedMilli), float64(r.PlacedMilli)}
}

// settingOf returns the settings of a kind.
func settingOf(k Kind) Setting {
	p := k.State.Policy()
	return Setting{Policy: p.Topology, Scope: p.Scope}
}

// settingsOf returns the settings of the kinds, each once.
func settingsOf(kinds []Kind) (all []Setting) {
	for _, k := range kinds {
		if s := settingOf(k); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// asTheyAre returns the kinds without pods, and with their own policies.
func asTheyAre(kinds []Kind) (out []Kind, err error) {
	for _, k := range kinds {
		if k, err = bare(k, k.State.Policy()); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// with returns the kinds, without pods, under a changed policy. wrong describes why a kubelet would
// not start with it.
func with(kinds []Kind, apply func(p *node.Policy)) (out []Kind, wrong string, err error) {
	for _, k := range kinds {
		p := k.State.Policy()
		apply(&p)
		if !p.StaticCPU {
			return nil, "cpuManagerPolicy of " + k.Name + " is none", nil
		}
		if c := p.Conflicts(k.State.Machine()); len(c) > 0 {
			return nil, fmt.Sprintf("a kubelet does not start with it on %s", k.Name), nil
		}
		if wrong := unisolable(k, p); wrong != "" {
			return nil, wrong, nil
		}
		if k, err = bare(k, p); err != nil {
			return nil, "", err
		}
		out = append(out, k)
	}
	return out, "", nil
}

// bare returns a kind without pods under a policy.
func bare(k Kind, p node.Policy) (Kind, error) {
	s, err := node.New(k.State.Machine(), p)
	if err != nil {
		return k, err
	}
	k.State, err = s.WithDevices(k.State.Devices().Inventory())
	return k, err
}
