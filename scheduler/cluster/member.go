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
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// held is a pod with its grant.
type held struct {
	origin          shown.Origin
	namespace, name string
	// text is the annotation from which the grant was decoded.
	text string
	// reported is the grant of its origin. Nil means that the pod is planned here.
	reported *node.Grant
	// totals is what the pod of the reported grant requests, once hide has asked for it.
	totals *fleet.Amounts
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
	// since is the number of the last comparison before it was reserved or seen. left is that of the
	// first one since which a published pod is not bound any more, or 0.
	since, left uint64
	// gone is when a pod that was bound was first missing. See Soon.
	gone time.Time
	// ending is set if the pod is bound and deleted. Its containers end at some time.
	ending bool
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
	// hidden is what pods request that the API server does not show.
	hidden fleet.Amounts
	// leaving has the pods that are gone and still published. See Soon.
	leaving leaving
	// base is the node as its kubelet has it, without pods about which it has not decided. It is nil
	// where no kubelet decides.
	base *memo.Node
	// unusable describes why no state can be made of the objects. If empty, one can be made.
	unusable string
	// ended is set if the node has no objects any more.
	ended bool
	agent agent
	// tried is set in a copy that a Trial made.
	tried bool
}

// update sets the source. It makes the state again if anything but the published grants changed.
func (m *member) update(source *Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.source
	m.source = source
	if old == nil || old.Problem != source.Problem || old.Unsure != source.Unsure || !m.blocked() && (old.Here != source.Here || !reflect.DeepEqual(old.Inventory, source.Inventory)) {
		// The policy determines how requests are read, so pods are read again. Reservations are
		// kept.
		maps.DeleteFunc(m.pods, func(_ string, h *held) bool { return h.origin != shown.Reserved })
		m.unusable, m.compared = source.Problem, nil
		m.rebuild()
	}
	m.compare()
}

// blocked reports whether the objects of the node say nothing about its pods.
func (m *member) blocked() bool { return m.source.Problem != "" || m.source.Unsure != "" }

// rebuild makes the state from the reported grants. Those that contradict others are left out. What
// a kubelet has not decided yet is planned again (provide), because its files do not have it.
func (m *member) rebuild() {
	m.base = nil
	switch {
	case m.unusable != "":
		m.set(m.without(m.unusable))
		return
	case m.source.Unsure != "":
		m.set(m.unsure(m.source.Unsure))
		return
	}
	kubelet := m.source.Kubelet
	known := make([]shown.Known, 0, len(m.pods))
	for _, h := range m.pods {
		if kubelet != nil && h.origin != shown.Published {
			if h.grant = nil; h.reported != nil {
				h.asks = &h.reported.Pod
			}
			continue
		}
		if h.reported != nil {
			h.grant = h.reported
		}
		if h.grant != nil {
			known = append(known, shown.Known{Origin: h.origin, Bound: h.bound == m.comparisons, Grant: h.grant})
		}
	}
	grants := shown.Settle(known)
	for _, g := range grants {
		m.pods[g.Pod.UID].grant = g
	}
	state, findings, err := m.source.Adopt(grants)
	if err != nil {
		m.unusable = "its machine and its policy contradict each other: " + err.Error()
		m.set(m.without(m.unusable))
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
		if h.origin != shown.Published {
			h.asks = &h.reported.Pod
			if !before[h] && !m.tried {
				m.cluster.world.Report(m.name, f.Pod, &contradiction{f.What})
			}
		}
	}
	view := memo.Of(m.cluster.ranking.View(fleet.Node{Name: m.name, State: state, Allocatable: m.allocatable, Used: m.used}))
	if kubelet != nil {
		m.base = view
	}
	m.show(view)
}

// without returns the knowledge of a node of which no state can be made.
func (m *member) without(why string) *At {
	if m.source.Node != nil && m.source.Kubelet != nil {
		return m.unsure(why)
	}
	return &At{Problem: why}
}

// unsure returns the knowledge of a node of which it is not known what its kubelet has.
func (m *member) unsure(why string) *At {
	if m.cluster.world.UnsureIsProblem {
		return &At{Problem: unsureProblem}
	}
	return &At{Unsure: why}
}

// unsureProblem is the problem of a node that is unsure. It does not contain the reason, which can
// name the node. Otherwise an event of a pod would have one sentence per such node.
const unsureProblem = "what its kubelet has assigned is not known for certain: kubectl describe paddocknode shows why"

// contradiction is the reason why a grant is not in a state.
type contradiction struct{ what string }

func (c *contradiction) Error() string { return "its grant contradicts others: " + c.what }

