package plugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
)

// PreScore ranks the nodes that take the pod by the cost of its plan there.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c := of(state)
	if c == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	list := make([]ranked, 0, len(nodes))
	for _, info := range nodes {
		at, view := p.view(c, info)
		if at == nil || at.Problem != "" || at.Unsure != "" {
			continue
		}
		if i := c.asked.reading(at.Gates); i >= 0 {
			if answer, _ := view.Answer(c.asked.questions[i]); answer.Fits {
				list = append(list, ranked{name: info.Node().Name, view: view, question: c.asked.questions[i]})
			}
		}
	}
	p.price(ctx, list)
	slices.SortFunc(list, func(a, b ranked) int { return a.cost.Compare(b.cost) })
	c.ranks = make(map[string]int64, len(list))
	score := fwk.MaxScore
	for i := range list {
		if i > 0 && list[i].cost != list[i-1].cost { // Only the best has the highest score. The others share the rest.
			score = 1 + (fwk.MaxScore-2)*int64(len(list)-i)/int64(len(list))
		}
		c.ranks[list[i].name] = score
	}
	return nil
}

// ranked is a node that takes a pod.
type ranked struct {
	name     string
	view     *memo.Node
	question *memo.Question
	cost     fleet.Cost
}

// fewPlans is the number of costs that are computed one after the other. At about 6 µs each, more
// of them take longer than other goroutines take to start.
const fewPlans = 16

// price sets the costs. The nodes know most of them.
func (p *Plugin) price(ctx context.Context, list []ranked) {
	of := func(i int) (hit bool) {
		list[i].cost, hit = list[i].view.Cost(list[i].question)
		return hit
	}
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

// Score returns the rank of the node. A node that is not managed has the lowest score, because it
// assigns no exclusive resources to the pod, and so has one that is unsure, because it can reject
// the pod.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	if c := of(state); c != nil {
		return c.ranks[info.Node().Name], nil
	}
	return 0, nil
}

// ScoreExtensions returns nil: scores need no normalization.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
