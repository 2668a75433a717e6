package plugin

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

const (
	// promiseTime is how long room that is promised to a woken pod is kept from other pods that
	// wait. On an idle queue a pod is scheduled within milliseconds. A pod that is not scheduled
	// within this time waits for another reason.
	promiseTime = 3 * time.Second
	// snapshotAge is longer than the age of the snapshot with which a scheduling cycle begins.
	snapshotAge = time.Second
	// activations is the maximum number of activations of a pod for one promise. The queue ignores
	// an activation of a pod that is being scheduled. The limit keeps a pod that another plugin
	// rejects before this plugin sees it from being activated forever.
	activations = 3
)

// promises represents the pods that were woken. If a thousand equal pods wait, room for one is no
// reason to try all of them. If a thousand nodes have room, one is enough to wake a pod, because
// its cycle looks at all nodes. So a pod has at most one promise at a time, until its next cycle.
// Promises only decide which pods are woken. Filter and Reserve do not use them.
type promises struct {
	mu     sync.Mutex
	byNode map[string]*promised
	// byPod has the last promise of each pod.
	byPod map[types.UID]*promise
	// queue has all promises in the order in which they end. A timer runs while it is not empty.
	queue []*promise
}

// promised represents the promises on one node.
type promised struct {
	// current is the node without promises, and changed is when it became so.
	current *cluster.At
	changed time.Time
	// view is base with the first placed pods of pods.
	base, view *memo.Node
	placed     int
	pods       []*promise
}

type promise struct {
	uid types.UID
	// node is empty for a pod that is activated again without promised room.
	node     string
	priority int32
	pod      fleet.Pod
	// since is when the pod was woken. latest is when it was last passed over because of this
	// promise.
	since, latest, until time.Time
	activations          int
}

// wakes reports whether a waiting pod is woken for the room on a node. If so, it promises the room
// to the pod. A pod does not wait for those already woken if it is nominated for the node, or if
// its priority is higher than theirs.
func (p *Plugin) wakes(w waitingPod, node string, at *cluster.At) bool {
	if p.promises.awake(w) || !w.fits(at) {
		return false
	}
	if at.Unsure != "" {
		return true // Every pod is to be tried there, and no room is promised.
	}
	i := w.asked.reading(at.Gates)
	if i < 0 || i >= len(w.asked.questions) {
		return true
	}
	p.promises.mu.Lock()
	defer p.promises.mu.Unlock()
	now, priority, n := time.Now(), corev1helpers.PodPriority(w.pod), p.promises.of(node)
	if n.current != at {
		n.current, n.changed = at, now
	}
	if w.begun.After(n.changed.Add(snapshotAge)) {
		return false // The pod was tried with this room, and another plugin rejected it.
	}
	if old := p.promises.byPod[w.pod.UID]; old != nil && old.node == node {
		p.promises.remove(old)
	}
	n.update()
	if !newsFor(w.beside, node, n.view, w.asked.questions[i]) {
		return false
	}
	answer, _ := n.view.Answer(w.asked.questions[i])
	higher := !slices.ContainsFunc(n.pods, func(o *promise) bool { return o.priority >= priority })
	if !answer.Fits && !higher && w.pod.Status.NominatedNodeName != node {
		return false
	}
	made := &promise{uid: w.pod.UID, node: node, priority: priority, pod: w.asked.pods[i], since: now, latest: now, until: now.Add(promiseTime), activations: 1}
	n.pods = append(n.pods, made)
	p.promises.add(made)
	if len(p.promises.queue) == 1 {
		time.AfterFunc(promiseTime, p.expire)
	}
	return true
}

// add adds a promise. The caller must have locked mu.
func (p *promises) add(made *promise) {
	if p.byPod == nil {
		p.byPod = map[types.UID]*promise{}
	}
	p.byPod[made.uid] = made
	p.queue = append(p.queue, made)
}

