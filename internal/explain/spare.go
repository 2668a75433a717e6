package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// maxVisits bounds the number of sets of pods that are checked before planning. maxSize bounds the
// size of the sets that are searched one by one.
const (
	maxVisits = 10_000
	maxSize   = 24
)

// victim is a pod that could be removed.
type victim struct {
	grant *node.Grant
	// kind describes what the pod has by NUMA node, and its request, as text. Pods with the same
	// kind are interchangeable, so the one that can be spared best goes first.
	kind string
	// freed is the amount of the scarce resource that the pod has, by NUMA node.
	freed []int64
	total int64
	// sooner is the number of pods of the same kind that can be spared before this one.
	sooner int
}

// spare looks for the fewest pods whose absence admits the pod. Of sets of equal size, it chooses
// the one of which most pods fit on the node again after the admission. Of those, it chooses the
// pods with the lowest priority, then the youngest: no other such set would spare a pod that
// matters more.
func (x *search) spare() ([]Proposal, string) {
	x.what, x.limit = "the absence of pods", x.allowed(maxPodPlans)
	victims := x.victims()
	if len(victims) == 0 {
		return nil, "no pod has assignments"
	}
	without := x.state
	for _, v := range victims {
		without = without.Release(v.grant.Pod.UID)
	}
	alone := x.plan(without, x.pod)
	empty := alone == nil
	if empty && !x.erratic() {
		return nil, "even an empty node rejects it"
	}
	// The bound is zero if nothing is known before planning: for devices, for rejections that name
	// no amount, and if CPUs or memory of init containers are reused.
	b := &bound{}
	if r := x.rejection; (r.Resource == request.CPU || request.IsMemory(r.Resource)) && len(r.Nodes) > 0 && !x.erratic() {
		b = &bound{want: r.Wanted, nodes: x.mostNodes(alone), free: x.free()}
		b.sum(victims)
	}
	for size := 1; size <= min(len(victims), maxSize); size++ {
		found, complete := x.ofSize(victims, size, b)
		if found != nil {
			return []Proposal{*found}, fmt.Sprintf("removing %s would admit it, and no fewer", countText(size, "pod"))
		}
		if !complete {
			return x.anyhow(victims, empty)
		}
	}
	if empty {
		return nil, "even an empty node rejects it"
	}
	return x.anyhow(victims, empty)
}

// anyhow looks for any set of pods if the fewest cannot be found within the bounds.
func (x *search) anyhow(victims []victim, empty bool) ([]Proposal, string) {
	x.limit += x.allowed(maxPodPlans)
	x.steps = 0
	// Remove pods until the pod is admitted, then restore those that need not be removed.
	low, high := 1, len(victims)
	for low < high {
		if middle := (low + high) / 2; x.admits(victims[:middle]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	var found []victim
	if x.admits(victims[:high]) {
		found = slices.Clone(victims[:high])
	}
	for i := len(found) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(found), i, i+1); x.admits(fewer) {
			found = fewer
		}
	}
	switch {
	case found == nil && empty:
		return nil, "even an empty node rejects it"
	case found == nil:
		return nil, "none found; " + notFurther
	}
	x.limit = x.plans + 1
	return []Proposal{*x.without(found)}, fmt.Sprintf("removing %s would admit it; fewer pods were "+notFurther, countText(len(found), "pod"))
}

// victims returns the pods that have any resources, in the order in which they can be spared.
func (x *search) victims() []victim {
	var out []victim
	for g := range x.state.AllGrants() {
		var kind strings.Builder // empty for a pod that has nothing
		for _, n := range x.state.Machine().CPUNodes() {
			if k := g.CPUs().IntersectionLen(n.CPUs); k > 0 {
				fmt.Fprintf(&kind, "cpu %d on %d;", k, n.ID)
			}
		}
		for _, m := range g.Charged() {
			fmt.Fprintf(&kind, "%s %d on %d;", m.Type, m.Size, m.Nodes)
		}
		for _, h := range g.Devices() {
			for _, id := range h.IDs {
				d, _ := x.state.Devices().Inventory().Device(h.Resource, id)
				fmt.Fprintf(&kind, "%s on %d;", h.Resource, d.Nodes)
			}
		}
		if kind.Len() > 0 {
			own := g.Pod.Own()
			kind.WriteString(own.Key())
			v := victim{grant: g, kind: kind.String(), freed: x.freed(g)}
			for _, n := range v.freed {
				v.total += n
			}
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b victim) int {
		p, q := a.grant.Pod, b.grant.Pod
		return cmp.Or(cmp.Compare(p.Priority, q.Priority), cmp.Compare(q.Created, p.Created),
			cmp.Compare(b.grant.Sequence, a.grant.Sequence), strings.Compare(p.UID, q.UID))
	})
	kinds := map[string]int{}
	for i := range out {
		out[i].sooner = kinds[out[i].kind]
		kinds[out[i].kind]++
	}
	return out
}

// freed returns how much of the scarce resource the pod would free on each NUMA node. Bytes of a
// group count on each of its NUMA nodes.
func (x *search) freed(g *node.Grant) []int64 {
	out := make([]int64, mask.MaxNode+1)
	if x.rejection.Resource == request.CPU {
		for _, n := range x.state.Machine().CPUNodes() {
			out[n.ID] = int64(g.CPUs().IntersectionLen(n.CPUs))
		}
		return out
	}
	for _, m := range g.Charged() {
		for n := range m.Nodes.All() {
			if m.Type == x.rejection.Resource {
				out[n] += m.Size
			}
		}
	}
	return out
}

