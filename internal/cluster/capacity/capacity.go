package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
)

// Kind is a number of identical nodes.
type Kind struct {
	Name  string
	Count int
	// Group is the key by which reports sum nodes. If empty, Name is used. A running node has its
	// own pods and is therefore a kind of its own, while many nodes have the same hardware and
	// policy.
	Group string
	// State, Allocatable and Used are the values of each node.
	State             *node.State
	Allocatable, Used fleet.Amounts
}

// Item is a number of identical pods.
type Item struct {
	// Name is shown to people.
	Name  string
	Pod   fleet.Pod
	Count int64
}

// Options configure how an answer is found.
type Options struct {
	Scoring fleet.Scoring
	// Order is the order in which Fit places the items.
	Order Order
	// Placements requests the placement of every pod.
	Placements bool
	// Rules returns the rules for a fleet of these nodes, which are in the order of the kinds. Nil
	// means no rules.
	Rules func(nodes []fleet.Node) (fleet.Rules, error)
	// Progress is called from time to time with the number of pods tried. total is 0 if it is not
	// known.
	Progress func(tried, total int64)
	// Found is called by Fewest with each number of nodes that is better than the ones before, and
	// with the lower bound. Enough reports whether a search that has a result may end with it. Both
	// may be nil.
	Found  func(nodes, bound int)
	Enough func() bool
	// Cheaper is Found for SizeMix. It may be nil.
	Cheaper func(price, bound float64)
	// hasty stops at the first rejected pod. The result includes that pod and nothing after it.
	hasty bool
	// ranking is that of the scoring for the pods and the kinds, if it is known.
	ranking *fleet.Ranking
	// drawn is used in place of maxDrawn.
	drawn int64
}

// Result describes what happened to the pods.
type Result struct {
	// Order is the order in which the pods were placed.
	Order                   Order
	Nodes                   int
	Asked, Placed, Rejected int64
	// AllocatableMilli is the CPU time that the nodes have for pods. AskedMilli and PlacedMilli are
	// the CPU time that all pods and the placed pods request. All are in thousandths of a CPU.
	AllocatableMilli, AskedMilli, PlacedMilli int64
	Alignment
	// Never counts the rejected pods for which there is no place even on a node without pods.
	// NeverMilli is the CPU time that they request.
	Never, NeverMilli int64
	// LeftOut counts the rejected pods that Fewest and SizeMix left out, because no node of the
	// kinds takes them, however empty. LowerBound is a number of nodes below which the others do
	// not fit, whatever the placement is. Optimal is set if Nodes is that number. Unfinished is set
	// if Options.Enough ended the search before. Only Fewest sets the last three.
	LeftOut             int64
	LowerBound          int
	Optimal, Unfinished bool
	// Stranded describes the CPUs that are free at the end.
	Stranded fleet.Stranded
	Kinds    []KindResult
	// Causes are the reasons for rejections, the most frequent first.
	Causes     []Cause
	Placements []Placement
	// Fleet is the fleet in its final state.
	Fleet *fleet.Fleet
	// shapes has the rejected pods, for Scarcity: the most first, and of equal numbers the one that
	// was rejected first.
	shapes []*shape
	// left is the result for the pods that were left out. It may be nil. It is empty: its fleet has
	// one node of each kind without pods, and any number of them may be added.
	left  *Result
	empty bool
}

// KindResult describes what the nodes of a group of kinds got.
type KindResult struct {
	Name                          string
	Nodes                         int
	Pods                          int64
	AllocatableMilli, PlacedMilli int64
	Alignment
	// Stranded describes the CPUs that are free at the end, without the worst request.
	Stranded fleet.Stranded
}

// Alignment counts placed pods by where their resources are.
type Alignment struct {
	// Own counts the pods that have CPUs, memory or devices of their own. Aligned counts those
	// of which explain.AlignedOf finds that all resources are aligned. AlignedMilli is the CPU time
	// that these request.
	Own, Aligned, AlignedMilli int64
	// Unknown counts those of which no resource is known not to be aligned, and of which this is
	// not known of a device. UnknownMilli is the CPU time that these request.
	Unknown, UnknownMilli int64
}

