// Package capacity answers questions about a fleet that does not run yet, or not in this way: do
// these pods fit, what fills it, how many nodes are needed.
//
// Every answer comes from package fleet, and so from the nodes' own planner: pods are placed one
// after the other, in the order given, each on the best node at that moment. No pod is moved later.
// An answer therefore is what a scheduler with the same scoring reaches, not what is possible at
// best. The same input gives the same answer.
package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Kind is a number of equal nodes.
type Kind struct {
	Name  string
	Count int
	// Group is what reports add the nodes up by; empty: Name. Nodes that run have pods of their
	// own, so that each is a kind, while many have the same hardware and policy.
	Group string
	// State, Allocatable and Used are those of each node.
	State             *node.State
	Allocatable, Used fleet.Amounts
}

// Item is a number of equal pods.
type Item struct {
	// Name is for people.
	Name  string
	Pod   fleet.Pod
	Count int64
}

// Options say how an answer is found.
type Options struct {
	Scoring fleet.Scoring
	// Placements asks for the place of every pod.
	Placements bool
	// Rules make the rules that a fleet of these nodes obeys, in the order of the kinds; nil: none.
	Rules func(nodes []fleet.Node) (fleet.Rules, error)
	// Progress is called now and then with the number of pods tried; total is 0 where it is not
	// known.
	Progress func(tried, total int64)
	// hasty ends at the first pod that is rejected. The result has it, and not what comes after it.
	hasty bool
}

// Result is what became of the pods.
type Result struct {
	Nodes                   int
	Asked, Placed, Rejected int64
	// Milli is CPU time in thousandths of a CPU: what the nodes have for pods, and what those that
	// were placed request.
	AllocatableMilli, PlacedMilli int64
	Kinds                         []KindResult
	// Causes are the reasons of rejections, the most frequent first.
	Causes     []Cause
	Placements []Placement
	// Fleet is as it is at the end.
	Fleet *fleet.Fleet
}

// KindResult is what nodes of a kind got.
type KindResult struct {
	Name                          string
	Nodes                         int
	Pods                          int64
	AllocatableMilli, PlacedMilli int64
}

// Cause is why pods are rejected by every node.
type Cause struct {
	// Nearest is the reason of the nodes that came nearest to taking them: a node that would but
	// for a rule comes first, then one whose amounts fit, then one whose amounts do not, then one
	// where the pod may not run.
	Nearest fleet.Why
	Pods    int64
	// Nodes is how many nodes gave that reason to the first of the pods, which is Example; Rest are
	// the reasons of the others.
	Nodes   int
	Rest    []fleet.Count
	Example fleet.Pod
	// Node is one of Nodes, as it was when it rejected Example: of those with too little of a
	// resource the one with the most left, and of those where Example may not run one that would
	// take it otherwise, if there is one: Takes.
	Node  fleet.Node
	Takes bool
	// OneMore is the group of a kind of which one more node, without pods, would take Example;
	// empty: there is none.
	OneMore string
	// Detail and Remedy are those of a rule about Node.
	Detail, Remedy string
}

// Placement is where a pod is.
type Placement struct {
	Pod   string // namespace/name
	Node  string // empty: nowhere
	Grant *node.Grant
	// Reason is the Text of the nearest reason of a pod that is nowhere.
	Reason string
}

// ErrNoNodes is returned for a fleet without nodes, ErrNoPods where no pod is given to Size.
var (
	ErrNoNodes = errors.New("the fleet has no nodes")
	ErrNoPods  = errors.New("there are no pods to place")
)

// Fit places all pods. Without any, the result is the fleet as it is.
func Fit(ctx context.Context, kinds []Kind, items []Item, o Options) (*Result, error) {
	r, err := begin(kinds, items, o)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		r.total += item.Count
	}
	r.patient = true
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

// Fill draws pods from the items, each as often as its count, until none of them fits on any node,
// or n pods are placed; 0 is no limit. The same seed gives the same pods. An item that is rejected
// is left out until all others are: a node may take later what it rejected before, when other pods
// have changed which NUMA nodes belong together.
func Fill(ctx context.Context, kinds []Kind, items []Item, n int64, seed uint64, o Options) (*Result, error) {
	r, err := begin(kinds, items, o)
	if err != nil {
		return nil, err
	}
	r.total = n
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // Repeatable, not secret.
	left := slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return i.Count <= 0 })
	drawn := make(map[string]int64, len(items))
	for len(left) > 0 && (n == 0 || r.Placed < n) {
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

// fitting are the items of which a node takes another pod now.
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

// draw is the position of an item, as likely as its count.
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

// run is an answer in the making.
type run struct {
	Result
	options      Options
	kinds        []Kind
	total, tried int64
	// patient lets pods wait that a rule bars. Waiting are those that do.
	patient bool
	waiting []waiter
	groups  []*KindResult          // in the order of the question
	kindOf  map[string]*KindResult // by node
	causes  map[string]*Cause      // by Text
}

func begin(kinds []Kind, items []Item, o Options) (*run, error) {
	r := &run{options: o, kinds: kinds, kindOf: map[string]*KindResult{}, causes: map[string]*Cause{}}
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
	f, err := fleet.New(o.Scoring, nodes)
	if err != nil {
		return nil, err
	}
	shapes := make([]fleet.Shape, len(items))
	for i, item := range items {
		shapes[i] = fleet.Shape{Pod: item.Pod, Count: item.Count}
	}
	f.Weigh(shapes)
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

// nodeName numbers the nodes of a kind from 1; a kind of one node has its name alone. Names have
// leading zeros, so that their order is that of the numbers.
func nodeName(k Kind, i int) string {
	if k.Count == 1 {
		return k.Name
	}
	return fmt.Sprintf("%s-%0*d", k.Name, len(fmt.Sprint(k.Count)), i+1)
}

// numbered is the k-th pod of an item of count, 0 where the count is not known.
func numbered(item Item, k, count int64) fleet.Pod {
	pod := item.Pod
	if count != 1 {
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, k+1)
		pod.UID = fmt.Sprintf("%s-%d", pod.UID, k+1)
	}
	return pod
}

// every is how many pods lie between two calls of Progress and looks at the context.
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
	if r.options.Placements {
		r.Placements = append(r.Placements, Placement{Pod: pod.ID()})
	}
	return r.fit(waiter{class: class, pod: pod, at: len(r.Placements) - 1})
}

