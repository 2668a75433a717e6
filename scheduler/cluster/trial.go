package cluster

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// Trial is the cluster as one attempt to schedule a group of pods sees it. A scheduler places the
// members of a group one after the other, on trial, and takes all of them back before it binds any
// or gives up. To find out which pods to preempt, it also removes pods from its snapshot.
//
// A trial changes copies of nodes. The cluster does not show what a trial reserves, so that neither
// other pods nor events see it. If a node of the cluster changes meanwhile, its copy is made again.
//
// Any number of goroutines may call At. Reserve and Unreserve must not run beside other calls.
type Trial struct {
	cluster *Cluster
	mu      sync.RWMutex // guards nodes
	nodes   map[string]*tried
}

// Sight is a node of the scheduler's snapshot.
type Sight struct {
	Name       string
	Generation int64
	// Count returns the amounts that the scheduler itself counts for the node.
	Count func() (allocatable, used fleet.Amounts)
	// Pods yields the pods of the node, if the scheduler may have removed some of them to preempt
	// them. Pods that the node has in the cluster and not here are gone in the trial. It is nil if
	// the scheduler has removed none. One trial has it always or never.
	Pods iter.Seq[*v1.Pod]
}

// tried is a node in a trial. It is immutable.
type tried struct {
	// known is the node in the cluster of which the copies were made. generation is the one of the
	// last Sight with Pods, or 0.
	known      *At
	generation int64
	// gone lists the UIDs of the pods that the trial has removed, in order. without is the node
	// without them; it is nil if there are none.
	gone    []string
	without *member
	// reserved has the reservations of the trial, in order.
	reserved []attempt
}

// attempt is a reservation of a trial. node is the node with it and with all earlier ones.
type attempt struct {
	pod  fleet.Pod
	node *member
}

// Without returns what is known of a node after these pods have ended, and those that are gone and
// still published (Soon), or nil if the node has no objects. The node itself does not change.
func (c *Cluster) Without(name string, uids []string) *At {
	m := (*c.members.Load())[name]
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compare()
	if at := m.at.Load(); at.View == nil {
		return at
	}
	return m.withoutPods(slices.Concat(uids, m.leaving.now()), m.allocatable, m.used).at.Load()
}

// Trial returns a trial in which nothing has changed yet.
func (c *Cluster) Trial() *Trial { return &Trial{cluster: c, nodes: map[string]*tried{}} }

// top returns the newest copy of the node, or nil if there is none.
func (n *tried) top() *member {
	if k := len(n.reserved); k > 0 {
		return n.reserved[k-1].node
	}
	return n.without
}

func (n *tried) at() *At {
	if top := n.top(); top != nil {
		return top.at.Load()
	}
	return n.known
}

// At returns what is known of a node in the trial, or nil if it has no objects.
func (t *Trial) At(s Sight) *At {
	n := t.find(s.Name)
	switch {
	case n == nil && s.Pods == nil:
		return t.cluster.At(s.Name, s.Generation, s.Count)
	case n != nil && !n.known.replaced.Load() && (s.Pods == nil || n.generation == s.Generation):
		return n.at()
	}
	if n = t.look(s); n == nil {
		return nil
	}
	return n.at()
}

// Reserve is Cluster.Reserve in the trial. The caller must not bind the pod with the grant.
func (t *Trial) Reserve(s Sight, pod fleet.Pod) (*Reservation, error) {
	n := t.look(s)
	if n == nil {
		return nil, nil
	}
	next := t.copyOf(s.Name, n.top())
	if next == nil {
		return nil, nil
	}
	done, err := next.reserve(pod)
	if err != nil || done == nil || done.Plan.Grant == nil {
		return done, err
	}
	with := *n
	with.reserved = append(slices.Clip(n.reserved), attempt{pod, next})
	t.keep(s.Name, &with)
	return done, nil
}

// Unreserve takes a reservation of the trial back. The node is then exactly as if the pod had never
// been reserved. It does nothing if there is no such reservation.
func (t *Trial) Unreserve(name, uid string) {
	n := t.find(name)
	if n == nil {
		return
	}
	i := slices.IndexFunc(n.reserved, func(a attempt) bool { return a.pod.UID == uid })
	if i < 0 {
		return
	}
	rest, later := *n, n.reserved[i+1:]
	rest.reserved = n.reserved[:i]
	if len(later) > 0 { // The scheduler takes the last one back first, so this is for others.
		t.repeat(name, &rest, later)
	}
	t.keep(name, &rest)
}

// Reserved reports whether the trial has a reservation of a pod on a node.
func (t *Trial) Reserved(name, uid string) bool {
	n := t.find(name)
	return n != nil && slices.ContainsFunc(n.reserved, func(a attempt) bool { return a.pod.UID == uid })
}

func (t *Trial) find(name string) *tried {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.nodes[name]
}

// keep stores a node. A node that does not differ from the cluster is dropped.
func (t *Trial) keep(name string, n *tried) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n == nil || n.generation == 0 && len(n.reserved) == 0 {
		delete(t.nodes, name)
		return
	}
	t.nodes[name] = n
}

