package clusterstate

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// pod is a pod that has not ended.
type pod struct {
	namespace, name string
	uid             string // by which its node knows it
	node            string // empty: none yet
	created         metav1.Time
	sequence        int    // of the first object with that name
	grant           string // its annotation
	// own: the pod belongs to its node, as those of a DaemonSet and static pods do.
	own  bool
	spec *spec
	peer *metav1.ObjectMeta // its labels and when it ends; nil: they are not kept
}

// spec is what pods of one workload have in common.
type spec struct {
	key  string
	pods int // that have it
	// pod has no identity.
	pod *v1.Pod
	// asked are what it means, by the gates of nodes.
	asked map[podspec.Gates]asked
}

type asked struct {
	request request.Pod
	asks    fleet.Amounts
	err     error
}

// specs are the specifications by what they are.
type specs struct {
	known map[string]*spec
	// peers are what pods are to others, by what that is; nil: it is not kept.
	peers map[string]*metav1.ObjectMeta
}

func newSpecs() *specs { return &specs{known: map[string]*spec{}} }

// peer is what the pod is to others; most pods of a workload share it. The error is about what
// cannot be encoded.
func (s *specs) peer(p *v1.Pod) (*metav1.ObjectMeta, error) {
	if s.peers == nil {
		return nil, nil
	}
	meta := &metav1.ObjectMeta{Labels: p.Labels, DeletionTimestamp: p.DeletionTimestamp}
	data, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	if s.peers[string(data)] == nil {
		s.peers[string(data)] = meta
	}
	return s.peers[string(data)], nil
}

// take is a pod with a specification that other pods may have, too. The error is about what cannot
// be encoded.
func (s *specs) take(p *v1.Pod) (*pod, error) {
	out := &pod{
		namespace: p.Namespace, name: p.Name, uid: fleetsource.UID(p), node: p.Spec.NodeName, created: p.CreationTimestamp,
		own: fleetsource.IsMirror(p),
	}
	if c := metav1.GetControllerOfNoCopy(p); c != nil && c.Kind == "DaemonSet" {
		out.own = true
	}
	if !fleetsource.IsMirror(p) { // The annotation of a mirror pod does not count.
		out.grant = handover.TextOf(p.Annotations)
	}
	slim := podspec.Slim(p)
	moves, consents := p.Annotations[podspec.MovesAnnotation]
	slim.ObjectMeta = metav1.ObjectMeta{}
	if consents {
		slim.Annotations = map[string]string{podspec.MovesAnnotation: moves}
	}
	slim.Spec.NodeName, slim.Status.Phase = "", ""
	if out.own { // It is never placed again, and a DaemonSet's affinity names the node.
		slim.Spec.Affinity, slim.Spec.Tolerations, slim.Spec.NodeSelector = s.antiAffinity(slim.Spec.Affinity), nil, nil
	}
	data, err := slim.Marshal()
	if err != nil {
		return nil, err
	}
	known := s.known[string(data)]
	if known == nil {
		known = &spec{key: string(data), pod: slim, asked: map[podspec.Gates]asked{}}
		s.known[known.key] = known
	}
	if out.peer, err = s.peer(p); err != nil {
		return nil, err
	}
	known.pods++
	out.spec = known
	return out, nil
}

// antiAffinity is what keeps other pods away.
func (s *specs) antiAffinity(a *v1.Affinity) *v1.Affinity {
	if s.peers == nil || a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	return &v1.Affinity{PodAntiAffinity: a.PodAntiAffinity}
}

func (s *specs) drop(p *pod) {
	if p.spec.pods--; p.spec.pods == 0 {
		delete(s.known, p.spec.key)
	}
}

// under is what the pods mean on nodes with these gates.
func (s *spec) under(g podspec.Gates) asked {
	if known, ok := s.asked[g]; ok {
		return known
	}
	full := podspec.Default(s.pod, g)
	out := asked{asks: fleet.Amounts{Pods: 1}}
	if out.request, out.err = podspec.Request(full, g); out.err == nil {
		out.asks = Asks(full, g)
	}
	s.asked[g] = out
	return out
}

// bound is the pod as its node reads it.
func (p *pod) bound(g podspec.Gates) (fleetsource.Bound, error) {
	out := p.spec.under(g)
	out.request.UID, out.request.Namespace, out.request.Name = p.uid, p.namespace, p.name
	out.request.Created = max(0, p.created.Unix())
	return fleetsource.Bound{Pod: out.request, Annotation: p.grant}, out.err
}

// object is the pod as an object again, with what decides.
func (p *pod) object() *v1.Pod {
	out := *p.spec.pod
	out.Namespace, out.Name, out.UID, out.CreationTimestamp = p.namespace, p.name, types.UID(p.uid), p.created
	out.Spec.NodeName = p.node
	if p.peer != nil {
		out.Labels, out.DeletionTimestamp = p.peer.Labels, p.peer.DeletionTimestamp
	}
	return &out
}

// older is the order of creation, as far as it is known.
func older(a, b *pod) int {
	return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.sequence, b.sequence))
}

// maxAmount bounds every amount: no node and no pod has so much, and sums of hundreds of it fit 63
// bits.
const maxAmount = 1 << 53

func bounded(n int64) int64 { return min(max(n, 0), maxAmount) }

// Asks is what the scheduler counts of a pod that podspec.Request can read.
func Asks(pod *v1.Pod, gates podspec.Gates) fleet.Amounts {
	if podspec.CheckAmounts(pod.Spec.Overhead) != nil {
		without := *pod
		without.Spec.Overhead = nil
		pod = &without
	}
	out := amountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !gates.PodLevelResources}))
	out.Pods = 1
	return out
}

// amountsOf is what a list has of what the scheduler counts. Amounts that cannot be calculated with
// are left out.
func amountsOf(list v1.ResourceList) fleet.Amounts {
	var a fleet.Amounts
	for name, q := range list {
		if podspec.CheckAmounts(v1.ResourceList{name: q}) != nil {
			continue
		}
		switch name {
		case v1.ResourceCPU:
			a.Milli = bounded(q.MilliValue())
		case v1.ResourceMemory:
			a.Memory = bounded(q.Value())
		case v1.ResourcePods:
			a.Pods = bounded(q.Value())
		case v1.ResourceEphemeralStorage:
		default:
			if n := bounded(q.Value()); n > 0 {
				a.Others = a.Others.With(string(name), n)
			}
		}
	}
	return a
}

// plus is the sum of what pods of a node request, bounded as each amount is.
func plus(a, b fleet.Amounts) fleet.Amounts {
	a = a.Plus(b)
	a.Milli, a.Memory = bounded(a.Milli), bounded(a.Memory)
	return a
}