func (a *Alignment) add(other Alignment) {
	a.Own += other.Own
	a.Aligned += other.Aligned
	a.AlignedMilli += other.AlignedMilli
	a.Unknown += other.Unknown
	a.UnknownMilli += other.UnknownMilli
}

// alignmentOf counts one pod.
func alignmentOf(s *node.State, g *node.Grant, pod *fleet.Pod) Alignment {
	all := explain.AlignedOf(s, g)
	has := func(answer string) bool {
		return slices.ContainsFunc(all, func(a explain.Aligned) bool { return a.Answer == answer })
	}
	switch {
	case len(all) == 0:
		return Alignment{}
	case has(explain.AlignedNo):
		return Alignment{Own: 1}
	case has(explain.AlignedUnknown) && s.Machine().NodeMask().Len() > 1: // On one NUMA node, all is aligned.
		return Alignment{Own: 1, Unknown: 1, UnknownMilli: pod.Asks.Milli}
	}
	return Alignment{Own: 1, Aligned: 1, AlignedMilli: pod.Asks.Milli}
}

// Cause is a reason why every node rejects some pods.
type Cause struct {
	// Nearest is the reason of the nodes that came nearest to taking the pods. A node that only a
	// rule or a limit bars is nearest. Next are a node on which the amounts fit, a node on which
	// they do not fit, and a node on which the pod may not run.
	Nearest fleet.Why
	Pods    int64
	// Nodes is the number of nodes that gave this reason to the first of the pods, which is
	// Example. Rest has the reasons of the other nodes.
	Nodes   int
	Rest    []fleet.Count
	Example fleet.Pod
	// Node is one of these nodes, as it was when it rejected Example. If they have too little of a
	// resource, Node is the one with the most left. If Example may not run on them, Node is one
	// that would otherwise take it, if there is one. Takes is then true.
	Node  fleet.Node
	Takes bool
	// Never counts the pods that no kind of node takes, however empty it is.
	Never int64
	// OneMore is the group of a kind of which one more node, without pods, would take Example. It
	// is empty if there is none.
	OneMore string
	// Detail and Remedy come from a rule or a limit that bars Node.
	Detail, Remedy string
}

// Placement is the result for one pod.
type Placement struct {
	Pod   string // namespace/name
	Node  string // empty if the pod is not placed
	Grant *node.Grant
	// Reason is the Text of the nearest reason if the pod is not placed.
	Reason string
}

// ErrNoNodes is returned for a fleet without nodes. ErrNoPods is returned if Size gets no pods.
var (
	ErrNoNodes = errors.New("the fleet has no nodes")
	ErrNoPods  = errors.New("there are no pods to place")
)

// nonempty returns the items that have pods.
func nonempty(items []Item) []Item {
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return i.Count <= 0 })
}

// Fit places all pods. Without pods, the result is the unchanged fleet.
func Fit(ctx context.Context, kinds []Kind, items []Item, o Options) (*Result, error) {
	items = o.Order.sorted(kinds, items)
	r, err := begin(kinds, items, o)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		r.total += item.Count
	}
	r.patient, r.Order = true, cmp.Or(o.Order, Given)
	for _, item := range items {
		class := r.Fleet.Class(item.Pod)
		for k := range item.Count {
			if err := r.place(ctx, class, numbered(item, k, item.Count)); err != nil {
				return nil, err
			}
			if o.hasty && r.Rejected > 0 {
				return r.end()
			}
		}
	}
	return r.end()
}

// maxDrawn is how many pods Fill places without a limit: pods that ask for nothing are limited by
// the number of pods of a node alone, and a fleet that is too large would fill the memory.
const maxDrawn = 5_000_000

// ErrEndless is wrapped by the error of Fill without a limit if pods still fit after very many.
var ErrEndless = errors.New("more fit: limit the number of pods to draw")

