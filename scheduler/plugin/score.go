package plugin

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// PreScore finds what the pod costs on the nodes that take it. Score ranks a node by its cost.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c := of(state)
	if c == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	c.levels = make(levels, 0, fewLevels)
	var open []taking
	for _, info := range nodes {
		if at, q := p.recent(c, info); at != nil {
			if known := at.Price(q); known != nil {
				c.levels.add(known)
				continue
			}
		}
		if t := p.taking(c, c.gangIn(state), info); t.question != nil {
			open = append(open, t)
		}
	}
	p.price(ctx, open)
	for _, t := range open {
		shared := c.levels.add(&cluster.Priced{Question: t.question, Cost: t.cost})
		if c.only() != nil {
			t.at.SetPrice(shared)
		}
	}
	c.levels.rank()
	return nil
}

// Score returns a score by the cost on the node. A node that is not managed has the lowest score,
// because it assigns no exclusive resources to the pod, and so has one that is unsure, because it
// can reject the pod.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := of(state)
	if c == nil {
		return 0, nil
	}
	if at, q := p.recent(c, info); at != nil {
		if known := at.Price(q); known != nil {
			return c.levels.score(known.Cost), nil
		}
	}
	t := p.taking(c, c.gangIn(state), info)
	if t.question == nil {
		return 0, nil
	}
	t.price()
	return c.levels.score(t.cost), nil
}

// ScoreExtensions returns nil: scores need no normalization.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// taking is a node that takes a pod, or a node without a question, which may not.
type taking struct {
	at       *cluster.At
	view     *memo.Node
	question *memo.Question
	// with is the pod with the devices that its claims get on the node, or nil.
	with *fleet.Pod
	cost fleet.Cost
}

// price sets the cost, and reports whether the node knew it.
func (t *taking) price() (hit bool) {
	if t.with == nil {
		t.cost, hit = t.view.Cost(t.question)
		return hit
	}
	a := t.view.Ask(t.with)
	if t.cost = a.Cost; !a.Fits { // It fits after moves.
		t.cost = fleet.Cost{Stranded: math.MaxInt64}
	}
	return false
}

func (p *Plugin) taking(c *cycle, g *gang, info fwk.NodeInfo) taking {
	at, view := p.view(c, g, info)
	if at == nil || at.Problem != "" || at.Unsure != "" {
		return taking{}
	}
	i := c.asked.reading(at.Gates)
	if i < 0 {
		return taking{}
	}
	q := c.asked.questions[i]
	if with, _ := c.chosen.find(info.Node().Name); with != nil { // Filter has taken the node.
		return taking{at: at, view: view, question: q, with: with}
	}
	if answer, _ := view.Answer(q); !answer.Fits {
		return taking{}
	}
	return taking{at: at, view: view, question: q}
}

// fewPlans is the number of costs that are computed one after the other. At about 6 µs each, more
// of them take longer than other goroutines take to start.
const fewPlans = 16

// price sets the costs. The nodes know most of them.
func (p *Plugin) price(ctx context.Context, list []taking) {
	of := func(i int) (hit bool) { return list[i].price() }
	plans := 0
	for i := range list {
		if !of(i) {
			plans++
		}
		if plans == fewPlans {
			p.handle.Parallelizer().Until(ctx, len(list)-i-1, func(k int) { of(i + 1 + k) }, Name)
			return
		}
	}
}

// level is a cost, with the number of nodes that have it. ahead is the number of nodes with a lower
// cost.
type level struct {
	priced       *cluster.Priced
	nodes, ahead int
}

// levels has the costs of the nodes of a cycle. rank sorts them by cost.
type levels []level

// fewLevels is the number of costs among which add looks for an equal one. Most nodes are like many
// others, and those that are not do not make the search longer.
const fewLevels = 16

// add counts a node. It returns the cost as the first node with it had it, so that the nodes can
// share it.
func (l *levels) add(p *cluster.Priced) *cluster.Priced {
	for i := range (*l)[:min(len(*l), fewLevels)] {
		if known := &(*l)[i]; known.priced == p || known.priced.Cost == p.Cost {
			known.nodes++
			return known.priced
		}
	}
	*l = append(*l, level{priced: p, nodes: 1})
	return p
}

// rank sorts the levels, merges those with equal costs, and counts the nodes ahead of each.
func (l *levels) rank() {
	slices.SortFunc(*l, func(a, b level) int { return a.priced.Cost.Compare(b.priced.Cost) })
	merged := (*l)[:0]
	ahead := 0
	for _, next := range *l {
		if last := len(merged) - 1; last >= 0 && merged[last].priced.Cost == next.priced.Cost {
			merged[last].nodes += next.nodes
		} else {
			next.ahead = ahead
			merged = append(merged, next)
		}
		ahead += next.nodes
	}
	*l = merged
}

// score returns the score of a cost. Only the lowest cost has the highest score. The others share
// the rest, by the number of nodes that are ahead of them.
func (l levels) score(cost fleet.Cost) int64 {
	i, _ := slices.BinarySearchFunc(l, cost, func(a level, cost fleet.Cost) int { return a.priced.Cost.Compare(cost) })
	if i == 0 {
		return fwk.MaxScore
	}
	last := l[len(l)-1]
	all := last.ahead + last.nodes
	ahead := all
	if i < len(l) {
		ahead = l[i].ahead
	}
	return 1 + (fwk.MaxScore-2)*int64(all-ahead)/int64(all)
}
