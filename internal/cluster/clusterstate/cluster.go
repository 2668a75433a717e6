package clusterstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Cluster has what the objects show so far. Only one goroutine may use it at a time.
type Cluster struct {
	machines func(digest string) (*machine.Machine, error)
	nodes    map[string]*node
	pods     map[string]*pod // by namespace/name
	specs    *specs
	groups   groupNames
	changed  map[string]bool // nodes
	sequence int
	last     *Moment
	// waits and counted report whether the waiting pods and the rejections of the last moment are
	// up to date.
	waits, counted bool
}

// New returns a cluster without objects. machines returns the machine of a digest. Nodes with the
// same digest share it.
func New(machines func(digest string) (*machine.Machine, error)) *Cluster {
	return &Cluster{
		machines: machines, nodes: map[string]*node{}, pods: map[string]*pod{}, specs: newSpecs(), groups: newGroupNames(machines),
		changed: map[string]bool{}, last: &Moment{},
	}
}

// KeepPeers also keeps what matters about pods for other pods: their labels and whether they are
// being deleted. Call it before the first pod is set. Use it only for a cluster that is read once,
// because entries that no pod uses any more are not released.
func (c *Cluster) KeepPeers() { c.specs.peers = map[string]*metav1.ObjectMeta{} }

// at returns the node with this name and marks it as changed.
func (c *Cluster) at(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{pods: map[string]*pod{}}
		c.nodes[name] = n
	}
	c.changed[name] = true
	return n
}

// SetNode sets the Node with this name. Nil means that it is gone. Only the fields that matter are
// kept.
func (c *Cluster) SetNode(name string, o *v1.Node) {
	n := c.at(name)
	n.object = nil
	if o != nil {
		n.object = &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, Labels: o.Labels},
			Spec:       v1.NodeSpec{Taints: o.Spec.Taints, Unschedulable: o.Spec.Unschedulable},
			Status:     v1.NodeStatus{Allocatable: o.Status.Allocatable},
		}
	}
	c.counted = false
}

// SetPaddock sets the PaddockNode with this name. Nil means that it is gone. The caller must not
// change the object afterwards, and must set it again when its machine arrives. SetPaddock returns
// what the node has rejected since it was last set.
func (c *Cluster) SetPaddock(name string, o *v1alpha1.PaddockNode) []v1alpha1.RejectionCount {
	n := c.at(name)
	before := n.paddock
	n.paddock, n.read = o, false
	if o == nil || before == nil {
		c.counted = false
		return nil
	}
	if r, s := &before.Status.Rejections, &o.Status.Rejections; r.Since.Equal(s.Since) && r.Decided == s.Decided && slices.Equal(r.Counts, s.Counts) && slices.EqualFunc(r.Last, s.Last, sameRejection) {
		return nil
	}
	c.counted = false
	if before.UID != o.UID {
		return nil
	}
	return grown(before.Status.Rejections, o.Status.Rejections).Counts
}

// SetPod sets the pod namespace/name. Nil means that it is gone. A pod that has ended counts as
// gone. The error is about an object that cannot be kept, which also counts as gone.
func (c *Cluster) SetPod(key string, o *v1.Pod) error {
	old := c.pods[key]
	if old != nil {
		delete(c.pods, key)
		c.specs.drop(old)
		if old.node == "" {
			c.waits = false
		} else {
			delete(c.at(old.node).pods, key)
		}
	}
	if o == nil || podspec.Ended(o) || o.Spec.NodeName == "" && o.DeletionTimestamp != nil {
		return nil
	}
	p, err := c.specs.take(o)
	if err != nil {
		return err
	}
	if c.sequence++; old != nil && old.uid == p.uid {
		p.sequence = old.sequence
	} else {
		p.sequence = c.sequence
	}
	c.pods[key] = p
	if p.node == "" {
		c.waits = false
	} else {
		c.at(p.node).pods[key] = p
	}
	return nil
}

// Keys returns the names of all objects of a kind: "Node", "PaddockNode" or "Pod".
func (c *Cluster) Keys(kind string) []string {
	if kind == "Pod" {
		return slices.Collect(maps.Keys(c.pods))
	}
	var out []string
	for name, n := range c.nodes {
		if kind == "Node" && n.object != nil || kind == "PaddockNode" && n.paddock != nil {
			out = append(out, name)
		}
	}
	return out
}

