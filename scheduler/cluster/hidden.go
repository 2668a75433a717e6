package cluster

import (
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
)

// hide sums up the requests of the pods that the node has published and the API server does not
// show: static pods without a mirror pod. The kubelet counts them, and the scheduler does not.
func (m *member) hide() {
	m.hidden = fleet.Amounts{}
	for uid, h := range m.pods {
		if h.origin != fleetsource.Published || h.bound == m.comparisons || h.reported == nil {
			continue
		}
		if pod := &h.reported.Pod; !m.cluster.world.Exists(pod.Namespace, pod.Name, uid) {
			if h.totals == nil {
				totals := pod.Totals()
				h.totals = &totals
			}
			m.hidden = m.hidden.Plus(*h.totals)
		}
	}
}
