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

// stateKey is the plugin's entry in the CycleState.
const stateKey fwk.StateKey = Name

// cycle is what the plugin knows of one scheduling cycle.
type cycle struct {
	pod   *v1.Pod
	asked *asked
	begun time.Time
	// reasons are why nodes do not take the pod.
	reasons *reasons
	// changed are nodes with other pods than they have, by name. Clones have maps of their own.
	changed map[string]changedNode
	// ranks are the scores of nodes, after PreScore.
	ranks map[string]int64
	// rejected reports that a node did not take the pod.
	rejected *atomic.Bool
}

// Clone returns a copy that AddPod and RemovePod may change.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.changed = maps.Clone(c.changed)
	return &clone
}

// asked is what a pod asks for. Nodes with other feature gates read it in another way.
type asked struct {
	gates     []podspec.Gates
	pods      []fleet.Pod      // parallel to gates
	questions []*memo.Question // parallel to gates
	// unknown reports that others choose devices for the pod later.
	unknown bool
}

// ask reads a pod for all nodes, and reports whether it asks for anything of its own. The error is
// about the pod.
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
		a.unknown = a.unknown || slices.ContainsFunc(read.Containers, func(c request.Container) bool { return len(c.Devices) > 0 })
		a.pods = append(a.pods, read)
	}
	if len(a.gates) == 0 && !labels.MatchesNothing(s.settings.managedNodes) {
		return a, anyGates(pod), nil
	}
	for i := 0; concerns && i < len(a.pods); i++ {
		a.questions = append(a.questions, s.cluster.Questions.Of(a.pods[i]))
	}
	return a, concerns, nil
}

// anyGates reports whether a pod asks for something of its own on some node, whose gates are not
// known yet.
func anyGates(pod *v1.Pod) bool {
	read, err := cluster.Read(pod, podspec.Gates{PodLevelResources: true, PodLevelManagers: true})
	return err == nil && cluster.Concerns(&read.Pod)
}

// reading is the position of the reading with these gates, -1 if no node had them when the cycle
// began.
func (a *asked) reading(gates podspec.Gates) int { return slices.Index(a.gates, gates) }

// PreFilter reads the pod.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	// Without the objects every node seems to be one that is not managed.
	synced, begun := p.synced.Load(), time.Now()
	p.waiting.begin(pod.UID, begun)
	a, concerns, err := p.ask(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if !synced && anyGates(pod) {
		p.waiting.add(pod, a, begun)
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
	state.Write(stateKey, &cycle{pod: pod, asked: a, begun: begun, reasons: &reasons{}, rejected: &atomic.Bool{}})
	return nil, nil
}

// of is the cycle of a state; nil if the pod asks for nothing of its own.
func of(state fwk.CycleState) *cycle {
	data, err := state.Read(stateKey)
	if err != nil { // It is not there: PreFilter skipped the pod.
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// SignPod signs what nodes are asked. A pod with devices that others choose has no signature,
// because what is reserved for it depends on them.
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
