package plugin

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// stateKey is the key of the plugin's entry in the CycleState.
const stateKey fwk.StateKey = Name

// cycle represents what the plugin knows of one scheduling cycle.
type cycle struct {
	pod   *v1.Pod
	asked *asked
	begun time.Time
	// reasons collects the reasons why nodes do not take the pod.
	reasons *reasons
	// changed has, by name, the nodes whose pods differ from those they have. Each clone has its
	// own map.
	changed map[string]changedNode
	// levels has the costs of the nodes that take the pod. PreScore sets it.
	levels levels
	// rejected is true if a node did not take the pod.
	rejected *atomic.Bool
	// soonest is set if a node takes the pod soon: see fitsSoon.
	soonest *soonest
	// gang is the attempt to schedule the pod group of the pod. It is nil if the pod is scheduled on
	// its own. See gangIn.
	gang *gang
	// chosen finds the devices of the pod's claims. It is nil if the pod has none.
	chosen *chosen
	// failed has the nodes on which the pod cannot be reserved now.
	failed map[string]failure
}

// Clone returns a copy that AddPod and RemovePod may change.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.changed = maps.Clone(c.changed)
	return &clone
}

// only returns the question that all nodes are asked, if the cycle sees them with the pods that they
// have. Then a node can remember its answer. It returns nil otherwise: the devices of claims, for
// example, differ from node to node.
func (c *cycle) only() *memo.Question {
	if c.changed != nil || c.gang != nil || c.chosen != nil || c.failed != nil {
		return nil
	}
	return c.asked.only
}

// asked represents what a pod requests. Nodes read a pod according to their feature gates, so there
// is one reading for each combination of gates.
type asked struct {
	gates     []podspec.Gates
	pods      []fleet.Pod      // parallel to gates
	questions []*memo.Question // parallel to gates
	// only is the question if there is one for all nodes, and nil otherwise. See cycle.only.
	only *memo.Question
	// unknown is set if other components choose devices for the pod later. plugins is set if device
	// plugins do, whose choice the kubelet makes.
	unknown, plugins bool
}

// ask reads a pod for all nodes, and reports whether it requests exclusive resources. An error
// concerns the pod.
func (s *shared) ask(pod *v1.Pod) (*asked, bool, error) {
	a := &asked{gates: s.cluster.Gates()}
	concerns := false
	for _, gates := range a.gates {
		read, err := cluster.Read(pod, gates)
		if err != nil {
			return nil, false, err
		}
		if len(pod.Spec.ResourceClaims) > 0 {
			concerns, a.unknown = true, true
		}
		concerns = concerns || cluster.Concerns(&read.Pod)
		a.plugins = a.plugins || slices.ContainsFunc(read.Containers, func(c request.Container) bool { return len(c.Devices) > 0 })
		a.unknown = a.unknown || a.plugins
		a.pods = append(a.pods, read)
	}
	if len(a.gates) == 0 && !labels.MatchesNothing(s.settings.managedNodes) {
		return a, anyGates(pod), nil
	}
	for i := 0; concerns && i < len(a.pods); i++ {
		a.questions = append(a.questions, s.cluster.Questions.Of(a.pods[i]))
	}
	if len(a.questions) == 1 && (!a.unknown || !s.settings.everySet) {
		a.only = a.questions[0]
	}
	return a, concerns, nil
}

// anyGates reports whether a pod requests exclusive resources under some combination of feature
// gates. It is used while the gates of the nodes are not known.
func anyGates(pod *v1.Pod) bool {
	read, err := cluster.Read(pod, podspec.Gates{PodLevelResources: true, PodLevelManagers: true})
	return err == nil && cluster.Concerns(&read.Pod)
}

// reading returns the index of the reading with these gates. It returns -1 if no node had them when
// the cycle began.
func (a *asked) reading(gates podspec.Gates) int { return slices.Index(a.gates, gates) }

// PreFilter reads the pod. It skips pods that request no exclusive resources.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	// Before the objects are read, every node seems to be unmanaged.
	synced, begun := p.synced.Load(), time.Now()
	g := p.gangOf(state)
	if g != nil {
		begun = g.begun
	}
	if g == nil || !g.preempting {
		p.waiting.begin(pod.UID, begun)
	}
	a, concerns, err := p.ask(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if !synced && anyGates(pod) {
		p.waiting.add(waitingPod{pod: pod, asked: a, begun: begun})
		if p.synced.Load() { // Synced may not have seen the pod.
			p.promises.activated(p, pod)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable, "the PaddockNodes are not read yet: if that lasts, see the log of the scheduler for what the API server answers")
	}
	if !concerns {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if a.unknown {
		unknownDevices.Inc()
	}
	c := &cycle{pod: pod, asked: a, begun: begun, reasons: &reasons{}, rejected: &atomic.Bool{}, soonest: &soonest{}, gang: g}
	if len(pod.Spec.ResourceClaims) > 0 {
		c.failed = p.failures.of(pod.UID)
		if p.allocator != nil {
			c.chosen = &chosen{plugin: p, pod: pod}
		}
	}
	state.Write(stateKey, c)
	return nil, nil
}

// of returns the plugin's entry of a CycleState. It returns nil if the pod requests no exclusive
// resources.
func of(state fwk.CycleState) *cycle {
	data, err := state.Read(stateKey)
	if err != nil { // There is no entry, because PreFilter skipped the pod.
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// gangIn returns the attempt to schedule the pod group of the pod, or nil if there is none, or if it
// is over: then the members are reserved for their bindings.
func (c *cycle) gangIn(state fwk.CycleState) *gang {
	if c.gang == nil || !state.IsPodGroupSchedulingCycle() {
		return nil
	}
	return c.gang
}

// wait records that the pod waits for room. An attempt that finds out which pods to preempt records
// nothing: the attempt before has recorded the pod.
func (p *Plugin) wait(c *cycle, g *gang) {
	if g == nil || !g.preempting {
		p.waiting.add(waitingPod{pod: c.pod, asked: c.asked, begun: c.begun, beside: g.placed()})
	}
}

// stopWaiting is called when the pod has a place.
func (p *Plugin) stopWaiting(c *cycle, g *gang) {
	if g == nil || !g.preempting {
		p.waiting.remove(c.pod.UID)
	}
}

// busy reports whether a node is moving running pods for another pod, or would have to.
func (p *Plugin) busy(c *cycle, g *gang, node string) bool {
	if g != nil {
		if uid, would := g.movers[node]; would && uid != c.pod.UID {
			return true
		}
	}
	return p.movers.busy(node, c.pod.UID)
}

// SignPod signs what the plugin asks nodes. A pod whose devices are chosen by other components has
// no signature, because what is reserved for it depends on these devices.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	a, concerns, err := p.ask(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	case !concerns:
		return nil, nil
	case a.unknown:
		return nil, fwk.NewStatus(fwk.Unschedulable, "devices of the pod are chosen later")
	}
	keys := make([]string, len(a.questions))
	for i, q := range a.questions {
		keys[i] = q.Key()
	}
	return []fwk.SignFragment{{Key: "paddock-project.github.io/request", Value: keys}}, nil
}
