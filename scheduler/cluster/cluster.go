package cluster

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// Source is what the objects of one node report.
type Source struct {
	*fleetsource.Node
	// Problem describes why nothing is planned for the node. If empty, nothing is wrong. If it is
	// set, Node may be nil.
	Problem string
	// Unsure describes why it is not known what a kubelet that decides has. If it is set, Node may be
	// nil.
	Unsure string
}

// World has everything that a cluster reads and does not own.
type World struct {
	// Pods returns the pods that are bound to a node and have not ended. The caller must not change
	// them.
	Pods func(node string) []*v1.Pod
	// Exists reports whether a pod with that UID exists and has not ended, bound or not.
	Exists func(namespace, name, uid string) bool
	// AgentReady reports whether one of the pods of a node is an agent that is ready.
	AgentReady func(pods []*v1.Pod) bool
	// AgentAway is how long what an observing agent published last counts after the agent stopped
	// being ready. Its kubelet goes on to decide meanwhile, and the pods that are bound since are
	// planned beside those of its files. A node whose agent stays away longer is unsure: then Wake
	// is called.
	AgentAway time.Duration
	Wake      func(node string)
	// PublishWithin is how long the grant of a pod that is gone can stay published before it counts
	// as in use: see Soon.
	PublishWithin time.Duration
	// UnsureIsProblem makes a node whose kubelet decides, and of which it is unsure what it has, take
	// no pod that Concerns. If false, such a node takes every pod.
	UnsureIsProblem bool
	// Report is called for each grant that is not used.
	Report func(node, pod string, err error)
}

// Cluster represents all nodes. The zero value is not usable; see New.
type Cluster struct {
	world   World
	ranking *fleet.Ranking
	// Questions are shared by all nodes.
	Questions memo.Questions

	mu      sync.Mutex // for writers of members
	members atomic.Pointer[map[string]*member]
	recent  recent
	gates   atomic.Uint32 // a bit for each combination of gates that a node has
}

// New returns a cluster without nodes.
func New(ranking *fleet.Ranking, world World) *Cluster {
	c := &Cluster{world: world, ranking: ranking}
	c.members.Store(&map[string]*member{})
	return c
}

// Ranking returns the ranking of the cluster's views.
func (c *Cluster) Ranking() *fleet.Ranking { return c.ranking }

// At is a snapshot of what is known of a node. It is immutable, but for what it remembers of its
// own answers.
type At struct {
	// These come first, so that a known answer reads one line of a CPU cache.
	sighting
	answers
	// View is the node. It may be nil if Problem is set.
	View *memo.Node
	// Others are what the node can be as well, because it is not known in which order its kubelet
	// decides about pods, and which pods have ended before (futures.go). View has the pods in the
	// order of their creation, and those that have ended until the kubelet's files show it.
	Others []*memo.Node
	// Hidden is what pods of the node request that the API server does not show, so that the
	// scheduler does not count them.
	Hidden fleet.Amounts
	soon   *Soon // see Soon
	// Problem describes why the node takes no pod that Concerns. If empty, it takes such pods.
	Problem string
	// Unsure describes why it is not known which pods the kubelet of the node rejects. The node then
	// takes every pod, and View may be nil.
	Unsure string
	// Gates are the feature gates with which the node reads pods.
	Gates podspec.Gates
}

// Update sets what the objects of a node report. A nil source means that the node has no objects.
// The caller must not change the source afterwards.
func (c *Cluster) Update(name string, source *Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.members.Load()
	m := old[name]
	if m == nil && source == nil {
		return
	}
	if m == nil || source == nil {
		next := maps.Clone(old)
		if source == nil {
			delete(next, name)
			c.members.Store(&next)
			m.end()
			return
		}
		m = &member{cluster: c, name: name, pods: map[string]*held{}, listed: map[*v1.Pod]uint64{}, unbound: map[string]*held{}}
		next[name] = m
		defer c.members.Store(&next) // After the state is set, not before.
	}
	if source.Problem == "" && source.Node != nil {
		c.gates.Or(1 << gatesIndex(podspec.GatesOf(source.Policy)))
	}
	m.update(source)
}

