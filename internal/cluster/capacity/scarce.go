package capacity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Scarcity describes what is missing for the rejected pods where the placed pods have left room.
// See the section "What is missing" of the package comment.
type Scarcity struct {
	// Pods counts the rejected pods. Alone counts those for which a resource alone is missing on
	// some place, by the resource for which this is so on the most places, the most pods first.
	// NotAlone counts those for which no resource alone is missing anywhere. NotKnown counts those
	// that were not looked at, because there are too many shapes on too many nodes.
	Pods               int64
	Alone              []PodsOf
	NotAlone, NotKnown int64
	// Shapes describes the shapes with the most pods: pods that differ only in their names are one
	// shape. More and MorePods count the other shapes, and their pods.
	Shapes   []Scarce
	More     int
	MorePods int64
}

// PodsOf is the number of pods for which a resource is missing.
type PodsOf struct {
	Resource string
	Pods     int64
}

// Scarce describes what is missing for one shape.
type Scarce struct {
	// Pods counts the rejected pods. Example is the first one.
	Pods    int64
	Example fleet.Pod
	// Empty is set for pods that no node takes, however empty, in an answer about a number of
	// nodes. The places are then those of one empty node of each kind.
	Empty bool
	// Container is the container that lacks something, under scope container. It is empty if the
	// pod does. Wanted has what it asks for on a place. Both are those of the first node.
	Container string
	Wanted    []explain.Amount
	// NUMANodes and Nodes count the places: NUMA nodes or, where the policy lets the pod be split,
	// whole nodes.
	NUMANodes, Nodes int
	// Ruled counts the nodes that a rule of the scheduler bars. Their places are not counted.
	Ruled int
	// Limited counts the nodes that have as many pods of the workload as its limit allows. Their
	// places are not counted.
	Limited int
	// Unknown counts the nodes without an account. NotAllowed counts those on which the pods may
	// not run. Both are not among the places.
	Unknown, NotAllowed int
	// Every place is counted once: where nothing is missing, by the resource that alone is missing,
	// where an amount is missing beside others or beside another reason, or where no amount is
	// missing and another reason keeps the pods off.
	Nothing, Several, Barred int
	// Missing has the resources that are missing somewhere, first those that are alone on the most
	// places. Bars has the other reasons, first those that count on the most places.
	Missing []Lack
	Bars    []Bar
	// Reserved has the reservations for the system that keep the pods off places, however empty.
	Reserved []Reservation
	// Smaller has smaller requests with which more pods are placed, the largest first.
	Smaller []Smaller
}

// Lack counts the places on which a resource is missing.
type Lack struct {
	Resource string
	// Alone counts the places on which nothing else is missing, and Least and Most are the amounts
	// that are missing there. WithOthers counts the other places on which the resource is missing.
	Alone, WithOthers int
	Least, Most       int64
	// amounts has the missing amount of each place on which the resource is alone.
	amounts []int64
}

// Bar counts the places that a reason other than an amount keeps pods off. A place counts for the
// first of its reasons.
type Bar struct {
	Reason explain.Bar
	// Alone counts the places on which no amount is missing, and WithAmounts the others.
	Alone, WithAmounts int
}

// Reservation is what keeps pods off places that would have room for them without pods: CPUs or
// memory that are reserved for the system. Most is the largest reservation of such a place.
type Reservation struct {
	explain.Amount // wanted
	Most           int64
	Places         int
}

// Smaller is a smaller request of one amount. Pods counts the rejected pods that the fleet takes
// with it. AtLeast is set if more may fit: the count ended at its limit.
type Smaller struct {
	explain.Change
	Pods    int64
	AtLeast bool
}

// shape has the rejected pods of a class.
type shape struct {
	first fleet.Pod
	pods  int64
}

// shapeKey names a shape. Rules judge pods of a class by their labels, so pods that a rule bars
// from some node are apart from the others.
type shapeKey struct {
	class *fleet.Class
	ruled bool
}

