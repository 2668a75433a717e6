package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/node/observe"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// allocatable returns what the node has for the requests of all pods. It prefers the values in the
// Node, with which the kubelet compares, and otherwise computes them from the kubelet's
// configuration. It returns nil if neither is known.
func (s *session) allocatable() *request.Totals {
	if s.object == nil {
		return s.configured
	}
	list := s.object.Status.Allocatable
	total := clusterstate.Amounts(list)
	if storage, has := list[v1.ResourceEphemeralStorage]; has {
		total.Others = total.Others.With(string(v1.ResourceEphemeralStorage), storage.Value())
	}
	return &total
}

// forPods returns a Node that has what allocatable returns, or nil.
func (s *session) forPods() *v1.Node {
	if s.object == nil && s.configured != nil {
		return treatment.AssumedNode(s.node)
	}
	return s.object
}

// otherNode returns a doubt if the Node belongs to another kubelet.
func (s *session) otherNode() []view.Doubt {
	if s.object == nil || s.object.Status.NodeInfo.KubeletVersion == "" || s.object.Status.NodeInfo.KubeletVersion == s.release {
		return nil
	}
	return []view.Doubt{{
		Reason: fmt.Sprintf("the observed kubelet is %s, and that of Node %s is %s", s.release, s.object.Name, s.object.Status.NodeInfo.KubeletVersion),
		Give:   "wait until the kubelet has updated its Node, or set nodeName to the name of the node that is observed",
	}}
}

// advise returns which pods to delete so that a larger pod fits on the node.
func (s *session) advise(ctx context.Context, state *node.State, wish explain.Wish) (view.Defragmentation, error) {
	last := s.shown.Load()
	d, err := treatment.Advise(ctx, state, last.roster, last.node, wish)
	d.Certainty = last.certainty
	return d, err
}

// requestsOf returns the requests of a pod with defaults, for all resources.
func requestsOf(pod *v1.Pod, gates podspec.Gates) request.Totals {
	asks := clusterstate.Asks(pod, gates)
	all := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !gates.PodLevelResources})
	if storage := all[v1.ResourceEphemeralStorage]; storage.Sign() > 0 {
		asks.Others = asks.Others.With(string(v1.ResourceEphemeralStorage), storage.Value())
	}
	return asks
}

// compared returns the part of the requests that a kubelet compares with the total of the Node. It
// omits extended resources that the Node does not have. It also omits the devices of plugins if the
// state has an inventory of them: the Device Manager assigned these earlier, and rejects a pod for
// which there are too few.
func compared(asks request.Totals, total *request.Totals, state *node.State) request.Totals {
	if total == nil {
		return asks
	}
	plugins := state.Devices().Inventory().Resources()
	asks.Others = slices.DeleteFunc(slices.Clone(asks.Others), func(a request.Amount) bool {
		_, has := total.Others.Get(a.Resource)
		return !request.IsMemory(a.Resource) && (!has || slices.Contains(plugins, a.Resource))
	})
	return asks
}

// decisions returns the kubelet's decisions by the UID of the pod, and the pods that still wait for
// a decision.
func (s *session) decisions(l *reading) (all map[string]observe.Decision, waiting []string) {
	all = map[string]observe.Decision{}
	l.sight = observe.Sight{State: l.shown.State, Requests: map[string]request.Totals{}, Allocatable: s.allocatable()}
	for uid, pod := range l.pods {
		d := observe.Decision{Pod: l.asked[uid], Critical: podspec.IsCritical(pod), Requests: compared(l.requests[uid], l.sight.Allocatable, l.shown.State)}
		if !decide(&d, pod, l.shown) {
			if !podspec.Ended(pod) && treatment.Owns(l.shown.State, &d.Pod) {
				waiting = append(waiting, d.Pod.ID())
			}
			continue
		}
		if d.Pod.Kind == request.Unmanaged && s.version.Minor < featuresChecked {
			d.Doubts = append(d.Doubts, "this kubelet ignores pod-level resources while feature gate PodLevelResources is off")
		}
		if l.pods.Alive(uid) {
			l.sight.Requests[uid] = d.Requests
		}
		all[uid] = d
	}
	return all, waiting
}

// featuresChecked is the first minor that rejects pods for features that are off.
const featuresChecked = 34

// predictable reports whether rejections with this reason are predicted. These are the rejections
// by the Topology, CPU, Memory and Device Managers, the rejections of pods that request more than
// the Node has left, and those for pod-level resources.
func predictable(reason string) bool {
	return strings.HasPrefix(reason, "OutOf") || slices.Contains([]rejection.Reason{
		rejection.TopologyAffinityError, rejection.SMTAlignmentError, rejection.EmptyPodSharedPoolError, unexpected, rejection.PodLevelResourcesNotSupported,
	}, rejection.Reason(reason))
}
