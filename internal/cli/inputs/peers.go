package inputs

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Place is a node of a fleet as the objects of a cluster would show it.
type Place struct {
	Object *v1.Node
	// Pods are those that it has at the beginning.
	Pods []Peer
}

// Peer is a pod as other pods see it.
type Peer struct {
	Name string // namespace/name
	// Object has the namespace, the labels and the constraints. Pods that have the same share it.
	Object *v1.Pod
}

// Places are nodes as objects, in the same order. They are those of f.Kinds, kind by kind. Of a
// group of running nodes the first node is as the first of the group, and so on, in turn. All have
// a host name of their own, unless the file gives them another.
func (f *FleetNodes) Places(nodes []fleet.Node) []Place {
	running := f.Running && !f.emptied // Each is a kind, and kinds are groups for reports.
	shown := map[string][]*clusterstate.Node{}
	if f.cluster != nil {
		for _, n := range f.cluster.Nodes {
			key := n.Group
			if running {
				key = n.Name
			}
			shown[key] = append(shown[key], n)
		}
	}
	out, seen := make([]Place, 0, len(nodes)), map[string]int{}
	for _, n := range nodes {
		key := n.Kind
		if running {
			key = n.Name
		}
		p := Place{Object: f.objects[key]}
		if group := shown[key]; len(group) > 0 {
			of := group[seen[key]%len(group)]
			p.Object = of.Object
			for _, pod := range of.Pods(running) {
				p.Pods = append(p.Pods, Peer{pod.Namespace + "/" + pod.Name, f.peer(pod)})
			}
		}
		seen[key]++
		if p.Object.Name != n.Name {
			p.Object = renamed(p.Object, n.Name)
		}
		out = append(out, p)
	}
	return out
}

// peer is the pod as other pods see it.
func (f *FleetNodes) peer(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp},
		Spec: v1.PodSpec{
			Affinity: pod.Spec.Affinity, TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints,
			NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations,
		},
	}
	data, err := out.Marshal()
	if err != nil { // It was decoded, so it can be encoded; otherwise it shares with no other pod.
		return out
	}
	if f.peers[string(data)] == nil {
		if f.peers == nil {
			f.peers = map[string]*v1.Pod{}
		}
		f.peers[string(data)] = out
	}
	return f.peers[string(data)]
}

// renamed is the node under another name. A host name that is its name changes, too.
func renamed(o *v1.Node, name string) *v1.Node {
	out := *o
	out.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: o.Labels}
	if o.Labels[v1.LabelHostname] == o.Name {
		out.Labels = maps.Clone(o.Labels)
		out.Labels[v1.LabelHostname] = name
	}
	return &out
}

// Dependence is how pods depend on where others are.
type Dependence struct {
	// Required: topology spread or pod affinity keeps the pod from nodes. Preferred: it prefers
	// nodes.
	Required, Preferred bool
}

// DependenceOf is that of a pod.
func DependenceOf(pod *v1.Pod) Dependence {
	d := Dependence{}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.ScheduleAnyway {
			d.Preferred = true
		} else {
			d.Required = true
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		near, far := a.PodAffinity, a.PodAntiAffinity
		d.Required = d.Required || near != nil && len(near.RequiredDuringSchedulingIgnoredDuringExecution) > 0 || far != nil && len(far.RequiredDuringSchedulingIgnoredDuringExecution) > 0
		d.Preferred = d.Preferred || near != nil && len(near.PreferredDuringSchedulingIgnoredDuringExecution) > 0 || far != nil && len(far.PreferredDuringSchedulingIgnoredDuringExecution) > 0
	}
	return d
}

// Depending counts pods that depend on where others are: in any way, and those that only prefer
// nodes or also do.
type Depending struct{ Any, Preferred int }

// Add counts a pod.
func (d *Depending) Add(pod *v1.Pod) {
	of := DependenceOf(pod)
	if of.Required || of.Preferred {
		d.Any++
	}
	if of.Preferred {
		d.Preferred++
	}
}

// Depending counts the pods of a cluster that are to be placed: those without a node, and after
// Empty also those that have one.
func (f *FleetNodes) Depending() (d Depending) {
	for _, pod := range f.Pending {
		d.Add(pod)
	}
	if f.emptied {
		for _, n := range f.cluster.Nodes {
			for _, pod := range n.Bound() {
				d.Add(pod)
			}
		}
	}
	return d
}

// KeepsAway reports whether a pod there keeps others from nodes.
func (p Place) KeepsAway() bool {
	return slices.ContainsFunc(p.Pods, func(peer Peer) bool {
		a := peer.Object.Spec.Affinity
		return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	})
}