// activated records pods that were activated while they may have been in a cycle. If none of their
// cycles begins after that, they are activated again.
func (p *promises) activated(plugin *Plugin, pods ...*v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if len(p.queue) == 0 && len(pods) > 0 {
		time.AfterFunc(promiseTime, plugin.expire)
	}
	for _, pod := range pods {
		p.add(&promise{uid: pod.UID, since: now, latest: now, until: now.Add(promiseTime), activations: 1})
	}
}

// expire ends promises. Pods that did not use the room are activated again if none of their cycles
// has begun since. Other pods are woken for the room.
func (p *Plugin) expire() {
	pods, nodes := p.endPromises(time.Now())
	if len(pods) > 0 {
		p.handle.Activate(klog.Background(), pods)
	}
	for node := range nodes {
		p.wake(node)
	}
}

// endPromises removes the promises that end by now. It returns the pods to activate again, by
// namespace and name, and the nodes that have more room for other pods.
func (p *Plugin) endPromises(now time.Time) (pods map[string]*v1.Pod, nodes map[string]bool) {
	pods, nodes = map[string]*v1.Pod{}, map[string]bool{}
	p.promises.mu.Lock()
	defer p.promises.mu.Unlock()
	ended := slices.IndexFunc(p.promises.queue, func(o *promise) bool { return o.until.After(now) })
	if ended < 0 {
		ended = len(p.promises.queue)
	}
	list := p.promises.queue[:ended]
	p.promises.queue = slices.Clone(p.promises.queue[ended:])
	for _, o := range list {
		if p.promises.remove(o) {
			nodes[o.node] = true
		}
		if p.promises.byPod[o.uid] != o {
			continue // The pod has a node, or another promise.
		}
		delete(p.promises.byPod, o.uid)
		w, waits := p.waiting.get(o.uid)
		if waits && o.activations < activations && !w.begun.After(o.latest.Add(snapshotAge)) {
			pods[w.pod.Namespace+"/"+w.pod.Name] = w.pod
			p.promises.add(&promise{uid: o.uid, since: o.since, latest: o.latest, until: now.Add(promiseTime), activations: o.activations + 1})
		}
	}
	if len(p.promises.queue) > 0 {
		time.AfterFunc(p.promises.queue[0].until.Sub(now), p.expire)
	}
	return pods, nodes
}

// awake reports whether a pod was woken and its cycle has not begun yet. That cycle will look at
// every node.
func (p *promises) awake(w waitingPod) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.byPod[w.pod.UID]
	if o == nil || w.begun.After(o.since) {
		return false
	}
	o.latest = time.Now()
	return true
}

// of returns the promises on a node, and creates them if necessary. The caller must have locked mu.
func (p *promises) of(node string) *promised {
	if p.byNode == nil {
		p.byNode = map[string]*promised{}
	}
	n := p.byNode[node]
	if n == nil {
		n = &promised{}
		p.byNode[node] = n
	}
	return n
}

// forget removes a node that has no objects any more.
func (p *promises) forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byNode, node)
}

// update brings view up to date. A pod that does not fit has no effect.
func (n *promised) update() {
	if n.base != n.current.View {
		n.base, n.view, n.placed = n.current.View, n.current.View, 0
	}
	for ; n.placed < len(n.pods); n.placed++ {
		if next, _, err := n.view.Place(n.pods[n.placed].pod); err == nil {
			n.view = next
		}
	}
}

// remove takes back the room of a promise, and reports whether there was any. The caller must have
// locked mu.
func (p *promises) remove(o *promise) bool {
	n := p.byNode[o.node]
	if n == nil {
		return false
	}
	had := len(n.pods)
	n.pods = slices.DeleteFunc(n.pods, func(other *promise) bool { return other == o })
	n.base = nil // The view is created again.
	return len(n.pods) < had
}

// placed ends the promise of a pod that has been assigned a node. It returns the node of the
// promise, and whether room was freed on that node because the pod went to a different one.
func (p *promises) placed(uid types.UID, node string) (other string, freed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.byPod[uid]
	if o == nil {
		return "", false
	}
	delete(p.byPod, uid)
	return o.node, p.remove(o) && o.node != node
}
