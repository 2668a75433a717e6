package cluster

import (
	"time"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
)

// Soon is a node as it will be when its agent has published that pods are gone which were bound to
// it. A kubelet removes a pod after its containers have ended, and an agent publishes that within a
// second, also while other pods come and go. Until then the scheduler reserves nothing in the room of
// these pods: only the agent knows whether a pod that was deleted by force still runs. But it is too
// early to evict other pods for that room.
//
// A grant that stays published for World.PublishWithin counts as in use. Its pod was deleted by force
// and still runs, or its agent cannot write.
type Soon struct {
	View   *memo.Node
	Hidden fleet.Amounts
	// Until is when all published grants count as in use.
	Until time.Time
}

// Soon returns the node without the pods that are gone and still published, or nil if there are
// none. A node whose kubelet decides has none: what its kubelet has released follows from Others.
func (a *At) Soon() *Soon {
	if a.soon == nil || !time.Now().Before(a.soon.Until) {
		return nil
	}
	return a.soon
}

// leaving has the pods that are gone and still published. rest is what the other hidden pods request.
type leaving struct {
	uids  []string
	rest  fleet.Amounts
	until time.Time
}

// add adds a pod, unless its grant has been published for too long.
func (l *leaving) add(uid string, h *held, now time.Time, within time.Duration) {
	if until := h.gone.Add(within); !h.gone.IsZero() && until.After(now) {
		l.uids = append(l.uids, uid)
		if until.After(l.until) {
			l.until = until
		}
		return
	}
	l.rest = l.rest.Plus(*h.totals)
}

// soon returns the node without the pods that are leaving.
func (m *member) soon(at *At) *Soon {
	if len(m.leaving.uids) == 0 || m.source.Kubelet != nil || at.View == nil {
		return nil
	}
	state := at.View.State
	for _, uid := range m.leaving.uids {
		state = state.Release(uid)
	}
	s := &Soon{View: at.View, Hidden: m.leaving.rest, Until: m.leaving.until}
	if state != at.View.State {
		s.View = at.View.Next(state, m.used)
	}
	return s
}
