package program

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// beside is what a kubelet compares after its managers have admitted a pod: the requests of all
// pods of the node, and what the Node has for pods. If the Node is unknown, the configuration
// determines what it has.
type beside struct {
	node     *v1.Node
	requests *treatment.Requests
}

// of makes the decider decide on a node with a kubelet's state, which may be nil. Pods about which
// the kubelet has not decided are compared when they are decided; see pending. of returns notes.
func (d *decider) of(k *stock, n *inputs.Node) []string {
	d.stock = k
	gates := podspec.GatesOf(n.Policy.Policy)
	d.beside = beside{treatment.AssumedNode(n), treatment.RequestsOf(nil, gates)}
	if !d.as.kubelet() {
		return nil
	}
	if k == nil || k.node == nil {
		return []string{"the Node object is not given" + d.beside.assumed()}
	}
	pods := k.node.Objects.On(k.node.Name)
	for _, p := range k.waiting {
		delete(pods, podspec.UID(p))
	}
	d.beside.requests = treatment.RequestsOf(pods, gates)
	switch o := k.node.Objects.Nodes[k.node.Name]; {
	case o == nil:
		return []string{"the Node object is not given" + d.beside.assumed() + "; add the Node to --pods"}
	case len(o.Status.Allocatable) == 0:
		return []string{"node " + o.Name + " has no status.allocatable" + d.beside.assumed() + "; collect the Node again"}
	default:
		d.beside.node = o
		return nil
	}
}

// assumed describes what the Node is assumed to have, for a note.
func (b *beside) assumed() string {
	has := b.node.Status.Allocatable
	return fmt.Sprintf(": the requests of all pods are compared (OutOfcpu, OutOfmemory) with the machine without what the configuration reserves: %s CPUs and %s of memory for %s pods",
		has.Cpu(), request.RoundedBytes(has.Memory().Value()), has.Pods())
}

// compare rejects a pod that the managers of a kubelet have admitted if the Node has too little for
// the requests of all pods. It reports whether it rejected the pod. Otherwise, the pod counts
// beside the next pods.
func (d *decider) compare(made *decision, pod *v1.Pod) bool {
	made.beside = d.beside
	if !d.as.kubelet() || d.beside.node == nil || made.plan.Grant == nil || made.plan.Known {
		return false
	}
	r, with := d.beside.requests.Admit(pod, d.beside.node)
	if d.beside.requests = with; r != nil {
		rejected := *made.plan
		rejected.Grant = nil
		rejected.Rejection = &rejection.Rejection{Reason: rejection.Reason(r.Reason), Resource: r.Resource, Detail: r.Message}
		made.plan, made.quirks, made.outOf = &rejected, nil, true
		return true
	}
	return false
}

// left returns how much more a pod can request; see explain.SearchOfKubelet.
func (b *beside) left(pod *v1.Pod) map[string]int64 {
	if b.node == nil {
		return nil
	}
	return b.requests.Left(pod, b.node)
}

// room explains the rejection of a pod that the managers of its kubelet admit but the kubelet
// itself rejects. It leaves out the decision of the managers, which is not the reason.
func (d *decider) room(ctx context.Context, made *decision, pod *v1.Pod, gates podspec.Gates) (view.Explanation, error) {
	answer := view.PodOf(made.plan, made.before)
	explained := view.Explanation{Answer: view.PlanPod{Pod: answer.Pod, UID: answer.UID, QoS: answer.QoS, Rejection: answer.Rejection}}
	room := treatment.Room{Pod: pod, Pods: made.beside.requests.Pods(), Node: made.beside.node, Gates: gates, State: made.before}
	room.Plan = func(s *node.State, pod *v1.Pod) (*node.Plan, error) {
		managers := decider{as: d.as, claims: d.claims, kubelet: quirk.New(d.as.version)}
		made, _, err := managers.admit(ctx, s, pod, gates)
		return made.plan, err
	}
	var err error
	explained.Remedies, err = room.Remedies()
	return explained, err
}