// reject files pods of a class under the nearest of their reasons, and returns its text.
func (r *run) reject(pod fleet.Pod, why []fleet.Count, pods int64) (string, error) {
	nearest := slices.MinFunc(why, func(a, b fleet.Count) int {
		return cmp.Or(cmp.Compare(distance(a.Why), distance(b.Why)), cmp.Compare(b.Nodes, a.Nodes))
	})
	text := Text(nearest.Why)
	c, ok := r.causes[text]
	if !ok {
		c = &Cause{Nearest: nearest.Why, Nodes: nearest.Nodes, Example: pod}
		c.Rest = slices.DeleteFunc(slices.Clone(why), func(w fleet.Count) bool { return w == nearest })
		if err := r.account(c, nearest); err != nil {
			return "", err
		}
		r.causes[text] = c
	}
	c.Pods += pods
	return text, nil
}

// account adds to a cause the node that it is about, and what is to be known of it. What one more
// node would do to the pods of others is not known, so that there is no such remedy against a rule.
func (r *run) account(c *Cause, nearest fleet.Count) (err error) {
	if nearest.Rule == "" {
		c.Node, c.Takes, err = r.otherwise(c.Example, nearest.Why)
		c.OneMore = r.oneMore(&c.Example)
		return err
	}
	c.Node, _ = r.Fleet.Node(nearest.First)
	rule, err := r.Fleet.Rule(&c.Example)
	if err == nil && rule != nil {
		c.Detail, c.Remedy = rule.Explain(&c.Node)
	}
	return err
}

// otherwise is the node that an account of a rejection is about, and whether it would take the pod
// if the pod were allowed to run there.
func (r *run) otherwise(pod fleet.Pod, why fleet.Why) (n fleet.Node, takes bool, err error) {
	if why.NotAllowed {
		everywhere := pod
		everywhere.Allowed, everywhere.Constraint = nil, ""
		name, found, _, err := r.Fleet.Best(everywhere)
		if err != nil {
			return n, false, err
		}
		if found {
			n, _ = r.Fleet.Node(name)
			return n, true, nil
		}
	}
	n, _ = r.Fleet.Rejecting(pod, why)
	return n, false, nil
}

// oneMore is the first group of nodes of which one without pods would take the pod.
func (r *run) oneMore(pod *fleet.Pod) string {
	seen := map[string]bool{}
	for _, k := range r.kinds {
		group := cmp.Or(k.Group, k.Name)
		if seen[group] {
			continue
		}
		seen[group] = true
		empty, err := bare(k, k.State.Policy())
		if err != nil {
			continue
		}
		n := fleet.Node{Name: k.Name, Kind: group, State: empty.State, Allocatable: empty.Allocatable}
		if verdict := fleet.NewRanking(r.options.Scoring, nil).View(n).Judge(pod); verdict.Fits {
			return group
		}
	}
	return ""
}

// distance is how far a node with this reason is from taking the pod.
func distance(w fleet.Why) int {
	switch {
	case w.NotAllowed:
		return 3
	case w.Amounts:
		return 2
	case w.Rule == "":
		return 1
	}
	return 0
}

func (r *run) end() (*Result, error) {
	if err := r.again(); err != nil {
		return nil, err
	}
	r.Kinds = make([]KindResult, 0, len(r.groups))
	for _, g := range r.groups {
		r.Kinds = append(r.Kinds, *g)
	}
	for _, c := range r.causes {
		r.Causes = append(r.Causes, *c)
	}
	slices.SortFunc(r.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(Text(a.Nearest), Text(b.Nearest)))
	})
	if r.options.Progress != nil {
		r.options.Progress(r.tried, r.tried)
	}
	return &r.Result, nil
}

// Text is a reason in the words of the scheduler and of the kubelet.
func Text(w fleet.Why) string {
	switch {
	case w.Rule != "":
		return w.Rule
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
