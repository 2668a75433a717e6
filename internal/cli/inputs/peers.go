package inputs

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Place is a node of a fleet in the form of the objects of a cluster.
type Place struct {
	Object *v1.Node
	// Pods are the pods that the node has at the beginning.
	Pods []Peer
}

// Peer is a pod in the form in which other pods depend on it.
type Peer struct {
	Name string // namespace/name
	// Object has the namespace, the labels and the constraints. Pods for which they are equal share
	// it.
	Object *v1.Pod
}

// Places returns nodes as objects, in the same order. The nodes are those of f.Kinds, kind by kind.
// The nodes of a group of running nodes get the objects of the group in turn. Every node has its
// own host name, unless the file sets another one.
func (f *FleetNodes) Places(nodes []fleet.Node) []Place {
	running := f.Running && !f.emptied // Each node is a kind, and kinds are groups for reports.
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

// peer returns the parts of the pod that other pods depend on. Equal ones are shared.
func (f *FleetNodes) peer(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp},
		Spec: v1.PodSpec{
			Affinity: pod.Spec.Affinity, TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints,
			NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations,
		},
	}
	data, err := out.Marshal()
	if err != nil { // It was decoded, so it can be encoded. Otherwise it is not shared.
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

// renamed returns the node with another name. A host name that equals the old name changes too.
func renamed(o *v1.Node, name string) *v1.Node {
	out := *o
	out.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: o.Labels}
	if o.Labels[v1.LabelHostname] == o.Name {
		out.Labels = maps.Clone(o.Labels)
		out.Labels[v1.LabelHostname] = name
	}
	return &out
}

// Dependence describes whether a pod depends on where other pods are.
type Dependence struct {
	// Required is set if topology spread or pod affinity keeps the pod from nodes. Preferred is set
	// if they make it prefer nodes.
	Required, Preferred bool
}

// DependenceOf returns the dependence of a pod.
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

// Depending counts pods that depend on where others are: Any counts all of them, and Preferred
// those with preferences, even if they also have requirements.
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

// Depending counts the pods of a cluster that are to be placed: those without a node and, after
// Empty, also those with one.
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

// KeepsAway reports whether a pod of the place keeps other pods from nodes.
func (p Place) KeepsAway() bool {
	return slices.ContainsFunc(p.Pods, func(peer Peer) bool {
		a := peer.Object.Spec.Affinity
		return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	})
}
