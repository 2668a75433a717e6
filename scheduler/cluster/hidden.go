package cluster

import (
	"time"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// hide sums up the requests of the pods that the node has published and the API server does not
// show: static pods without a mirror pod, and pods that are gone and still published. The kubelet
// counts the first, and the scheduler counts none of them.
func (m *member) hide(now time.Time) {
	m.hidden, m.leaving = fleet.Amounts{}, leaving{}
	for uid, h := range m.pods {
		if h.origin != shown.Published || h.bound == m.comparisons || h.reported == nil {
			continue
		}
		if pod := &h.reported.Pod; !m.cluster.world.Exists(pod.Namespace, pod.Name, uid) {
			if h.totals == nil {
				totals := pod.Totals()
				h.totals = &totals
			}
			m.hidden = m.hidden.Plus(*h.totals)
			m.leaving.add(uid, h, now, m.cluster.world.PublishWithin)
		}
	}
}