// look compares a node with the cluster, and makes its copies again if they differ. It returns nil
// if the node has no objects.
func (t *Trial) look(s Sight) *tried {
	m := (*t.cluster.members.Load())[s.Name]
	if m == nil {
		t.keep(s.Name, nil)
		return nil
	}
	before := t.find(s.Name)
	next := &tried{}
	if before != nil {
		*next = *before
	}
	m.mu.Lock()
	m.compare()
	at, gone := m.at.Load(), []string(nil)
	if s.Pods != nil {
		next.generation = s.Generation
		gone = m.missing(s.Pods)
	}
	same := before != nil && before.known == at && slices.Equal(before.gone, gone)
	if !same {
		next.known, next.gone, next.without = at, gone, nil
		if len(gone) > 0 && at.View != nil && at.Unsure == "" {
			allocatable, used := s.Count()
			next.without = m.withoutPods(gone, allocatable, used)
		}
	}
	m.mu.Unlock()
	if !same {
		reserved := next.reserved
		next.reserved = nil
		t.repeat(s.Name, next, reserved)
	}
	t.keep(s.Name, next)
	return next
}

// repeat reserves pods again, in the same order. A pod that does not fit any more keeps its place
// in the order, without a grant.
func (t *Trial) repeat(name string, n *tried, pods []attempt) {
	n.reserved = slices.Clip(n.reserved)
	for _, a := range pods {
		next := t.copyOf(name, n.top())
		if next == nil {
			return
		}
		// An error leaves the node as it is. Reserve is called again before the pod is bound.
		_, _ = next.reserve(a.pod)
		n.reserved = append(n.reserved, attempt{a.pod, next})
	}
}

// copyOf returns a copy of a node: of one in the trial, or, if that is nil, of the cluster's. It
// returns nil if the node has no objects any more.
func (t *Trial) copyOf(name string, top *member) *member {
	if top != nil { // No other goroutine changes it.
		return top.copy()
	}
	m := (*t.cluster.members.Load())[name]
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copy()
}

// copy returns a copy whose changes have no effect on the node. It is never compared. The caller
// must have locked mu, or must be the only one to use the member.
func (m *member) copy() *member {
	at := m.at.Load()
	c := &member{
		cluster: m.cluster, name: m.name, source: m.source, pods: maps.Clone(m.pods), unbound: map[string]*held{}, comparisons: m.comparisons,
		contradictions: m.contradictions, allocatable: m.allocatable, used: m.used, hidden: m.hidden, base: m.base, unusable: m.unusable, tried: true,
	}
	c.at.Store(&At{View: at.View, Others: at.Others, Hidden: at.Hidden, Problem: at.Problem, Unsure: at.Unsure, Gates: at.Gates})
	return c
}

// missing returns the UIDs of the pods that are bound to the node, or reserved on it, and are not
// among these, in order. It includes pods that are gone and still published: no pod must be evicted
// in their place (Soon). Another published pod that is not bound is not missing: it is a static
// pod, or one that was deleted by force and still runs, and a scheduler removes neither. A pod that
// was bound after the scheduler took its snapshot is missing, which only makes the trial too
// hopeful: the next one sees the pod.
func (m *member) missing(pods iter.Seq[*v1.Pod]) []string {
	there := make(map[string]struct{}, len(m.pods))
	for pod := range pods {
		there[fleetsource.UID(pod)] = struct{}{}
	}
	var uids []string
	for uid, h := range m.pods {
		if _, is := there[uid]; !is && (h.origin == shown.Reserved || h.bound == m.comparisons) {
			uids = append(uids, uid)
		}
	}
	uids = append(uids, m.leaving.now()...)
	slices.Sort(uids)
	return uids
}

// withoutPods returns a copy of the node after these pods have ended. What compare does when pods
// have ended, it does as well: grants that they contradicted count again, and pods without a grant
// are planned. The caller must have locked mu.
func (m *member) withoutPods(uids []string, allocatable, used fleet.Amounts) *member {
	c := m.copy()
	c.allocatable, c.used = allocatable, used
	for uid, h := range c.pods { // rebuild and provide change these, and the node has them too.
		if h.pending() || m.contradictions > 0 {
			own := *h
			c.pods[uid] = &own
		}
	}
	at := c.at.Load() // Only the copy has it.
	state := at.View.State
	for _, uid := range uids {
		delete(c.pods, uid)
		state = state.Release(uid)
		if c.base != nil {
			if next := c.base.State.Release(uid); next != c.base.State {
				c.base = c.base.Next(next, used)
			}
		}
	}
	c.hide(time.Now())
	at.Hidden = c.hidden
	if at.Problem == manyUndecided { // order finds out again.
		c.at.Store(&At{View: at.View, Hidden: at.Hidden, Gates: at.Gates})
	}
	if state != at.View.State {
		c.show(at.View.Next(state, used))
	}
	if c.contradictions > 0 {
		c.rebuild()
	}
	c.provide()
	c.count()
	c.order()
	return c
}
