package observe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Decision is a decision of the kubelet about a pod.
type Decision struct {
	Pod request.Pod
	// Requests are the amounts that the kubelet counts for the pod. Critical is set if the kubelet
	// evicts other pods to make room for it.
	Requests request.Totals
	Critical bool
	// Reason and Message are those of the rejection, from the status of the pod. Reason is empty
	// for a pod that was admitted.
	Reason, Message string
	// Doubts are the reasons why nothing is predicted about this pod.
	Doubts []string
}

func (d *Decision) comparison(p *prediction, r Result) Comparison {
	return Comparison{UID: d.Pod.UID, Pod: d.Pod.ID(), Result: r, Admitted: d.Reason == "", Base: p.of.state, Plan: p.plan, Short: p.short, Message: d.Message}
}

func (d *Decision) unsure(why string) Comparison {
	return Comparison{UID: d.Pod.UID, Pod: d.Pod.ID(), Result: Unsure, Admitted: d.Reason == "", Why: why}
}

// matches reports whether the kubelet decided as predicted.
func (d *Decision) matches(p *prediction, now *Sight) bool {
	reason := p.reason()
	if d.Reason != "" || reason != "" || p.preempts {
		return reason == d.Reason && !p.preempts
	}
	has, listed := now.State.Grant(d.Pod.UID)
	switch {
	case !listed || !has.OwnsAnything():
		return leavesNothing(p.plan.Grant)
	case !p.plan.Grant.OwnsAnything():
		return false
	}
	return samePlace(p.plan.Grant, has)
}

// matters reports whether a manager decided about the pod, or the pod was rejected.
func (d *Decision) matters(p *prediction) bool {
	return d.Reason != "" || p.reason() != "" || p.plan.Grant.OwnsAnything()
}

// unpredictable returns the reason why a decision that is not as predicted is no mistake, or "".
// ended is the number of pods that ended since the last look. The kubelet may still have counted
// them.
func (d *Decision) unpredictable(p *prediction, ended int) string {
	resource, is := strings.CutPrefix(d.Reason, OutOf)
	switch {
	case p.preempts:
		return "it is critical, and the node has too little for it: the kubelet ends other pods instead of rejecting it"
	case is && !p.of.knows(resource):
		return "what the Node has of " + resource + " for all pods is not known"
	case is && p.reason() == "":
		return "the requests of the pods that were seen leave enough " + resource + ": one that came and ended between two looks can have counted"
	case p.short != "" && ended > 0:
		return "other pods ended at the same time"
	}
	return ""
}

// knows reports whether the allocatable amount of a resource is known.
func (s *Sight) knows(resource request.Resource) bool {
	if s.Allocatable == nil {
		return false
	}
	_, listed := s.Allocatable.Others.Get(resource)
	return listed || resource == request.CPU || resource == request.Memory || resource == "pods"
}

// leavesNothing reports whether a pod has no resources of its own after its init containers have
// ended.
func leavesNothing(g *node.Grant) bool {
	if !g.Pool.IsEmpty() || len(g.PoolMemory) > 0 {
		return false
	}
	for i := range g.Containers {
		c := &g.Containers[i]
		if !c.CPUs.IsEmpty() || len(c.Devices) > 0 || len(c.Memory) > 0 && g.Pod.Containers[i].Type != request.Init {
			return false
		}
	}
	return true
}

// samePlace reports whether a pod has the predicted CPUs and memory. Later containers reuse the
// memory of init containers, so the files may not show that memory.
func samePlace(want, has *node.Grant) bool {
	if len(want.Containers) != len(has.Containers) || !want.Pool.Equal(has.Pool) || !slices.Equal(want.PoolMemory, has.PoolMemory) {
		return false
	}
	for i := range want.Containers {
		w, h := &want.Containers[i], &has.Containers[i]
		if !w.CPUs.Equal(h.CPUs) || want.Pod.Containers[i].Type != request.Init && !slices.Equal(w.Memory, h.Memory) {
			return false
		}
	}
	return true
}

// actual describes the decision of the kubelet.
func (d *Decision) actual(now *Sight) string {
	has, _ := now.State.Grant(d.Pod.UID)
	return described(d.Reason, has)
}

func described(reason string, g *node.Grant) string {
	switch {
	case reason != "":
		return "rejected (" + reason + ")"
	case g == nil || !g.OwnsAnything():
		return "admitted, without CPUs and memory of its own"
	}
	var parts []string
	if !g.Pool.IsEmpty() {
		parts = append(parts, "pool "+g.Pool.String())
	}
	for i := range g.Containers {
		c := &g.Containers[i]
		text := g.Pod.Containers[i].Name
		if !c.CPUs.IsEmpty() {
			text += " CPUs " + c.CPUs.String()
		}
		for _, b := range c.Memory {
			text += fmt.Sprintf(" %s of %s on %s", request.RoundedBytes(b.Size), b.Type, b.Nodes.Text())
		}
		if text != g.Pod.Containers[i].Name {
			parts = append(parts, text)
		}
	}
	return "admitted: " + strings.Join(parts, "; ")
}
