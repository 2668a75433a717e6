package plugin

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/paddock-project/paddock/internal/fleet"
	"github.com/paddock-project/paddock/internal/fleet/memo"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// promiseTime is for how long the room of a pod that was woken is kept from others that wait. On an idle queue a pod is
// scheduled within milliseconds; one that is not by then has another reason to wait.
const promiseTime = 3 * time.Second

// promises are the pods that were woken for the room on a node. A thousand equal pods may wait, and room for one is no
// reason to try all of them. A promise decides who is woken and nothing else: Filter and Reserve do not know it.
type promises struct {
	mu     sync.Mutex
	byNode map[string]*promised
}

type promised struct {
	// view is base with the first placed of the pods.
	base, view *memo.Node
	placed     int
	pods       []promise
}

type promise struct {
	uid      types.UID
	priority int32
	pod      fleet.Pod
	until    time.Time
}

// wakes reports whether a waiting pod is woken for the room on a node. One that is nominated for the node, or of a
// higher priority than all that were woken, does not wait for them.
func (p *Plugin) wakes(w waitingPod, node string, at *cluster.At) bool {
	if !w.fits(at) {
		return false
	}
	i := w.asked.reading(at.Gates)
	if i < 0 || i >= len(w.asked.questions) {
		return true
	}
	now, priority := time.Now(), corev1helpers.PodPriority(w.pod)
	p.promises.mu.Lock()
	defer p.promises.mu.Unlock()
	n := p.promises.byNode[node]
	if n == nil {
		n = &promised{}
		if p.promises.byNode == nil {
			p.promises.byNode = map[string]*promised{}
		}
		p.promises.byNode[node] = n
	}
	n.remove(func(o promise) bool { return o.uid == w.pod.UID || now.After(o.until) })
	n.on(at.View)
	answer, _ := n.view.Answer(w.asked.questions[i])
	higher := !slices.ContainsFunc(n.pods, func(o promise) bool { return o.priority >= priority })
	if !answer.Fits && !higher && w.pod.Status.NominatedNodeName != node {
		return false
	}
	n.pods = append(n.pods, promise{w.pod.UID, priority, w.asked.pods[i], now.Add(promiseTime)})
	uid := w.pod.UID
	time.AfterFunc(promiseTime, func() {
		if p.promises.drop(node, uid) {
			p.wake(node)
		}
	})
	return true
}

// on brings the view up to date. A pod that does not fit there has no effect.
func (n *promised) on(base *memo.Node) {
	if n.base != base {
		n.base, n.view, n.placed = base, base, 0
	}
	for ; n.placed < len(n.pods); n.placed++ {
		if next, _, err := n.view.Place(n.pods[n.placed].pod); err == nil {
			n.view = next
		}
	}
}

// remove reports whether it removed any pods.
func (n *promised) remove(which func(promise) bool) bool {
	had := len(n.pods)
	n.pods = slices.DeleteFunc(n.pods, which)
	if len(n.pods) == had {
		return false
	}
	n.base = nil // The view begins again.
	return true
}

// drop takes a promise back, and reports whether there was one.
func (p *promises) drop(node string, uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.byNode[node]
	if n == nil {
		return false
	}
	gone := n.remove(func(o promise) bool { return o.uid == uid })
	if len(n.pods) == 0 {
		delete(p.byNode, node)
	}
	return gone
}

// placed drops the promises of a pod that has a node, and returns the other nodes that had room for it.
func (p *promises) placed(uid types.UID, node string) []string {
	p.mu.Lock()
	var nodes []string
	for name, n := range p.byNode {
		if slices.ContainsFunc(n.pods, func(o promise) bool { return o.uid == uid }) {
			nodes = append(nodes, name)
		}
	}
	p.mu.Unlock()
	for _, name := range nodes {
		p.drop(name, uid)
	}
	return slices.DeleteFunc(nodes, func(name string) bool { return name == node })
}
