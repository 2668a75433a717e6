package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// held is a pod with its grant.
type held struct {
	origin          fleetsource.Origin
	namespace, name string
	// text is the annotation from which the grant was decoded.
	text string
	// reported is the grant of its origin. Nil means that the pod is planned here.
	reported *node.Grant
	// asks is what a pod that is planned here requests. Nil means no exclusive resources.
	asks *request.Pod
	// grant is the one in the state. It is the reported one, unless that contradicts others; then
	// it is planned here until the contradiction ends. Nil means that the pod does not fit, or that
	// it has no exclusive resources.
	grant        *node.Grant
	contradicted bool
	// seen is the number of the last comparison that found the pod. bound is that of the last one
	// that found it bound to the node.
	seen, bound uint64
}

// pending reports whether the pod has to be planned.
func (h *held) pending() bool { return h.grant == nil && h.asks != nil }

// member represents one node.
type member struct {
	cluster *Cluster
	name    string
	at      atomic.Pointer[At] // never nil once the node is known, see set

	mu          sync.Mutex // guards the fields below, and writes of the fields above
	source      *Source
	pods        map[string]*held // by UID; for a static pod, the UID of its source
	comparisons uint64
	// compared, listed and unbound are what the last comparison saw. compared is the source; it is
	// nil if the next comparison must look at everything. listed maps the pods to the number of
	// that comparison. unbound has the reservations of pods that were not bound, by UID.
	compared *Source
	listed   map[*v1.Pod]uint64
	unbound  map[string]*held
	// freed is set if a reservation was taken back since the last comparison. A grant that it
	// contradicted then counts again.
	freed bool
	// contradictions is the number of grants that are not in the state because they contradict
	// others.
	contradictions    int
	allocatable, used fleet.Amounts
	// unusable describes why no state can be made of the objects. If empty, one can be made.
	unusable string
	// ended is set if the node has no objects any more.
	ended bool
}

// update sets the source. It makes the state again if anything but the published grants changed.
func (m *member) update(source *Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.source
	m.source = source
	if old == nil || old.Problem != source.Problem || source.Problem == "" && (old.Here != source.Here || !reflect.DeepEqual(old.Inventory, source.Inventory)) {
		// The policy determines how requests are read, so pods are read again. Reservations are
		// kept.
		maps.DeleteFunc(m.pods, func(_ string, h *held) bool { return h.origin != fleetsource.Reserved })
		m.unusable, m.compared = source.Problem, nil
		m.rebuild()
	}
	m.compare()
}

// rebuild makes the state from the reported grants. Those that contradict others are left out.
func (m *member) rebuild() {
	if m.unusable != "" {
		m.set(&At{Problem: m.unusable})
		return
	}
	known := make([]fleetsource.Known, 0, len(m.pods))
	for _, h := range m.pods {
		if h.reported != nil {
			h.grant = h.reported
		}
		if h.grant != nil {
			known = append(known, fleetsource.Known{Origin: h.origin, Bound: h.bound == m.comparisons, Grant: h.grant})
		}
	}
	grants := fleetsource.Settle(known)
	for _, g := range grants {
		m.pods[g.Pod.UID].grant = g
	}
	state, findings, err := node.Adopt(m.source.Machine, m.source.Policy, m.source.Inventory, grants)
	if err != nil {
		m.unusable = "its machine and its policy contradict each other: " + err.Error()
		m.set(&At{Problem: m.unusable})
		return
	}
	before := map[*held]bool{}
	for _, h := range m.pods {
		before[h], h.contradicted = h.contradicted, false
	}
	m.contradictions = 0
	for _, f := range findings {
		if f.Kept {
			continue
		}
		// Its pod is planned instead, as its node will do, until the contradicting grants have
		// ended.
		h := m.pods[f.UID]
		h.grant = nil
		if h.reported == nil {
			continue
		}
		h.contradicted = true
		m.contradictions++
		if h.origin != fleetsource.Published {
			h.asks = &h.reported.Pod
			if !before[h] {
				m.cluster.world.Report(m.name, f.Pod, &contradiction{f.What})
			}
		}
	}
	m.show(memo.Of(m.cluster.ranking.View(fleet.Node{Name: m.name, State: state, Allocatable: m.allocatable, Used: m.used})))
}

// contradiction is the reason why a grant is not in a state.
type contradiction struct{ what string }

func (c *contradiction) Error() string { return "its grant contradicts others: " + c.what }

// show makes a view the current one.
func (m *member) show(view *memo.Node) {
	at := &At{View: view, Gates: podspec.GatesOf(m.source.Policy)}
	if old := m.at.Load(); old != nil {
		at.Problem = old.Problem
	}
	m.set(at)
}

// release removes the grant of a pod from the state.
func (m *member) release(uid string) {
	if at := m.at.Load(); at.View != nil {
		if next := at.View.State.Release(uid); next != at.View.State {
			m.show(at.View.Next(next, m.used))
		}
	}
}

