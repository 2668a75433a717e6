package capacity

import (
	"context"
	"fmt"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Trial is the answer under changed settings.
type Trial struct {
	// Setting names the changed settings, such as "single-numa-node, scope pod" or
	// "full-pcpus-only=true".
	Setting string
	Scoring fleet.Scoring
	Result  *Result
	// Wrong describes why a kubelet would not start with the settings. Result is then nil.
	Wrong string
}

// change is a setting of the node's policy.
type change struct {
	name  string
	apply func(p *node.Policy)
}

// alignments returns the Topology Manager policies that align, in both scopes.
func alignments() []change {
	var out []change
	for _, topology := range []node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode} {
		for _, scope := range []node.Scope{node.ContainerScope, node.PodScope} {
			out = append(out, change{fmt.Sprintf("%s, scope %s", topology, scope), func(p *node.Policy) { p.Topology, p.Scope = topology, scope }})
		}
	}
	return out
}

// options lists the options that change where pods fit. Each of them is toggled.
var options = []struct {
	name string
	of   func(p *node.Policy) *bool
}{
	{"full-pcpus-only", func(p *node.Policy) *bool { return &p.CPU.FullPCPUsOnly }},
	{"distribute-cpus-across-numa", func(p *node.Policy) *bool { return &p.CPU.DistributeAcrossNUMA }},
	{"prefer-align-cpus-by-uncorecache", func(p *node.Policy) *bool { return &p.CPU.PreferUncore }},
	{"prefer-closest-numa-nodes", func(p *node.Policy) *bool { return &p.PreferClosest }},
}

// Try asks the same question under other settings: first under every aligning policy and scope,
// then under the best of these with every option toggled, and with every other scoring. ask is Fit
// or Fill with its arguments; it is called once per trial. The order of the trials is fixed. Best
// returns the best one.
func Try(ctx context.Context, kinds []Kind, scoring fleet.Scoring, ask func(context.Context, []Kind, fleet.Scoring) (*Result, error)) ([]Trial, error) {
	var trials []Trial
	run := func(c change, scoring fleet.Scoring) error {
		t := Trial{Setting: c.name, Scoring: scoring}
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
			return nil, err
		}
	}
	best := base[Best(trials)]
	for _, o := range options {
		policy := kinds[0].State.Policy()
		on := !*o.of(&policy)
		c := change{fmt.Sprintf("%s, %s=%t", best.name, o.name, on), func(p *node.Policy) {
			best.apply(p)
			*o.of(p) = on
		}}
		if err := run(c, scoring); err != nil {
			return nil, err
		}
	}
	for _, other := range []fleet.Scoring{fleet.LeastStranded, fleet.LeastAllocated, fleet.MostAllocated} {
		if other == scoring {
			continue
		}
		if err := run(best, other); err != nil {
			return nil, err
		}
	}
	return trials, nil
}

// Best returns the position of the trial that places the most CPU time. Of equal trials, the first
// wins. It returns 0 if no trial has a result.
func Best(trials []Trial) int {
	best := 0
	for i, t := range trials {
		if t.Result != nil && (trials[best].Result == nil || t.Result.PlacedMilli > trials[best].Result.PlacedMilli) {
			best = i
		}
	}
	return best
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
