package fleet

import (
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Views returns the nodes in their current state, ascending by name.
func (f *Fleet) Views() []*View { return slices.Clone(f.members) }

// Stock describes the CPUs of one NUMA node. Every CPU counts in exactly one of the numbers, except
// that Stranded is a part of Free.
type Stock struct {
	NUMANode int
	// Shared counts the CPUs that only the node shared pool can use: reserved CPUs, and CPUs that
	// the policy makes unusable for others. Exclusive counts CPUs that belong to a container, and
	// Pooled counts CPUs that belong to a pod shared pool. Free counts CPUs that could become
	// exclusive now.
	Shared, Exclusive, Pooled, Free int
	// Stranded is the part of Free that a typical request leaves over, as the mean over the typical
	// requests that the node's amounts still allow. If they allow none, it is all of Free.
	Stranded float64
}

// Stock returns the CPUs by NUMA node, in the order of the machine's CPUNodes.
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

// Verdict is the answer of a node to a pod.
type Verdict struct {
	Fits bool
	// Why is the reason why the node does not take the pod.
	Why Why
}

// Judge asks every node whether it takes a pod. It returns the position of the best node, or -1 if
// none takes it. Each node plans, and nothing about the question is kept, so any number of
// different pods can be judged. The error is that of the context.
func Judge(ctx context.Context, views []*View, pod Pod) (verdicts []Verdict, best int, err error) {
	verdicts, best = make([]Verdict, len(views)), -1
	var least Cost
	for i, v := range views {
		if err := ctx.Err(); err != nil {
			return nil, -1, err
		}
		a := v.judge(&pod, v.Ask)
		verdicts[i] = Verdict{a.Fits, a.Why}
		if a.Fits && (best < 0 || a.Cost.less(least)) {
			best, least = i, a.Cost
		}
	}
	return verdicts, best, nil
}

// Judge returns whether the node takes a pod.
func (v *View) Judge(pod *Pod) Verdict {
	a := v.judge(pod, v.Admits)
	return Verdict{a.Fits, a.Why}
}

func (v *View) judge(pod *Pod, ask func(*Pod) Answer) Answer {
	if pod.Allowed != nil && !pod.Allowed(&v.Node) {
		return Answer{Why: Why{NotAllowed: true}}
	}
	pod = pod.On(&v.Node)
	if short := v.Allocatable.Short(v.Used, pod.Asks); short != "" {
		return Answer{Why: Why{Amounts: true, Resource: short}}
	}
	return ask(pod)
}