// compare brings the state up to date.
func (m *member) compare() {
	if m.unusable != "" {
		return
	}
	pods := m.cluster.world.Pods(m.name)
	if m.settled(pods) {
		m.count()
		return
	}
	m.comparisons++
	rebuild, ended := false, false
	if m.compared != m.source {
		rebuild, ended = m.publishedChanged()
	}
	ended, m.freed = ended || m.freed, false
	more := false // there are pods that are planned here
	for _, pod := range pods {
		m.listed[pod] = m.comparisons
		uid := fleetsource.UID(pod)
		text := pod.Annotations[handover.Annotation]
		if fleetsource.IsMirror(pod) { // The annotation of a mirror pod does not count.
			text = ""
		}
		h := m.pods[uid]
		if h != nil && (h.origin == fleetsource.Published || h.text == text || h.origin == fleetsource.Reserved && text == "") {
			h.seen, h.bound = m.comparisons, m.comparisons
			continue
		}
		if h != nil { // The annotation has changed.
			m.release(uid)
		}
		h = m.read(pod, text)
		h.seen, h.bound = m.comparisons, m.comparisons
		m.pods[uid] = h
		rebuild, more = rebuild || h.reported != nil, more || h.pending()
	}
	clear(m.unbound)
	for uid, h := range m.pods {
		switch {
		case h.seen == m.comparisons || h.origin == fleetsource.Published:
		case h.origin == fleetsource.Reserved && m.cluster.world.Exists(h.namespace, h.name, uid):
			m.unbound[uid] = h
		default:
			delete(m.pods, uid)
			m.release(uid)
			ended = true
		}
	}
	if rebuild || ended && m.contradictions > 0 {
		m.rebuild()
	}
	if rebuild || ended || more {
		m.provide()
	}
	m.count()
	m.check(pods)
	maps.DeleteFunc(m.listed, func(_ *v1.Pod, comparison uint64) bool { return comparison != m.comparisons })
	m.compared = m.source
}

// settled reports whether a comparison would find the same as the last one. Most nodes with a new
// generation have not changed otherwise, so it reads no pod: an informer does not change the
// objects that it has shown.
func (m *member) settled(pods []*v1.Pod) bool {
	if m.compared != m.source || len(m.listed) != len(pods) {
		return false
	}
	for _, pod := range pods {
		if _, seen := m.listed[pod]; !seen {
			return false
		}
	}
	for uid, h := range m.unbound {
		if !m.cluster.world.Exists(h.namespace, h.name, uid) {
			return false
		}
	}
	return true
}

// publishedChanged takes over the published grants. It reports whether the state has to be made
// again, and whether a grant is not published any more.
func (m *member) publishedChanged() (changed, ended bool) {
	for uid, g := range m.source.Published {
		h := m.pods[uid]
		if h == nil || h.origin != fleetsource.Published || h.reported != g {
			// The assignments are the same, in a later revision of the object.
			same := h != nil && !h.contradicted && h.grant != nil && h.grant.SameAssignments(g)
			changed = changed || !same
			next := &held{origin: fleetsource.Published, reported: g, grant: g}
			if same {
				next.grant = h.grant
			}
			m.pods[uid], h = next, next
		}
		h.seen = m.comparisons
	}
	for uid, h := range m.pods {
		if h.origin == fleetsource.Published && h.seen != m.comparisons {
			delete(m.pods, uid) // If the pod is still bound, its annotation counts again.
			m.release(uid)
			ended = true
		}
	}
	return changed, ended
}

// read returns a bound pod with the grant of its annotation. If the annotation is missing or not
// valid, the pod is planned, as its node does.
func (m *member) read(pod *v1.Pod, annotation string) *held {
	h := &held{origin: fleetsource.Provisional, namespace: pod.Namespace, name: pod.Name, text: annotation}
	bound, wrong := fleetsource.ReadBound(pod, m.source.Policy)
	if wrong == nil && Concerns(&bound.Pod) { // A node does not start a pod that is not valid.
		h.asks = &bound.Pod
	}
	if annotation == "" {
		return h
	}
	text, err := handover.Decode(annotation)
	switch {
	case err != nil:
	case text.Node != m.name:
		err = fmt.Errorf("its grant is for node %s", text.Node)
	case wrong != nil:
		err = wrong
	default:
		h.reported, err = text.For(bound.Pod)
	}
	if err != nil {
		m.cluster.world.Report(m.name, pod.Namespace+"/"+pod.Name, err)
		return h
	}
	h.origin, h.asks = fleetsource.Annotated, nil
	return h
}

// provide plans the pods that have no grant, in the order of their creation. A pod that does not
// fit is planned again when others end, because its node tries it again too.
func (m *member) provide() {
	var list []*held
	for _, h := range m.pods {
		if h.pending() {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *held) int {
		return cmp.Or(cmp.Compare(a.asks.Created, b.asks.Created), strings.Compare(a.asks.UID, b.asks.UID))
	})
	for _, h := range list {
		at := m.at.Load()
		if at.View == nil {
			return
		}
		view, plan, err := at.View.Place(fleet.Pod{Pod: *h.asks})
		if err != nil || plan.Grant == nil {
			continue
		}
		h.grant = plan.Grant
		m.show(view)
	}
}

// count sets the amounts of the view.
func (m *member) count() {
	at := m.at.Load()
	if at.View == nil || at.View.Used.Equal(m.used) && at.View.Allocatable.Equal(m.allocatable) {
		return
	}
	m.set(&At{View: at.View.With(m.allocatable, m.used), Problem: at.Problem, Gates: at.Gates})
}

// check sets the problem of the node.
func (m *member) check(pods []*v1.Pod) {
	at := m.at.Load()
	if at.View == nil {
		return
	}
	problem := ""
	if !m.cluster.world.AgentReady(pods) {
		problem = "the Paddock agent is not ready"
	}
	if problem != at.Problem {
		m.set(&At{View: at.View, Problem: problem, Gates: at.Gates})
	}
}
