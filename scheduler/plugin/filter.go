package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// Filter reports whether the node has the resources that the pod requests. Nodes that are not
// managed are left to the other plugins.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	status, _ := p.Ask(ctx, state, info)
	return status
}

// Ask does the work of Filter. It also reports whether the answer needed no plan.
func (p *Plugin) Ask(ctx context.Context, state fwk.CycleState, info fwk.NodeInfo) (status *fwk.Status, hit bool) {
	c := of(state)
	if c == nil {
		return nil, true
	}
	status, hit = p.answer(ctx, c, c.gangIn(state), info)
	if hit {
		hits.Inc()
	} else {
		misses.Inc()
	}
	if status != nil && c.rejected.CompareAndSwap(false, true) {
		p.wait(c, c.gangIn(state))
	}
	return status, hit
}

func (p *Plugin) answer(ctx context.Context, c *cycle, g *gang, info fwk.NodeInfo) (status *fwk.Status, hit bool) {
	if at, q := p.recent(c, info); at != nil && at.Takes(q) {
		return nil, true
	}
	at, view := p.view(c, g, info)
	switch {
	case at == nil && p.awaited(info.Node()):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, notPublished), true
	case at == nil:
		return nil, true
	case at.Problem != "":
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s): "+at.Problem), true
	case at.Unsure != "":
		unsureNodes.Inc()
		return nil, true
	}
	i := c.asked.reading(at.Gates)
	if i < 0 {
		return fwk.NewStatus(fwk.Unschedulable, "node(s): the policy has just changed"), true
	}
	if short := short(at.Hidden, info, c.asked.pods[i].Asks); short != "" {
		if p.fitsSoon(c, g, at, i, info) {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, publishedSoon), true
		}
		return fwk.NewStatus(fwk.Unschedulable, "node(s): Insufficient "+short+", because of pods that the API server does not show"), true
	}
	if failed, is := c.failed[info.Node().Name]; is && failed.at.Current() {
		return fwk.NewStatus(fwk.Unschedulable, failed.why), true
	}
	answer, hit := p.plan(ctx, c, i, at, view, info.Node())
	if answer.AfterMoves && p.busy(c, g, info.Node().Name) {
		return fwk.NewStatus(fwk.Unschedulable, movesForAnother), hit
	}
	if answer.Fits {
		if q := c.only(); q != nil && !answer.AfterMoves { // An At has the amounts of one generation.
			at.SetTakes(q)
		}
		return nil, hit
	}
	if p.fitsSoon(c, g, at, i, info) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, publishedSoon), hit
	}
	code := fwk.Unschedulable
	if hopeless(answer.Why.Cause) {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, c.reasons.of(answer, &c.asked.pods[i].Pod, view.State.Policy())), hit
}

// plan returns the answer of a node to the reading i of the pod.
func (p *Plugin) plan(ctx context.Context, c *cycle, i int, at *cluster.At, view *memo.Node, on *v1.Node) (answer *fleet.Answer, hit bool) {
	ask := func(n *memo.Node) (*fleet.Answer, bool) { return n.Answer(c.asked.questions[i]) }
	pod, every := c.asked.pods[i], c.asked.unknown && p.settings.everySet
	with := c.chosen.on(ctx, on, pod)
	if with != nil { // The devices have names of their own on each node, so nothing is cached.
		pod, every = *with, every && c.asked.plugins
		ask = func(n *memo.Node) (*fleet.Answer, bool) {
			a := n.AskAfterMoves(with)
			return &a, false
		}
	}
	answer, hit = ask(view)
	for _, other := range at.Others {
		if !answer.Fits {
			break
		}
		answer, _ = ask(other)
	}
	if answer.Fits && every {
		answer = p.everySet(view, pod, with == nil && len(c.pod.Spec.ResourceClaims) > 0, answer)
	}
	return answer, hit
}

// short returns a resource of which the kubelet of the node has too little for a pod beside pods
// that the scheduler does not count, or "".
func short(hidden fleet.Amounts, info fwk.NodeInfo, asks fleet.Amounts) request.Resource {
	if hidden.Pods == 0 { // On nearly every node.
		return ""
	}
	return allocatable(info).Short(amounts(info.GetRequested(), len(info.GetPods())).Plus(hidden), asks)
}

// movesForAnother is the reason for nodes that are moving pods to make room for another pod.
const movesForAnother = "node(s): running pods are being moved for another pod"

// notPublished is the reason for nodes that do not have a PaddockNode yet: see awaited.
const notPublished = "node(s): the Paddock agent has not published a PaddockNode yet"

// recent returns a node that the cycle sees as it is, if it was asked before and all nodes are asked
// the same question, and that question. The node is nil if view has to be called.
func (p *Plugin) recent(c *cycle, info fwk.NodeInfo) (*cluster.At, *memo.Question) {
	q := c.only()
	if q == nil {
		return nil, nil
	}
	return p.cluster.Recent(info.GetGeneration()), q
}

// view returns the node as the cycle sees it, or nil if the node is not managed.
func (p *Plugin) view(c *cycle, g *gang, info fwk.NodeInfo) (*cluster.At, *memo.Node) {
	name := info.Node().Name
	if changed, ok := c.changed[name]; ok {
		return changed.after, changed.after.View
	}
	if g != nil {
		at := g.trial.At(g.sight(info))
		if at == nil {
			return nil, nil
		}
		return at, at.View
	}
	at := p.cluster.At(name, info.GetGeneration(), func() (has, used fleet.Amounts) {
		return allocatable(info), amounts(info.GetRequested(), len(info.GetPods()))
	})
	if at == nil {
		return nil, nil
	}
	return at, at.View
}

// allocatable returns what the Node has for all pods.
func allocatable(info fwk.NodeInfo) fleet.Amounts {
	return amounts(info.GetAllocatable(), info.GetAllocatable().GetAllowedPodNumber())
}

// amounts returns the resources that the scheduler itself counts.
func amounts(r fwk.Resource, pods int) fleet.Amounts {
	a := fleet.Amounts{Milli: r.GetMilliCPU(), Memory: r.GetMemory(), Pods: int64(pods)}
	for name, value := range r.GetScalarResources() {
		a.Others = a.Others.With(string(name), value)
	}
	return a
}

// everySet asks the node once for each of its NUMA nodes, as if all devices that are chosen later
// were near that NUMA node. It does not ask for sets of devices near several NUMA nodes: a policy
// that rejects these sets rejects them for every pod.
func (p *Plugin) everySet(view *memo.Node, pod fleet.Pod, claims bool, answer *fleet.Answer) *fleet.Answer {
	for id := range view.State.Machine().NodeMask().All() {
		answer, _ = view.Answer(p.cluster.Questions.Of(near(pod, claims, mask.Of(id))))
		if !answer.Fits {
			return answer
		}
	}
	return answer
}

// near returns the pod with its devices near these NUMA nodes. The answer does not depend on which
// claims a container has, so one device represents them.
func near(pod fleet.Pod, claims bool, nodes mask.Mask) fleet.Pod {
	containers := make([]request.Container, len(pod.Containers))
	for i, c := range pod.Containers {
		for _, d := range c.Devices {
			for k := range d.Value {
				c.Given = append(c.Given, request.Given{Resource: d.Resource, Name: fmt.Sprint("any-", k), Nodes: nodes})
			}
		}
		if claims {
			c.Given = append(c.Given, request.Given{Claim: "any", Driver: "any", Pool: "any", Name: fmt.Sprint(i), Nodes: nodes})
		}
		containers[i] = c
	}
	pod.Containers = containers
	return pod
}
