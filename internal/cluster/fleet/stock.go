package fleet

import (
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Views are the nodes as they are now, ascending by name.
func (f *Fleet) Views() []*View { return slices.Clone(f.members) }

// Stock is what became of the CPUs of one NUMA node. Every CPU is in exactly one of the numbers,
// but for Stranded, which is a part of Free.
type Stock struct {
	NUMANode int
	// Shared are CPUs that only the node shared pool can have: reserved ones, and those that the
	// policy makes unusable for others. Exclusive CPUs belong to a container, Pooled to the shared
	// pool of a pod. Free ones could become exclusive now.
	Shared, Exclusive, Pooled, Free int
	// Stranded is how many of Free a typical request leaves over, in the mean over the typical
	// requests that the node's amounts still allow; all of Free if they allow none.
	Stranded float64
}

// Stock takes stock by NUMA node, in the order of the machine's CPUNodes.
func (v *View) Stock() []Stock {
	var exclusive, pooled cpuset.Set
	for g := range v.State.AllGrants() {
		var own cpuset.Set
		for i := range g.Containers {
			if g.Isolation(i) == node.ContainerIsolation {
				own = own.Union(g.Containers[i].CPUs)
			}
		}
		exclusive = exclusive.Union(own)
		pooled = pooled.Union(g.CPUs().Difference(own))
	}
	o := v.outlook(v.Used)
	units := v.State.Machine().CPUNodes()
	out := make([]Stock, 0, len(units))
	for k, n := range units {
		s := Stock{NUMANode: n.ID, Exclusive: n.CPUs.IntersectionLen(exclusive), Pooled: n.CPUs.IntersectionLen(pooled), Free: v.free[k].cpus}
		s.Shared = n.CPUs.Len() - s.Exclusive - s.Pooled - s.Free
		s.Stranded = float64(o.stranded(v.free[k:k+1])) / unit
		out = append(out, s)
	}
	return out
}

// Verdict is what a node answers to a pod.
type Verdict struct {
	Fits bool
	// Why is why it does not take the pod.
	Why Why
}

// Judge asks every node whether it takes a pod, and returns the position of the best one, -1 if
// none does. Each node plans: nothing is kept of the question, so that any number of different pods
// can be asked about. The error is that of the context.
func Judge(ctx context.Context, views []*View, pod Pod) (verdicts []Verdict, best int, err error) {
	verdicts, best = make([]Verdict, len(views)), -1
	var least Cost
	for i, v := range views {
		if err := ctx.Err(); err != nil {
			return nil, -1, err
		}
		a := v.judge(&pod)
		verdicts[i] = Verdict{a.Fits, a.Why}
		if a.Fits && (best < 0 || a.Cost.less(least)) {
			best, least = i, a.Cost
		}
	}
	return verdicts, best, nil
}

// Judge is whether the node takes a pod.
func (v *View) Judge(pod *Pod) Verdict {
	a := v.judge(pod)
	return Verdict{a.Fits, a.Why}
}

func (v *View) judge(pod *Pod) Answer {
	if pod.Allowed != nil && !pod.Allowed(&v.Node) {
		return Answer{Why: Why{NotAllowed: true}}
	}
	if short := v.Allocatable.short(v.Used, pod.Asks); short != "" {
		return Answer{Why: Why{Amounts: true, Resource: short}}
	}
	return v.Ask(pod)
}