// show makes a view the current one.
func (m *member) show(view *memo.Node) {
	at := &At{View: view, Gates: podspec.GatesOf(m.source.Policy)}
	if old := m.at.Load(); old != nil {
		at.Problem, at.Unsure = old.Problem, old.Unsure
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
	if m.unusable != "" || m.source.Unsure != "" {
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
		rebuild = rebuild || m.source.Kubelet != nil // What its files have beside the grants can have changed.
	}
	ended, m.freed = ended || m.freed, false
	more := false // there are pods that are planned here
	for _, pod := range pods {
		m.listed[pod] = m.comparisons
		uid := fleetsource.UID(pod)
		text := pod.Annotations[handover.Annotation]
		if fleetsource.IsMirror(pod) || m.source.Kubelet != nil { // The annotation of a mirror pod does not count, and a kubelet reads none.
			text = ""
		}
		h := m.pods[uid]
		if h != nil && (h.origin == shown.Published || h.text == text || h.origin == shown.Reserved && text == "") {
			h.seen, h.bound, h.ending = m.comparisons, m.comparisons, pod.DeletionTimestamp != nil
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
		case h.origin == shown.Published && h.bound == m.comparisons:
			h.left, h.gone = 0, time.Time{}
		case h.origin == shown.Published:
			if h.left == 0 && h.bound > 0 {
				h.gone = time.Now()
			}
			h.left = cmp.Or(h.left, m.comparisons)
		case h.seen == m.comparisons:
		case h.origin == shown.Reserved && m.cluster.world.Exists(h.namespace, h.name, uid):
			m.unbound[uid] = h
		default:
			delete(m.pods, uid)
			m.release(uid)
			ended = true
		}
	}
	m.hide(time.Now())
	if rebuild || ended && m.contradictions > 0 {
		m.rebuild()
	}
	if rebuild || ended || more {
		m.provide()
	}
	m.count()
	m.check(pods)
	m.order()
	m.leave()
	maps.DeleteFunc(m.listed, func(_ *v1.Pod, comparison uint64) bool { return comparison != m.comparisons })
	m.compared = m.source
}

// reserve plans a pod on the current state and keeps its grant. See Cluster.Reserve.
func (m *member) reserve(pod fleet.Pod) (*Reservation, error) {
	at := m.at.Load()
	switch {
	case at.Unsure != "":
		return nil, nil
	case at.Problem != "":
		return nil, fmt.Errorf("node %s: %s", m.name, at.Problem)
	}
	view, plan, err := at.View.Place(pod)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", m.name, err)
	}
	if err := m.inEveryOrder(pod); err != nil {
		return nil, fmt.Errorf("node %s: %w", m.name, err)
	}
	if plan.Grant != nil {
		if m.pods[pod.UID] != nil { // It is also bound or published, so the next comparison decides which grant counts.
			m.compared = nil
		}
		h := &held{origin: shown.Reserved, namespace: pod.Namespace, name: pod.Name, reported: plan.Grant, grant: plan.Grant, since: m.comparisons}
		m.pods[pod.UID], m.unbound[pod.UID] = h, h
		m.show(view)
		m.order()
	}
	return &Reservation{Plan: plan, Here: m.source.Here, After: view, Predicted: m.source.Kubelet != nil}, nil
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
		if h == nil || h.origin != shown.Published || h.reported != g {
			// The assignments are the same, in a later revision of the object.
			same := h != nil && !h.contradicted && h.grant != nil && h.grant.SameAssignments(g)
			changed = changed || !same
			next := &held{origin: shown.Published, reported: g, grant: g}
			if same {
				next.grant = h.grant
			}
			if h != nil {
				next.left, next.gone, next.bound, next.ending = h.left, h.gone, h.bound, h.ending
			}
			m.pods[uid], h = next, next
		}
		h.seen = m.comparisons
	}
	for uid, h := range m.pods {
		if h.origin == shown.Published && h.seen != m.comparisons {
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
	h := &held{origin: shown.Provisional, namespace: pod.Namespace, name: pod.Name, text: annotation, since: m.comparisons - 1}
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
	h.origin, h.asks = shown.Annotated, nil
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
	next := &At{View: at.View.With(m.allocatable, m.used), Problem: at.Problem, Unsure: at.Unsure, Gates: at.Gates}
	for _, o := range at.Others {
		next.Others = append(next.Others, o.With(m.allocatable, m.used))
	}
	m.set(next)
}

// check sets the problem of the node.
func (m *member) check(pods []*v1.Pod) {
	at := m.at.Load()
	if at.View == nil {
		return
	}
	next := &At{View: at.View, Others: at.Others, Gates: at.Gates}
	if why := m.doubt(pods); why != "" && m.source.Kubelet != nil {
		is := m.unsure(why)
		next.Problem, next.Unsure = is.Problem, is.Unsure
	} else {
		next.Problem = why
	}
	if next.Problem != at.Problem || next.Unsure != at.Unsure || !at.Hidden.Equal(m.hidden) {
		m.set(next)
	}
}

// doubt returns why what is known of the node can be wrong, or the empty string.
func (m *member) doubt(pods []*v1.Pod) string {
	k := m.source.Kubelet
	switch {
	case m.missesAgent(pods):
		return "the Paddock agent is not ready"
	case k != nil && !m.source.Complete:
		return "its PaddockNode has no room for all grants"
	case k != nil && k.Certainty.Answer == v1alpha1.CertaintyUnsure:
		return cmp.Or(strings.Join(k.Certainty.Reasons, "; "), "its agent gives no reason")
	}
	return ""
}