// shapeOf returns the shape of a pod, which may be new.
func (r *run) shapeOf(class *fleet.Class, pod fleet.Pod, why []fleet.Count) *shape {
	key := shapeKey{class, slices.ContainsFunc(why, func(c fleet.Count) bool { return c.Rule != "" })}
	s := r.byKey[key]
	if s == nil {
		s = &shape{first: pod}
		r.byKey[key], r.shapes = s, append(r.shapes, s)
	}
	return s
}

const (
	// maxShapes bounds the shapes that are described: a reader changes one request at a time.
	maxShapes = 10
	// maxAccounts bounds the accounts of nodes for all shapes together. An account takes about 10
	// µs.
	maxAccounts = 100_000
)

// alike has nodes that give every pod the same account.
type alike struct {
	views []*fleet.View
}

// Scarcity returns what is missing for the rejected pods. The error is the context's, or one of the
// fleet's rules.
func (r *Result) Scarcity(ctx context.Context) (Scarcity, error) {
	var out Scarcity
	if r.left != nil {
		if err := r.left.scarcity(ctx, &out); err != nil {
			return out, err
		}
	}
	err := r.scarcity(ctx, &out)
	sort.SliceStable(out.Alone, func(a, b int) bool { return out.Alone[a].Pods > out.Alone[b].Pods })
	return out, err
}

