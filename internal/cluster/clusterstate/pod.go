package clusterstate

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	corenode "github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// pod is a pod that has not ended.
type pod struct {
	namespace, name string
	uid             string // the UID by which its node knows it
	node            string // empty if it has none yet
	created         metav1.Time
	sequence        int    // position in the order in which pods were first set
	grant           string // its annotation
	// own is true if the pod belongs to its node, as a static pod or a pod of a DaemonSet.
	own  bool
	spec *spec
	peer *metav1.ObjectMeta // its labels and deletion time; nil if they are not kept
}

// spec has what the pods of one workload have in common.
type spec struct {
	key  string
	pods int // number of pods with this spec
	// pod is the specification, without the identity of a pod.
	pod *v1.Pod
	// asked has the requests of the pod, by the feature gates of nodes.
	asked map[podspec.Gates]asked
}

type asked struct {
	request request.Pod
	asks    fleet.Amounts
	err     error
}

// specs has all specifications by their content.
type specs struct {
	known map[string]*spec
	// peers has what matters about pods for other pods, by content. If nil, this is not kept.
	peers map[string]*metav1.ObjectMeta
}

func newSpecs() *specs { return &specs{known: map[string]*spec{}} }

// peer returns what matters about the pod for other pods. Most pods of a workload share it. The
// error means that it cannot be encoded.
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

// take returns the pod with a specification that it may share with other pods. The error means that
// the specification cannot be encoded.
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
	slim.ObjectMeta = metav1.ObjectMeta{}
	for key, value := range p.Annotations {
		if key == podspec.MovesAnnotation || key == request.SharedPoolAnnotation || request.IsCacheAnnotation(key) { // what podspec reads
			metav1.SetMetaDataAnnotation(&slim.ObjectMeta, key, value)
		}
	}
	slim.Spec.NodeName, slim.Status.Phase = "", ""
	if out.own { // It is never placed again, and the affinity of a DaemonSet's pod names the node.
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

// antiAffinity returns the part of the affinity that keeps other pods away.
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

// under returns what the pods request on nodes with these feature gates.
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

// shape returns a pod with this specification as nodes with these feature gates read it, and
// reports whether it would have exclusive CPUs on one of them. A reading that is not valid does not
// count.
func (s *spec) shape(gates []podspec.Gates) (out fleet.Pod, exclusive bool) {
	first, differs := true, false
	for _, g := range gates {
		a := s.under(g)
		if a.err != nil {
			continue
		}
		exclusive = exclusive || slices.ContainsFunc(a.request.Containers, func(c request.Container) bool { return c.CPUs > 0 })
		if one := (fleet.Pod{Pod: a.request, Asks: a.asks}); first {
			out, first = one, false
		} else {
			reads := func(p corenode.Policy) bool { return podspec.GatesOf(p) == g }
			out.Readings = append(out.Readings, fleet.Reading{Reads: reads, Ask: one.Ask, Asks: one.Asks})
			differs = differs || one.Key() != (&fleet.Pod{Pod: out.Pod, Asks: out.Asks}).Key()
		}
	}
	if !differs {
		out.Readings = nil
	}
	return out, exclusive
}

// bound returns the pod as its node reads it.
func (p *pod) bound(g podspec.Gates) (shown.Bound, error) {
	out := p.spec.under(g)
	out.request.UID, out.request.Namespace, out.request.Name = p.uid, p.namespace, p.name
	out.request.Created = max(0, p.created.Unix())
	return shown.Bound{Pod: out.request, Annotation: p.grant}, out.err
}

// object returns the pod as an API object with the fields that matter.
func (p *pod) object() *v1.Pod {
	out := *p.spec.pod
	out.Namespace, out.Name, out.UID, out.CreationTimestamp = p.namespace, p.name, types.UID(p.uid), p.created
	out.Spec.NodeName = p.node
	if p.peer != nil {
		out.Labels, out.DeletionTimestamp = p.peer.Labels, p.peer.DeletionTimestamp
	}
	return &out
}

// older compares pods by creation time, and then by the order in which they were first set.
func older(a, b *pod) int {
	return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.sequence, b.sequence))
}

// maxAmount bounds every amount. No node and no pod has this much, and hundreds of such amounts can
// be added without overflow of 63 bits.
const maxAmount = 1 << 53

func bounded(n int64) int64 { return min(max(n, 0), maxAmount) }

// Asks returns what the scheduler counts for a pod that podspec.Request can read.
func Asks(pod *v1.Pod, gates podspec.Gates) fleet.Amounts {
	if podspec.CheckAmounts(pod.Spec.Overhead) != nil {
		without := *pod
		without.Spec.Overhead = nil
		pod = &without
	}
	out := Amounts(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: !gates.PodLevelResources}))
	out.Pods = 1
	return out
}

// Amounts returns the amounts of a list that the scheduler counts. It skips amounts that cannot be
// calculated with.
func Amounts(list v1.ResourceList) fleet.Amounts {
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

// plus returns the sum of two amounts, bounded like each amount.
func plus(a, b fleet.Amounts) fleet.Amounts {
	a = a.Plus(b)
	a.Milli, a.Memory = bounded(a.Milli), bounded(a.Memory)
	return a
}