// ofSize tries the sets of size pods. Sets whose most important pod matters least come first. It
// returns the first one of those of which most pods fit again, or nil. complete reports whether all
// sets were tried that could be better.
func (x *search) ofSize(victims []victim, size int, bound *bound) (found *Proposal, complete bool) {
	visits, most := 0, -1
	gone := make([]victim, 0, size)
	var walk func(below int) bool
	walk = func(below int) bool {
		missing := size - len(gone)
		if visits++; visits > maxVisits || x.spent() {
			return true
		}
		if !bound.met(gone, missing, below) {
			return false
		}
		if missing == 0 {
			if dominated(gone) {
				return false
			}
			if p := x.without(gone); p != nil && p.fitAgain() > most {
				found, most = p, p.fitAgain()
			}
			return most == size
		}
		// The first chosen pod is the most important one. The others are chosen from those that
		// matter less.
		for i := missing - 1; i < below; i++ {
			if victims[i].sooner >= missing {
				continue // The set is too small for all pods of its kind that can be spared sooner; see dominated.
			}
			gone = append(gone, victims[i])
			if walk(i) {
				return true
			}
			gone = gone[:len(gone)-1]
		}
		return false
	}
	ended := walk(len(victims))
	return found, !ended
}

// dominated reports whether a chosen pod could be replaced by a pod of its kind that can be spared
// sooner. The set with that pod is tried, too.
func dominated(gone []victim) bool {
	return slices.ContainsFunc(gone, func(v victim) bool {
		sooner := 0
		for _, w := range gone {
			if w.kind == v.kind && w.sooner < v.sooner {
				sooner++
			}
		}
		return sooner < v.sooner
	})
}

func (x *search) admits(gone []victim) bool {
	s := x.state
	for _, v := range gone {
		s = s.Release(v.grant.Pod.UID)
	}
	return x.plan(s, x.pod) != nil
}

// without returns the proposal that pods are absent. It returns nil if the pod is rejected even
// then, or if a bound is reached.
func (x *search) without(gone []victim) *Proposal {
	p := &Proposal{Kind: Pods}
	s := x.state
	for _, v := range gone {
		pod := v.grant.Pod
		p.Without = append(p.Without, Absent{Pod: pod.ID(), UID: pod.UID, Priority: pod.Priority})
		s = s.Release(pod.UID)
	}
	plan := x.plan(s, x.pod)
	if plan == nil {
		return nil
	}
	p.Outcome = outcome(s, plan)
	x.back(p, s, plan, gone)
	p.Text = Without(p.Without)
	return p
}

// fitAgain returns how many of the absent pods are known to fit again.
func (p *Proposal) fitAgain() int {
	n := 0
	for _, a := range p.Without {
		if a.Then != nil && a.Then.Fits {
			n++
		}
	}
	return n
}

// back plans the absent pods again after the admitted one, as they are, the most important first,
// and adds to the proposal which of them have a place on the node then.
func (x *search) back(p *Proposal, s *node.State, admitted *node.Plan, gone []victim) {
	next, err := s.Apply(admitted)
	if err != nil {
		return
	}
	full := false // The requests of all pods exceed what the Node has for pods.
	for _, left := range x.left {
		full = full || left < 0
	}
	for i := len(gone) - 1; i >= 0; i-- {
		pod, then := gone[i].grant.Pod, &Return{}
		if pod.Estimated { // Its request is not known.
			return
		}
		x.plans++
		if plan := x.as(next, pod, next.Plan(pod)); plan.Rejection == nil && !full {
			then.Fits, then.Outcome = true, outcome(next, plan)
			if next, err = next.Apply(plan); err != nil {
				return
			}
		}
		p.Without[i].Then = then
	}
}

// Without returns the text of a proposal that pods are absent, with what becomes of each if that is
// known of all.
func Without(gone []Absent) string {
	names, texts, fit := make([]string, len(gone)), make([]string, len(gone)), 0
	known := true
	for i, a := range gone {
		names[i] = a.Pod
		if a.Then == nil {
			known = false
			continue
		}
		texts[i] = a.Then.text(a.Pod)
		if len(gone) == 1 {
			texts[i] = a.Then.text("which")
		}
		if a.Then.Fits {
			fit++
		}
	}
	text := "without " + strings.Join(names, ", ")
	switch {
	case !known:
		return text
	case len(texts) > maxReturns:
		return fmt.Sprintf("%s (%d of these pods then fit again on this node)", text, fit)
	}
	return text + " (" + strings.Join(texts, ", ") + ")"
}

// text describes the return of the pod with a name.
func (r *Return) text(name string) string {
	switch {
	case !r.Fits:
		return name + " then has no place on this node"
	case strings.HasPrefix(r.Outcome, "on "):
		return name + " then fits again " + r.Outcome
	}
	return name + " then fits again, " + r.Outcome
}

// maxReturns bounds the number of pods of which the text of a proposal describes the return.
const maxReturns = 3
