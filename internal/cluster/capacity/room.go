package capacity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Room is a fleet that is asked, again and again, whether it takes several pods together. It has
// the nodes whose planner can be asked, in a fleet without rules, and others. The zero value has no
// nodes. Only one goroutine may use it at a time.
type Room struct {
	Fleet *fleet.Fleet
	// Open are nodes whose planner cannot be asked, by name. No node is in the fleet, too.
	Open map[string]Open
}

// Open is a node of which only the amounts are known, or of which it is only known that it takes no
// pods with exclusive resources.
type Open struct {
	Name              string
	Allocatable, Used fleet.Amounts
	// Bars describes why the node takes no pod that requests exclusive resources. If empty, it
	// takes such pods as far as the amounts allow.
	Bars string
}

// Group is a number of identical pods.
type Group struct {
	Item
	// Node is the node on which all pods of the group must run. If empty, they may run on each
	// node. In both cases, Pod.Allowed must allow the node. Of an open node and of this one, it
	// gets the name alone.
	Node string
	// Only has the nodes that Pod.Allowed allows, if the group names no node and they are few. Then
	// only these are asked. Nil means that all are.
	Only []string
	// Exclusive is set if a pod of the group requests anything that a node assigns exclusively.
	Exclusive bool
}

// Joint is the answer of a Room to groups of pods.
type Joint struct {
	// Placements has each pod with its node in the order in which they were placed, if all pods
	// fit. Grant is nil on an open node.
	Placements []Placement
	// Nodes has the number of pods of each group on each node, parallel to the groups.
	Nodes []map[string]int64
	// Guessed counts the pods that are placed on open nodes. For them, only amounts were compared.
	Guessed int64
	// Short describes what does not fit. It is nil if all pods fit.
	Short *Shortfall
}

// Shortfall describes the first pod that does not fit.
type Shortfall struct {
	// Group is the group of the pod. Placed is the number of pods of this group that fit, beside
	// the groups that were placed before.
	Group  Group
	Placed int64
	// Why counts the nodes that do not take the pod, by reason, the nearest first. It is empty if
	// no node was asked.
	Why []fleet.Count
	// Node is the node that the group names, or the one that came nearest to taking the pod.
	// Rejection is its answer. It is nil if not its planner rejects the pod but the amounts do, or
	// if the planner cannot be asked.
	Node      string
	Rejection *rejection.Rejection
	// Missing is set if the group names a node that does not exist, and NotAllowed if its pods may
	// not run there. Bars is Open.Bars of the node.
	Missing, NotAllowed bool
	Bars                string
	// Amount is the resource that is short in the sum of all requests, if that is the reason.
	Amount string
	// Never is set if Node would not take the pod without any other pod either.
	Never bool
}

// Take places all pods of the groups, or none: it changes the room only if the answer has no
// Shortfall. Groups with a node come first, because they have no choice. The others follow in the
// order of their size, the largest first, and if that fails, in the given order. A yes is proven by
// the placements. A no is true for these two orders alone, and a scheduler that places the pods in
// another order can find places for them.
//
// The error is that of the context, or an error of node.State.Apply.
func (r *Room) Take(ctx context.Context, groups []Group) (*Joint, error) {
	given := make([]int, len(groups))
	for i := range given {
		given[i] = i
	}
	slices.SortStableFunc(given, func(a, b int) int { return cmp.Compare(pinned(groups[a]), pinned(groups[b])) })
	largest := slices.Clone(given)
	slices.SortStableFunc(largest, func(a, b int) int {
		x, y := groups[a].Pod.Asks, groups[b].Pod.Asks
		return cmp.Or(cmp.Compare(pinned(groups[a]), pinned(groups[b])), cmp.Compare(y.Milli, x.Milli), cmp.Compare(y.Memory, x.Memory))
	})
	joint, err := r.try(ctx, groups, largest)
	if err != nil || joint.Short == nil || slices.Equal(given, largest) {
		return joint, err
	}
	other, err := r.try(ctx, groups, given)
	if err != nil || other.Short == nil {
		return other, err
	}
	return joint, nil
}

// pinned returns 0 for a group with a node, which comes first, and 1 for others.
func pinned(g Group) int {
	if g.Node != "" {
		return 0
	}
	return 1
}

// bars reports whether the pods of a group may not run on the node that it names.
func (g *Group) bars() bool {
	return g.Node != "" && g.Pod.Allowed != nil && !g.Pod.Allowed(&fleet.Node{Name: g.Node})
}

