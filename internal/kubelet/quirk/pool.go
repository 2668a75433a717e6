package quirk

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// decidePool gives a pod-level pod one pool. The kubelet does so also for a pod that has one.
func (d *decision) decidePool() bool {
	if d.had != nil {
		d.note(SecondPool, "")
	}
	empty := d.emptyPools()
	choice, ok := d.merge(d.podSets(empty...))
	if !ok {
		return false
	}
	if len(d.asked.Together.Devices) > 0 {
		d.faults = append(d.faults, fault{id: LateDevices, unsure: true})
	}
	if len(empty) > 0 {
		return d.end(rejects)
	}
	if !d.takePoolCPUs(choice) || len(d.asked.Together.Memory) == 0 || d.fractionTogether() {
		return d.verdict == admits
	}
	d.poolNodes, ok = d.place("", d.asked.Together.Memory, choice)
	return ok
}

// emptyPools are the resources of which nothing is left to a container that shares. The kubelet
// counts those that no such container requests as well, and all memory when it cannot read an
// amount of a container.
func (d *decision) emptyPools() []request.Resource {
	var empty []request.Resource
	check := func(resource request.Resource, budget int64) {
		claims := node.PoolClaims(d.pod, resource)
		ours := layout.Divide(budget, claims).Empty
		for i := range claims {
			claims[i].Indifferent = false
		}
		theirs := layout.Divide(budget, claims).Empty
		if ours == layout.NotEmpty && theirs != layout.NotEmpty {
			d.note(UnusedPages, "")
		}
		if theirs != layout.NotEmpty {
			empty = append(empty, resource)
		}
	}
	if n := d.asked.Together.CPUs; n > 0 {
		check(request.CPU, int64(n))
	}
	if d.fractionTogether() {
		return empty
	}
	for _, a := range d.asked.Together.Memory {
		check(a.Resource, a.Value)
	}
	if len(d.asked.Together.Memory) > 0 && len(d.fractions) > 0 {
		d.note(FractionalBytes, d.fractions[0])
		empty = append(empty, request.Memory)
	}
	return empty
}

func (d *decision) takePoolCPUs(choice hint.Choice) bool {
	n := d.asked.Together.CPUs
	if n == 0 {
		return true
	}
	if !d.fullCores(n) {
		return d.end(rejects)
	}
	pool, ok := d.allocate(choice, cpuset.Set{}, n)
	if !ok {
		return false
	}
	d.pool = pool
	pieces := layout.Divide(int64(n), node.PoolClaims(d.pod, request.CPU)).Pieces
	left := pool
	for i, piece := range pieces {
		switch piece.Part {
		case layout.WholePool:
			d.containers[i].CPUs = left
		case layout.Slice:
			t := taker{m: d.m, o: d.policy.CPU}
			set, err := t.take(left, int(piece.Amount))
			d.faults = append(d.faults, t.faults...)
			if err != nil || t.endless {
				return d.end(rejects)
			}
			d.containers[i].CPUs = set
			if d.pod.Containers[i].Type != request.Init {
				left = left.Difference(set)
			}
		case layout.Rest:
		}
	}
	for i, piece := range pieces {
		if piece.Part == layout.Rest {
			d.containers[i].CPUs = left
		}
	}
	return true
}