// scarcity adds what is missing for the rejected pods of one fleet.
func (r *Result) scarcity(ctx context.Context, out *Scarcity) error {
	if len(r.shapes) == 0 {
		return nil
	}
	nodes := alikeOf(r.Fleet.Views())
	budget := r.Asked // The same as the placements of the result, so that the time at most doubles.
	for i, s := range r.shapes {
		out.Pods += s.pods
		if i > 0 && (i+1)*len(nodes) > maxAccounts {
			out.NotKnown += s.pods
			out.more(s)
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rule, err := r.Fleet.Rule(&s.first)
		if err != nil {
			return err
		}
		scarce, first, err := s.account(r.Fleet, nodes, rule)
		if err != nil {
			return err
		}
		if scarce.Empty = r.empty; len(scarce.Missing) > 0 && scarce.Missing[0].Alone > 0 {
			out.count(scarce.Missing[0].Resource, s.pods)
		} else {
			out.NotAlone += s.pods
		}
		if len(out.Shapes) == maxShapes {
			out.more(s)
			continue
		}
		if rule != nil || len(s.first.Readings) > 0 {
			out.Shapes = append(out.Shapes, scarce) // A smaller request is not tried.
			continue
		}
		if err := r.smaller(ctx, s, &scarce, first, &budget); err != nil {
			return err
		}
		out.Shapes = append(out.Shapes, scarce)
	}
	return nil
}

// more counts a shape that is not described.
func (s *Scarcity) more(of *shape) {
	s.More++
	s.MorePods += of.pods
}

// count counts pods for which a resource alone is missing.
func (s *Scarcity) count(resource string, pods int64) {
	i := slices.IndexFunc(s.Alone, func(p PodsOf) bool { return p.Resource == resource })
	if i < 0 {
		i = len(s.Alone)
		s.Alone = append(s.Alone, PodsOf{Resource: resource})
	}
	s.Alone[i].Pods += pods
}

// alikeOf groups nodes that have the same free, in the order of their first nodes.
func alikeOf(views []*fleet.View) []alike {
	var all []alike
	at := map[string]int{}
	var buffer []byte
	for _, v := range views {
		var same bool
		buffer = append(append(buffer[:0], v.Kind...), 0)
		buffer = v.Used.AppendKey(v.Allocatable.AppendKey(buffer))
		buffer, same = v.State.AppendFreeDevices(buffer)
		i, known := at[string(buffer)]
		if !known || !same {
			i = len(all)
			all = append(all, alike{})
		}
		if same {
			at[string(buffer)] = i
		}
		all[i].views = append(all[i].views, v)
	}
	return all
}

// lacking is an account of a node.
type lacking struct {
	*explain.Missing
	view *fleet.View
}

// account counts the places. first is the account of a node on which a resource alone is missing,
// for each resource.
func (s *shape) account(f *fleet.Fleet, nodes []alike, rule fleet.Rule) (out Scarce, first map[string]lacking, err error) {
	out, first = Scarce{Pods: s.pods, Example: s.first}, map[string]lacking{}
	for _, group := range nodes {
		allowed, err := out.allow(s, f, group.views, rule)
		if err != nil {
			return out, first, err
		}
		if allowed == 0 {
			continue
		}
		v := group.views[0]
		m := missingOn(v, &s.first)
		if m == nil {
			out.Unknown += allowed
			continue
		}
		out.add(m, allowed)
		out.reserve(v, m, allowed)
		for k := range m.Places {
			if a, alone := m.Places[k].Alone(); alone && first[a.Resource].Missing == nil {
				first[a.Resource] = lacking{m, v}
			}
		}
	}
	if out.Wanted == nil { // No node gives an account.
		out.Wanted = wholeOf(s.first.Asks)
	}
	sort.Slice(out.Missing, func(i, k int) bool {
		a, b := &out.Missing[i], &out.Missing[k]
		return cmp.Or(cmp.Compare(b.Alone, a.Alone), cmp.Compare(b.WithOthers, a.WithOthers), strings.Compare(a.Resource, b.Resource)) < 0
	})
	slices.SortStableFunc(out.Bars, func(a, b Bar) int { return cmp.Compare(b.Alone+b.WithAmounts, a.Alone+a.WithAmounts) })
	return out, first, nil
}

// allow returns how many nodes the pods of the shape may run on, and counts the others.
func (s *Scarce) allow(of *shape, f *fleet.Fleet, views []*fleet.View, rule fleet.Rule) (allowed int, err error) {
	for _, v := range views {
		what := ""
		if rule != nil {
			if what, err = rule.Bars(&v.Node); err != nil {
				return allowed, fmt.Errorf("pod %s on node %s: %w", of.first.ID(), v.Name, err)
			}
		}
		switch {
		case of.first.Allowed != nil && !of.first.Allowed(&v.Node):
			s.NotAllowed++
		case f.Full(&of.first, v.Name):
			s.Limited++
		case what != "":
			s.Ruled++
		default:
			allowed++
		}
	}
	return allowed, nil
}

// missingOn returns what a pod lacks on a node: on its places, and of what is allocatable on the
// node as a whole.
func missingOn(v *fleet.View, pod *fleet.Pod) *explain.Missing {
	pod = pod.On(&v.Node)
	plan := v.State.Plan(pod.Pod)
	m := explain.MissingOf(v.State, plan)
	switch {
	case m == nil && plan.Rejection != nil:
		return nil
	case m == nil: // A pod without anything of its own counts by its requests alone.
		m = &explain.Missing{Whole: true, Wanted: wholeOf(pod.Asks), Places: []explain.MissingPlace{{}}}
	}
	for _, resource := range requestedOf(pod.Asks) {
		asks, left := pod.Asks.Of(resource), v.Allocatable.Of(resource)-v.Used.Of(resource)
		short := asks - left
		if resource == request.CPU {
			short = (short + 999) / 1000
		}
		for k := range m.Places {
			if asks > left {
				m.Places[k].Lacks(explain.Amount{Resource: resource, Value: short})
			}
		}
	}
	return m
}

// requestedOf returns the resources of which a pod requests something.
func requestedOf(asks fleet.Amounts) []string {
	var out []string
	for _, r := range []string{request.CPU, request.Memory, "pods"} {
		if asks.Of(r) > 0 {
			out = append(out, r)
		}
	}
	for _, o := range asks.Others {
		if o.Value > 0 {
			out = append(out, o.Resource)
		}
	}
	return out
}

// wholeOf returns amounts with whole CPUs, without the number of pods.
func wholeOf(asks fleet.Amounts) []explain.Amount {
	var out []explain.Amount
	for _, r := range requestedOf(asks) {
		n := asks.Of(r)
		if r == request.CPU {
			n = (n + 999) / 1000
		}
		if r != "pods" {
			out = append(out, explain.Amount{Resource: r, Value: n})
		}
	}
	return out
}

// add counts the places of nodes.
func (s *Scarce) add(m *explain.Missing, nodes int) {
	if s.Wanted == nil {
		s.Container, s.Wanted = m.Container, m.Wanted
	}
	for k := range m.Places {
		p := &m.Places[k]
		if m.Whole {
			s.Nodes += nodes
		} else {
			s.NUMANodes += nodes
		}
		alone, is := p.Alone()
		switch {
		case len(p.Missing) == 0 && p.Barred:
			s.Barred += nodes
		case len(p.Missing) == 0:
			s.Nothing += nodes
		case !is:
			s.Several += nodes
		}
		if p.Barred {
			s.bar(p.Bars[0], len(p.Missing) == 0, nodes)
		}
		if is {
			s.lack(alone.Resource).add(alone.Value, nodes)
			continue
		}
		for _, a := range p.Missing {
			s.lack(a.Resource).WithOthers += nodes
		}
	}
}

// bar counts places that a reason keeps pods off.
func (s *Scarce) bar(reason explain.Bar, alone bool, places int) {
	i := slices.IndexFunc(s.Bars, func(b Bar) bool { return b.Reason == reason })
	if i < 0 {
		i = len(s.Bars)
		s.Bars = append(s.Bars, Bar{Reason: reason})
	}
	if alone {
		s.Bars[i].Alone += places
	} else {
		s.Bars[i].WithAmounts += places
	}
}

// lack returns the entry of a resource, which may be new.
func (s *Scarce) lack(resource string) *Lack {
	i := slices.IndexFunc(s.Missing, func(l Lack) bool { return l.Resource == resource })
	if i < 0 {
		i = len(s.Missing)
		s.Missing = append(s.Missing, Lack{Resource: resource})
	}
	return &s.Missing[i]
}

// add counts places on which only this amount of the resource is missing.
func (l *Lack) add(amount int64, places int) {
	if l.Alone == 0 {
		l.Least = amount
	}
	l.Least, l.Most = min(l.Least, amount), max(l.Most, amount)
	l.Alone += places
	for range places {
		l.amounts = append(l.amounts, amount)
	}
}

// reserve counts the places of nodes that have room for what is wanted only without what is
// reserved for the system.
func (s *Scarce) reserve(v *fleet.View, m *explain.Missing, nodes int) {
	for _, w := range m.Wanted {
		for k := range m.Places {
			size, reserved := sizeOf(v, m.Places[k].NUMANode, w.Resource)
			if size < w.Value || size-reserved >= w.Value {
				continue
			}
			i := slices.IndexFunc(s.Reserved, func(r Reservation) bool { return r.Amount == w })
			if i < 0 {
				i = len(s.Reserved)
				s.Reserved = append(s.Reserved, Reservation{Amount: w})
			}
			s.Reserved[i].Places += nodes
			s.Reserved[i].Most = max(s.Reserved[i].Most, reserved)
		}
	}
}

// sizeOf returns how many CPUs or bytes a NUMA node has or, if it is nil, the node, and how much of
// it is reserved. It returns 0 for other resources.
func sizeOf(v *fleet.View, numa *int, resource string) (size, reserved int64) {
	m, policy := v.State.Machine(), v.State.Policy()
	for _, n := range m.Nodes() {
		if resource == request.CPU && policy.StaticCPU && (numa == nil || *numa == n.ID) {
			size += int64(n.CPUs.Len())
			reserved += int64(policy.ReservedCPUs.IntersectionLen(n.CPUs))
		}
	}
	t := m.MemoryType(resource)
	if t < 0 || !policy.StaticMemory {
		return size, reserved
	}
	for i, n := range v.State.Memory().Capacity().Nodes() {
		if numa == nil || *numa == m.Nodes()[i].ID {
			size += n.Types[t].SystemReserved + n.Types[t].Allocatable
			reserved += n.Types[t].SystemReserved
		}
	}
	return size, reserved
}