// taking is one attempt to place groups. before and open have the nodes that it changed as they
// were.
type taking struct {
	*Room
	Joint
	before map[string]*fleet.View
	open   map[string]Open
	// part has the nodes of the fleet that are asked for the group. It may be the fleet.
	part *fleet.Fleet
	// left has the open nodes that may still take the group, the best first: see guess.
	left []string
}

// try places the groups in an order of their positions.
func (r *Room) try(ctx context.Context, groups []Group, order []int) (*Joint, error) {
	t := &taking{Room: r, before: map[string]*fleet.View{}, open: map[string]Open{}}
	t.Nodes = make([]map[string]int64, len(groups))
	err := t.place(ctx, groups, order)
	if err == nil && t.Short == nil {
		return &t.Joint, nil
	}
	t.Placements, t.Nodes, t.Guessed = nil, nil, 0
	for _, v := range t.before {
		if e := r.Fleet.Set(v); err == nil {
			err = e
		}
	}
	for name, o := range t.open {
		r.Open[name] = o
	}
	return &t.Joint, err
}

func (t *taking) place(ctx context.Context, groups []Group, order []int) error {
	tried := 0
	for _, i := range order {
		g := groups[i]
		t.Nodes[i] = map[string]int64{}
		if t.part, t.left = t.Fleet, t.candidates(&g); t.Fleet != nil && g.Only != nil {
			t.part = t.Fleet.Part(g.Only)
		}
		for k := range g.Count {
			if tried%every == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			tried++
			pod := numbered(g.Item, k, g.Count)
			placed, why, err := t.one(g, pod)
			if err != nil {
				return err
			}
			if !placed {
				t.Short = t.shortfall(g, pod, k, why)
				return nil
			}
			t.Nodes[i][t.Placements[len(t.Placements)-1].Node]++
		}
	}
	return nil
}

// one places one pod. If it does not, why counts the reasons of the fleet's nodes.
func (t *taking) one(g Group, pod fleet.Pod) (placed bool, why []fleet.Count, err error) {
	name, found := g.Node, false
	switch {
	case g.bars():
		return false, nil, nil
	case t.Fleet == nil:
	case name == "":
		if name, found, why, err = t.part.Best(pod); t.part != t.Fleet {
			why = t.others(why)
		}
	default:
		var v *fleet.View
		if v, found = t.Fleet.View(name); found {
			found = v.Allocatable.Short(v.Used, pod.On(&v.Node).Asks) == ""
		}
	}
	if err != nil {
		return false, nil, err
	}
	if !found {
		return t.guess(pod), why, nil
	}
	was, _ := t.Fleet.View(name)
	plan, err := t.Fleet.Place(name, pod)
	if err != nil || plan.Rejection != nil {
		return false, why, err
	}
	if t.before[name] == nil {
		t.before[name] = was
	}
	if t.part != t.Fleet && name != g.Node {
		if now, is := t.Fleet.View(name); is {
			err = t.part.Set(now)
		}
	}
	t.Placements = append(t.Placements, Placement{Pod: pod.ID(), Node: name, Grant: plan.Grant})
	return true, nil, err
}

// others adds the nodes that were not asked, because the pod may not run there.
func (t *taking) others(why []fleet.Count) []fleet.Count {
	if n := len(t.Fleet.Views()) - len(t.part.Views()); n > 0 && (len(why) > 0 || len(t.part.Views()) == 0) {
		why = append(slices.Clip(why), fleet.Count{Why: fleet.Why{NotAllowed: true}, Nodes: n})
	}
	return why
}

// candidates returns the open nodes on which the pods of a group may run, the fullest first and
// then by name.
func (t *taking) candidates(g *Group) (names []string) {
	among := g.Only
	switch {
	case g.Node != "":
		among = []string{g.Node}
	case among == nil:
		among = slices.Collect(maps.Keys(t.Open))
	}
	for _, name := range among {
		if o, is := t.Open[name]; !is || g.Exclusive && o.Bars != "" {
			continue
		}
		if g.Node == "" && g.Pod.Allowed != nil && !g.Pod.Allowed(&fleet.Node{Name: name}) {
			continue
		}
		names = append(names, name)
	}
	free := func(name string) int64 { o := t.Open[name]; return o.Allocatable.Milli - o.Used.Milli }
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(free(a), free(b)), cmp.Compare(a, b)) })
	return names
}

// guess places a pod on an open node, by its amounts alone: on the fullest that takes it, then the
// first by name. The pods of a group are equal. A node that takes one becomes fuller, so that it
// remains the best. One that does not take a pod takes none of the others either.
func (t *taking) guess(pod fleet.Pod) bool {
	for len(t.left) > 0 {
		if o := t.Open[t.left[0]]; o.Allocatable.Short(o.Used, pod.Asks) == "" {
			break
		}
		t.left = t.left[1:]
	}
	if len(t.left) == 0 {
		return false
	}
	best := t.left[0]
	o := t.Open[best]
	if _, known := t.open[best]; !known {
		t.open[best] = o
	}
	o.Used = o.Used.Plus(pod.Asks)
	t.Open[best] = o
	t.Guessed++
	t.Placements = append(t.Placements, Placement{Pod: pod.ID(), Node: best})
	return true
}