// At returns what is known of a node, or nil if it has no objects. The generation is that of the
// scheduler's cache; no two nodes ever have the same one. count returns the amounts that the
// scheduler itself counts for the node. At calls it only if the generation differs from that of the
// last call.
func (c *Cluster) At(name string, generation int64, count func() (allocatable, used fleet.Amounts)) *At {
	if at := c.recent.find(generation); at != nil {
		return at
	}
	m := (*c.members.Load())[name]
	if m == nil {
		return nil
	}
	at := m.at.Load()
	if at.generation.Load() != generation {
		allocatable, used := count()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.allocatable, m.used = allocatable, used
		m.compare()
		at = m.at.Load()
		c.recent.forget(at)
		at.generation.Store(generation)
	}
	c.recent.keep(generation, at)
	return at
}

// Recent is At for a node that was looked up with the same generation before. It returns nil if At
// has to be called, which takes longer.
func (c *Cluster) Recent(generation int64) *At { return c.recent.find(generation) }

// After returns what is known of a node after all events that the pod informer has seen. It returns
// nil if the node has no objects.
func (c *Cluster) After(name string) *At {
	m := (*c.members.Load())[name]
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compare()
	return m.at.Load()
}

// Unsure reports whether it is not known which pods the kubelet of a node rejects.
func (c *Cluster) Unsure(name string) bool {
	m := (*c.members.Load())[name]
	return m != nil && m.at.Load().Unsure != ""
}

// Names returns the nodes that have objects, in no particular order.
func (c *Cluster) Names() []string {
	var names []string
	for name := range *c.members.Load() {
		names = append(names, name)
	}
	return names
}

// Gates returns the combinations of feature gates with which nodes read pods.
func (c *Cluster) Gates() []podspec.Gates {
	var list []podspec.Gates
	for i, seen := uint32(0), c.gates.Load(); i < 8; i++ {
		if seen&(1<<i) != 0 {
			list = append(list, podspec.Gates{PodLevelResources: i&1 != 0, PodLevelManagers: i&2 != 0, MarkFractions: i&4 != 0})
		}
	}
	return list
}

// gatesIndex returns the number of a combination of gates.
func gatesIndex(g podspec.Gates) uint32 {
	var i uint32
	if g.PodLevelResources {
		i |= 1
	}
	if g.PodLevelManagers {
		i |= 2
	}
	if g.MarkFractions {
		i |= 4
	}
	return i
}

// Reservation is the result of Reserve.
type Reservation struct {
	Plan *node.Plan
	// Here describes what the grant was planned with. After is the node with the grant; without a
	// grant, it is the node as it was.
	Here  handover.Here
	After *memo.Node
	// Predicted is set if the kubelet of the node decides. The grant is then a prediction.
	Predicted bool
}

// Reserve plans a pod on the current state of the node. It keeps the grant until Unreserve is
// called or the pod is gone. The reservation is nil if the node has no objects, or is unsure. A
// plan that rejects the pod changes nothing. The error names the node and what is wrong.
func (c *Cluster) Reserve(name string, pod fleet.Pod) (*Reservation, error) {
	m := (*c.members.Load())[name]
	if m == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compare()
	return m.reserve(pod)
}

// Hand sets the annotation with which the pod of a reservation will be bound. The annotation has
// the reserved grant.
func (c *Cluster) Hand(name, uid, text string) {
	if m := (*c.members.Load())[name]; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if h := m.pods[uid]; h != nil && h.origin == shown.Reserved {
			h.text = text
		}
	}
}

// Unreserve takes a reservation back. It does nothing if there is none, or if the pod has been
// bound.
func (c *Cluster) Unreserve(name, uid string) {
	if m := (*c.members.Load())[name]; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if h := m.pods[uid]; h != nil && h.origin == shown.Reserved {
			delete(m.pods, uid)
			delete(m.unbound, uid)
			m.release(uid)
			m.compared, m.freed = nil, true
			m.compare() // The pod may be bound even if the scheduler gave up waiting.
		}
	}
}