// Moment is the cluster at one moment. It never changes.
type Moment struct {
	// Nodes are the nodes that can be planned for, ascending by name.
	Nodes []*Node
	// Problems has the nodes with a PaddockNode that cannot be planned for, ascending by node.
	// Strange are the names of the nodes without a PaddockNode, ascending.
	Problems []Problem
	Strange  []string
	// Notes are about pods, ascending by node.
	Notes []Problem
	// Rejections has what nodes rejected since their agents started counting, the most frequent
	// first. Last has the latest rejections, the newest first.
	Rejections []Rejections
	Last       []Rejection
	// Decisions counts all decisions, in the order of the groups' rejections, most first.
	Decisions []Decisions
	counters  map[string]counters
	// Pods is the number of pods that have a node. Waiting has the pods that have none, the oldest
	// first.
	Pods    int
	Waiting []*v1.Pod
}

// Problem is a remark about a node.
type Problem struct{ Node, Text string }

// Moment returns what the objects show now. It returns the same value as before if nothing has
// changed.
func (c *Cluster) Moment() *Moment {
	if len(c.changed) == 0 && c.waits && c.counted {
		return c.last
	}
	m := *c.last
	for _, name := range slices.Sorted(maps.Keys(c.changed)) { // Sorted, so that the same objects give the same names of groups.
		n := c.nodes[name]
		if n.object == nil && n.paddock == nil && len(n.pods) == 0 {
			delete(c.nodes, name)
			continue
		}
		c.build(name, n)
	}
	if len(c.changed) > 0 {
		c.list(&m)
	}
	if !c.counted {
		c.count(&m)
	}
	if !c.waits {
		m.Waiting = nil
		var waiting []*pod
		for _, p := range c.pods {
			if p.node == "" {
				waiting = append(waiting, p)
			}
		}
		slices.SortFunc(waiting, older)
		for _, p := range waiting {
			m.Waiting = append(m.Waiting, p.object())
		}
	}
	clear(c.changed)
	c.waits, c.counted, c.last = true, true, &m
	return &m
}

// list sets the nodes and the remarks about them.
func (c *Cluster) list(m *Moment) {
	m.Nodes, m.Problems, m.Notes, m.Strange, m.Pods = make([]*Node, 0, len(c.nodes)), nil, nil, nil, 0
	for name, n := range c.nodes {
		m.Pods += len(n.pods)
		switch {
		case n.object != nil && n.paddock == nil:
			m.Strange = append(m.Strange, name)
		case n.built == nil && n.problem != "":
			m.Problems = append(m.Problems, Problem{name, n.problem})
		case n.built != nil:
			m.Nodes = append(m.Nodes, n.built)
			if n.note != "" {
				m.Notes = append(m.Notes, Problem{name, n.note})
			}
		}
	}
	slices.SortFunc(m.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(m.Strange)
	for _, list := range [][]Problem{m.Problems, m.Notes} {
		slices.SortFunc(list, func(a, b Problem) int { return strings.Compare(a.Node, b.Node) })
	}
}

// Group returns the group of a node, or the empty string unless the node has both objects.
func (c *Cluster) Group(name string) string {
	n := c.nodes[name]
	if n == nil || n.object == nil || n.paddock == nil {
		return ""
	}
	return c.groups.of(n.object, n.paddock)
}

// Shapes returns the requests of the pods that would have exclusive CPUs on some node, and the
// number of pods with each, in no particular order. A pod that nodes read in several ways, because
// their feature gates differ, is one with readings.
func (c *Cluster) Shapes() []fleet.Shape {
	gates := map[podspec.Gates]bool{}
	for _, n := range c.nodes {
		if n.built != nil {
			gates[podspec.GatesOf(n.shown.Policy)] = true
		}
	}
	order := slices.SortedFunc(maps.Keys(gates), func(a, b podspec.Gates) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	var out []fleet.Shape
	for _, s := range c.specs.known {
		if pod, exclusive := s.shape(order); exclusive {
			out = append(out, fleet.Shape{Pod: pod, Count: int64(s.pods)})
		}
	}
	return out
}