// Fill draws pods from the items, each with a probability in proportion to its count, until none of
// them fits on any node or n pods are placed. If n is 0, there is no limit but that of ErrEndless.
// The same seed gives the same pods. A rejected item is skipped until all others are rejected, too.
// It may fit later, because other pods change which NUMA nodes belong together.
func Fill(ctx context.Context, kinds []Kind, items []Item, n int64, seed uint64, o Options) (*Result, error) {
	r, err := begin(kinds, items, o)
	if err != nil {
		return nil, err
	}
	r.total, r.Order = n, Drawn
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // Repeatable, not secret.
	left := nonempty(items)
	drawn := make(map[string]int64, len(items))
	for len(left) > 0 && (n == 0 || r.Placed < n) {
		if most := cmp.Or(o.drawn, maxDrawn); n == 0 && r.Placed >= most {
			return nil, fmt.Errorf("%d pods are placed, and %w", most, ErrEndless)
		}
		k := draw(random, left)
		item := left[k]
		before := r.Rejected
		if err := r.place(ctx, r.Fleet.Class(item.Pod), numbered(item, drawn[item.Name], 0)); err != nil {
			return nil, err
		}
		drawn[item.Name]++
		if r.Rejected > before {
			left = slices.Delete(left, k, k+1)
		}
		if len(left) == 0 {
			if left, err = r.fitting(items); err != nil {
				return nil, err
			}
		}
	}
	return r.end()
}

// fitting returns the items of which some node takes another pod now.
func (r *run) fitting(items []Item) (out []Item, err error) {
	for _, i := range items {
		_, found, _, err := r.Fleet.Best(i.Pod)
		if err != nil {
			return nil, err
		}
		if i.Count > 0 && found {
			out = append(out, i)
		}
	}
	return out, nil
}

// draw returns the position of a random item, with a probability in proportion to its count.
func draw(random *rand.Rand, items []Item) int {
	var total int64
	for i := range items {
		total += items[i].Count
	}
	at := random.Int64N(total)
	for i := range items {
		if at -= items[i].Count; at < 0 {
			return i
		}
	}
	return len(items) - 1
}

// run is the state of a computation.
type run struct {
	Result
	options      Options
	kinds        []Kind
	total, tried int64
	// patient lets pods that a rule bars wait. waiting has these pods.
	patient bool
	waiting []waiter
	groups  []*KindResult          // in the order of the question
	kindOf  map[string]*KindResult // by node
	causes  map[string]*Cause      // by Text
	// empty has a node without pods of each group, made when the first pod is rejected. homeless
	// has the classes that were looked at, and whether none of them takes them.
	empty    []emptyNode
	homeless map[*fleet.Class]bool
	byKey    map[shapeKey]*shape
}

func begin(kinds []Kind, items []Item, o Options) (*run, error) {
	r := &run{options: o, kinds: kinds, kindOf: map[string]*KindResult{}, causes: map[string]*Cause{}, homeless: map[*fleet.Class]bool{}, byKey: map[shapeKey]*shape{}}
	var nodes []fleet.Node
	groups := map[string]*KindResult{}
	for _, k := range kinds {
		group := cmp.Or(k.Group, k.Name)
		if groups[group] == nil {
			groups[group] = &KindResult{Name: group}
			r.groups = append(r.groups, groups[group])
		}
		of := groups[group]
		of.Nodes += k.Count
		of.AllocatableMilli += int64(k.Count) * k.Allocatable.Milli
		r.AllocatableMilli += int64(k.Count) * k.Allocatable.Milli
		for i := range k.Count {
			n := fleet.Node{Name: nodeName(k, i), Kind: group, State: k.State, Allocatable: k.Allocatable, Used: k.Used}
			nodes = append(nodes, n)
			r.kindOf[n.Name] = of
		}
	}
	if len(nodes) == 0 {
		return nil, ErrNoNodes
	}
	if o.ranking == nil {
		o.ranking = rankingOf(kinds, items, o.Scoring)
	}
	f, err := fleet.New(o.ranking, nodes)
	if err != nil {
		return nil, err
	}
	if o.Rules != nil {
		rules, err := o.Rules(nodes)
		if err != nil {
			return nil, err
		}
		f.Obey(rules)
	}
	r.Nodes, r.Fleet = len(nodes), f
	return r, nil
}

