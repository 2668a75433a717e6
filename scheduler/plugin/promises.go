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
	// promiseTime is for how long the room of a pod that was woken is kept from others that wait.
	// On an idle queue a pod is scheduled within milliseconds; one that is not by then has another
	// reason to wait.
	promiseTime = 3 * time.Second
	// snapshotAge is more than the age of the snapshot with which a scheduling cycle begins.
	snapshotAge = time.Second
	// activations is how often a pod is activated for one promise. The queue ignores an activation
	// of a pod that is being scheduled. A pod that another plugin rejects before this one sees it
	// is not activated forever.
	activations = 3
)

// promises are the pods that were woken. A thousand equal pods may wait, and room for one is no
// reason to try all of them. A thousand nodes may have room, and one is enough to wake a pod: its
// cycle looks at all of them. So a pod has one promise at a time, until its next cycle. A promise
// decides which pods are woken and nothing else: Filter and Reserve do not know it.
type promises struct {
	mu     sync.Mutex
	byNode map[string]*promised
	// byPod has the last promise of each pod.
	byPod map[types.UID]*promise
	// queue has all promises in the order in which they end. A timer runs while there are any.
	queue []*promise
}

// promised is what is known of a node.
type promised struct {
	// current is the node without promises, and changed is when it became so.
	current *cluster.At
	changed time.Time
	// view is base with the first placed of the pods.
	base, view *memo.Node
	placed     int
	pods       []*promise
}

type promise struct {
	uid types.UID
	// node is empty for a pod that is activated again and has no room promised.
	node     string
	priority int32
	pod      fleet.Pod
	// since is when the pod was woken, latest is when it was last passed over because of this
	// promise.
	since, latest, until time.Time
	activations          int
}

// wakes reports whether a waiting pod is woken for the room on a node, and promises the room to it.
// One that is nominated for the node, or of a higher priority than all that were woken, does not
// wait for them.
func (p *Plugin) wakes(w waitingPod, node string, at *cluster.At) bool {
	if p.promises.awake(w) || !w.fits(at) {
		return false
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
		return false // The pod was tried with this room. Another plugin has a reason against it.
	}
	if old := p.promises.byPod[w.pod.UID]; old != nil && old.node == node {
		p.promises.remove(old)
	}
	n.update()
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

// add is called with the lock.
func (p *promises) add(made *promise) {
	if p.byPod == nil {
		p.byPod = map[types.UID]*promise{}
	}
	p.byPod[made.uid] = made
	p.queue = append(p.queue, made)
}

// activated is for pods that were activated and may have been in a cycle: without a cycle since
// they are activated again.
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

// expire ends promises. Pods that did not use the room are activated again if no cycle of theirs
// has begun since, and other pods are woken for it.
func (p *Plugin) expire() {
	pods, nodes := p.endPromises(time.Now())
	if len(pods) > 0 {
		p.handle.Activate(klog.Background(), pods)
	}
	for node := range nodes {
		p.wake(node)
	}
}

// endPromises ends those that end by now, and returns the pods to activate again, by namespace and
// name, and the nodes that have more room for others.
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

// awake reports whether a pod was woken and its cycle has not begun: that cycle will look at every
// node.
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

// of is called with the lock.
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

// forget is for a node that has no objects any more.
func (p *promises) forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byNode, node)
}

// update makes the view. A pod that does not fit there has no effect.
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

// remove takes the room of a promise back, and reports whether there was any. It is called with the
// lock.
func (p *promises) remove(o *promise) bool {
	n := p.byNode[o.node]
	if n == nil {
		return false
	}
	had := len(n.pods)
	n.pods = slices.DeleteFunc(n.pods, func(other *promise) bool { return other == o })
	n.base = nil // The view begins again.
	return len(n.pods) < had
}

// placed ends the promise of a pod that has a node. If it was promised room on another one it
// returns that.
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
