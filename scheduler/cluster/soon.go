package cluster

import (
	"time"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
)

// Soon is a node as it will be when its agent has published that pods are gone which were bound to
// it. A kubelet removes a pod after its containers have ended, and an agent publishes that within a
// second, also while other pods come and go. Until then the scheduler reserves nothing in the room
// of these pods: only the agent knows whether a pod that was deleted by force still runs. But it is
// too early to evict other pods for that room.
//
// A grant that stays published for World.PublishWithin counts as in use. Its pod was deleted by
// force and still runs, or its agent cannot write.
type Soon struct {
	View *memo.Node
	// Others are as those of an At.
	Others []*memo.Node
	Hidden fleet.Amounts
	// Until is when all published grants count as in use.
	Until time.Time
}

// Soon returns the node without the pods that are gone and still published, or nil if there are
// none.
func (a *At) Soon() *Soon {
	if a.soon == nil || !time.Now().Before(a.soon.Until) {
		return nil
	}
	return a.soon
}

// leaving has the pods that are gone and still published. rest is what the other hidden pods
// request.
type leaving struct {
	uids  []string
	rest  fleet.Amounts
	until time.Time
	// after is the node without them, where its kubelet decides: see leave.
	after *At
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

// now returns the pods, or nil if they count as in use again.
func (l *leaving) now() []string {
	if time.Now().Before(l.until) {
		return l.uids
	}
	return nil
}

// leave is called at the end of a comparison. Where a kubelet decides, what it makes of the pods
// that wait for it depends on those that are gone.
func (m *member) leave() {
	at := m.at.Load()
	if len(m.leaving.uids) == 0 || m.base == nil || at.View == nil || m.tried {
		return
	}
	m.leaving.after = m.withoutPods(m.leaving.uids, m.allocatable, m.used).at.Load()
	m.set(&At{View: at.View, Others: at.Others, Problem: at.Problem, Unsure: at.Unsure, Gates: at.Gates})
}

// soon returns the node without the pods that are leaving.
func (m *member) soon(at *At) *Soon {
	if len(m.leaving.uids) == 0 || at.View == nil {
		return nil
	}
	s := &Soon{View: at.View, Hidden: m.leaving.rest, Until: m.leaving.until}
	if m.source.Kubelet != nil {
		after := m.leaving.after
		if after == nil || after.View == nil || after.Problem != "" || after.Unsure != "" {
			return nil
		}
		s.View, s.Others = after.View, after.Others
		return s
	}
	state := at.View.State
	for _, uid := range m.leaving.uids {
		state = state.Release(uid)
	}
	if state != at.View.State {
		s.View = at.View.Next(state, m.used)
	}
	return s
}