// rankingOf returns the ranking for pods on nodes. The pods are the typical requests or, if there
// are none, those that run.
func rankingOf(kinds []Kind, items []Item, scoring fleet.Scoring) *fleet.Ranking {
	shapes := make([]fleet.Shape, len(items))
	for i, item := range items {
		shapes[i] = fleet.Shape{Pod: item.Pod, Count: item.Count}
	}
	for _, k := range kinds {
		if len(items) == 0 { // As for one node alone.
			shapes = append(shapes, fleet.Running(k.State, k.Count)...)
		}
	}
	return fleet.NewRanking(scoring, shapes)
}

// pricedRanking is rankingOf for kinds with prices. Room on nodes of all kinds is then worth what
// it costs.
func pricedRanking(kinds []Kind, prices []float64, items []Item, scoring fleet.Scoring) *fleet.Ranking {
	r := rankingOf(kinds, items, scoring)
	nodes := make([]fleet.Node, len(kinds))
	for i, k := range kinds {
		nodes[i] = fleet.Node{Name: k.Name, Kind: k.Name, State: k.State, Allocatable: k.Allocatable, Used: k.Used}
	}
	r.Price(nodes, prices)
	return r
}

// nodeName returns the name of the i-th node of a kind. Nodes are numbered from 1. The only node of
// a kind has just the kind's name. Numbers have leading zeros, so that names and numbers have the
// same order.
func nodeName(k Kind, i int) string {
	if k.Count == 1 {
		return k.Name
	}
	return fmt.Sprintf("%s-%0*d", k.Name, len(fmt.Sprint(k.Count)), i+1)
}

// numbered returns the k-th pod of an item with count pods. count is 0 if it is not known.
func numbered(item Item, k, count int64) fleet.Pod {
	pod := item.Pod
	if count != 1 {
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, k+1)
		pod.UID = fmt.Sprintf("%s-%d", pod.UID, k+1)
	}
	return pod
}

// every is the number of pods between two calls of Progress and checks of the context.
const every = 512

func (r *run) place(ctx context.Context, class *fleet.Class, pod fleet.Pod) error {
	if r.tried%every == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.options.Progress != nil {
			r.options.Progress(r.tried, r.total)
		}
	}
	r.tried++
	r.Asked++
	r.AskedMilli += pod.Asks.Milli
	if r.options.Placements {
		r.Placements = append(r.Placements, Placement{Pod: pod.ID()})
	}
	return r.fit(waiter{class: class, pod: pod, at: len(r.Placements) - 1})
}

func (r *run) end() (*Result, error) {
	if err := r.again(); err != nil {
		return nil, err
	}
	r.Kinds = make([]KindResult, 0, len(r.groups))
	r.strand()
	for _, g := range r.groups {
		r.Kinds = append(r.Kinds, *g)
	}
	for _, c := range r.causes {
		r.Causes = append(r.Causes, *c)
	}
	slices.SortFunc(r.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(Text(a.Nearest), Text(b.Nearest)))
	})
	sort.SliceStable(r.shapes, func(a, b int) bool { return r.shapes[a].pods > r.shapes[b].pods })
	if r.options.Progress != nil {
		r.options.Progress(r.tried, r.tried)
	}
	return &r.Result, nil
}

// strand counts the free and the stranded CPUs. Size discards the results of numbers of nodes that
// are too few, so it skips them.
func (r *run) strand() {
	if r.options.hasty && r.Rejected > 0 {
		return
	}
	views := r.Fleet.Views()
	r.Stranded = fleet.StrandedOn(views)
	for _, v := range views {
		r.kindOf[v.Name].Stranded.Add(v)
	}
}

// Text returns a reason in the terms of the scheduler and the kubelet.
func Text(w fleet.Why) string {
	switch {
	case w.Rule != "":
		return w.Rule
	case w.PerNode:
		return "limit of the workload per node"
	case w.NotAllowed:
		return "node selector, affinity or taints"
	case w.Amounts && w.Resource == "pods":
		return "too many pods"
	case w.Amounts:
		return "insufficient " + w.Resource
	case w.Resource != "":
		return string(w.Reason) + " (" + w.Resource + ")"
	}
	return string(w.Reason)
}