// shortfall describes why a pod does not fit.
func (t *taking) shortfall(g Group, pod fleet.Pod, placed int64, why []fleet.Count) *Shortfall {
	s := &Shortfall{Group: g, Placed: placed, Why: why, Node: g.Node}
	slices.SortStableFunc(s.Why, func(a, b fleet.Count) int { return cmp.Compare(distance(a.Why), distance(b.Why)) })
	if s.Node == "" && len(s.Why) > 0 && !s.Why[0].NotAllowed {
		if n, found := t.part.Rejecting(pod, s.Why[0].Why); found {
			s.Node = n.Name
		}
	}
	if s.Node == "" {
		return s
	}
	var v *fleet.View
	if t.Fleet != nil {
		v, _ = t.Fleet.View(s.Node)
	}
	if v == nil {
		o, is := t.Open[s.Node]
		s.Missing, s.NotAllowed = !is, is && g.bars()
		if s.Bars = o.Bars; is && (s.Bars == "" || !g.Exclusive) {
			s.Bars, s.Amount = "", o.Allocatable.Short(o.Used, pod.Asks)
			s.Never = o.Allocatable.Short(fleet.Amounts{}, pod.Asks) != ""
		}
		return s
	}
	if s.NotAllowed = g.bars(); s.NotAllowed {
		return s
	}
	on := pod.On(&v.Node)
	if s.Amount = v.Allocatable.Short(v.Used, on.Asks); s.Amount == "" {
		s.Rejection = v.State.Plan(on.Pod).Rejection
	}
	s.Never = v.Allocatable.Short(fleet.Amounts{}, on.Asks) != ""
	if empty, err := bare(Kind{State: v.State}, v.State.Policy()); err == nil && !s.Never {
		s.Never = empty.State.Plan(on.Pod).Rejection != nil
	}
	return s
}

// maxWhy is the number of reasons that a text of a Shortfall counts.
const maxWhy = 3

// Text returns one or two sentences: what does not fit, and how much of what is short is free on
// each NUMA node. It names no pods, because its readers need not have access to their namespaces.
func (s *Shortfall) Text() string {
	text := fmt.Sprintf("%d of %d pods of %s fit", s.Placed, s.Group.Count, s.Group.Name)
	if s.Group.Node != "" {
		text += " on node " + s.Group.Node
	}
	text += ", and the next one does not: "
	if s.Group.Node == "" {
		for i, c := range s.Why {
			if i == maxWhy {
				break
			}
			text += fmt.Sprintf("%d node(s): %s; ", c.Nodes, Text(c.Why))
		}
	}
	switch {
	case s.Missing:
		return text + "there is no node " + s.Node
	case s.NotAllowed:
		return text + "they may not run there (node selector, affinity or taints)"
	case s.Bars != "":
		return text + s.Bars
	case s.Node == "" && len(s.Why) == 0:
		return text + "there is no node for it"
	case s.Node == "":
		return text + "no node that it may run on has more"
	case s.Group.Node == "":
		text += "the nearest is node " + s.Node + ": "
	}
	switch {
	case s.Rejection != nil:
		text += s.Rejection.Error() + freeOn(s.Rejection)
	case s.Amount == "pods":
		text += "it has as many pods as it may have"
	case s.Amount != "":
		text += "insufficient " + s.Amount
	}
	if s.Never {
		text += ". It would not fit there without other pods either"
	}
	return text
}

// maxNUMANodes is the number of NUMA nodes whose free amounts a text shows.
const maxNUMANodes = 16

// freeOn returns how much of the resource of a rejection is free on each NUMA node.
func freeOn(r *rejection.Rejection) (text string) {
	for i, n := range r.Nodes {
		if i == maxNUMANodes {
			return text + fmt.Sprintf("; and %d more NUMA nodes", len(r.Nodes)-i)
		}
		text += fmt.Sprintf("; NUMA node %d: %s free of %s", n.Node, number(r.Resource, n.Free), number(r.Resource, n.Total))
	}
	return text
}

// number returns an amount without the name of its resource.
func number(resource request.Resource, n int64) string {
	if request.IsMemory(resource) {
		return request.RoundedQuantity(n)
	}
	return strconv.FormatInt(n, 10)
}
