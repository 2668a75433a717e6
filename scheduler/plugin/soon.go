package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// publishedSoon is the reason for a node that has room for the pod once its agent has published
// that other pods are gone.
const publishedSoon = "node(s): the Paddock agent has not published yet that pods are gone"

// soonest is when nodes that fitsSoon cease to count: cluster.Soon.Until of the first of them. The
// zero value means that there is none.
type soonest struct {
	mu sync.Mutex
	at time.Time
}

func (s *soonest) add(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || t.Before(s.at) {
		s.at = t
	}
}

func (s *soonest) get() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// fitsSoon reports whether a node that does not take the pod will take it when its agent has
// published which pods are gone. The publication wakes the pod. Preemption has counted the pods
// that are gone already: the node is not asked for a second one.
func (p *Plugin) fitsSoon(c *cycle, g *gang, at *cluster.At, i int, info fwk.NodeInfo) bool {
	if g != nil || c.chosen != nil { // The attempts of a group have nodes of their own.
		return false
	}
	soon := at.Soon()
	if soon == nil || short(soon.Hidden, info, c.asked.pods[i].Asks) != "" {
		return false
	}
	for _, view := range append([]*memo.Node{soon.View}, soon.Others...) {
		if answer, _ := view.Answer(c.asked.questions[i]); !answer.Fits || answer.AfterMoves {
			return false
		}
	}
	c.soonest.add(soon.Until)
	return true
}

// PostFilter keeps preemption from evicting pods while a node has room for the pod that its agent
// has not published yet. A publication wakes the pod. A pod waits for Agents.PublishWithin in all,
// whatever nodes have such room in that time: where pods come and go without a pause, some node can
// always have it. Then other pods are evicted as usual, and the pod can wait again after that.
//
// It must run before DefaultPreemption. Otherwise it has no effect, and preemption can evict pods
// on other nodes.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := of(state)
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	within := p.settings.publishWithin
	wait, again := p.waiting.postpone(pod.UID, time.Now(), c.soonest.get(), within)
	if !again.IsZero() {
		time.AfterFunc(time.Until(again), func() { p.retry(pod, again) })
	}
	if wait {
		postponed.Inc()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("preemption: waits at most %s for the Paddock agents to publish that pods are gone", within))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// postpone reports whether a pod must not preempt others yet, given that a node that it fits on
// soon counts until a time, or never if that is zero. again is when the pod has to be tried if
// nothing else wakes it; it is zero if it is known already or if there is no such time.
func (w *waiting) postpone(uid types.UID, now, until time.Time, within time.Duration) (wait bool, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.pods[uid]
	if !ok {
		return false, time.Time{}
	}
	before := p.again
	if p.postponed.IsZero() {
		p.postponed = now
	}
	limit := p.postponed.Add(within)
	if wait = !until.IsZero() && now.Before(limit); !wait {
		p.postponed, p.again = time.Time{}, until
	} else if p.again = until; limit.Before(until) {
		p.again = limit
	}
	w.pods[uid] = p
	if p.again.Equal(before) {
		return wait, time.Time{}
	}
	return wait, p.again
}

// retry wakes a pod that waits for a publication that did not come.
func (p *Plugin) retry(pod *v1.Pod, again time.Time) {
	if p.waiting.due(pod.UID, again) {
		p.activate(pod)
	}
}

// due reports whether a pod still waits for a time that postpone returned, and forgets the time.
func (w *waiting) due(uid types.UID, again time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.pods[uid]
	if !ok || !p.again.Equal(again) {
		return false
	}
	p.again = time.Time{}
	w.pods[uid] = p
	return true
}
