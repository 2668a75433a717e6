package plugin

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/scheduler/cluster"
)

const (
	// failureTime is how long a node on which Reserve failed is not tried again for the same pod.
	// Usually something changes before. A change that is not seen wakes no pod: the scheduler tries
	// a pod that waits after about 5 minutes at the latest, when the failure has ended.
	failureTime = time.Minute
	// maxFailures is the number of nodes that are remembered for one pod. With more of them, the
	// oldest are forgotten, and tryOthers begins no more cycles: they would try these again.
	maxFailures = 256
)

// failures remembers the nodes on which Reserve failed although Filter took them, because the devices
// of the pod's claims are near other NUMA nodes than Filter expected. Without it, the same node
// could be chosen in every cycle. A failure counts until the node changes, until a claim changes, and
// for failureTime at most.
type failures struct {
	mu    sync.Mutex
	byPod map[types.UID]map[string]failure
}

type failure struct {
	at  *cluster.At // what was known of the node
	why string
	end time.Time
}

// add remembers that a node did not take a pod. It reports false if it had to forget another node.
func (m *failures) add(uid types.UID, node string, at *cluster.At, why string) (all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byPod == nil {
		m.byPod = map[types.UID]map[string]failure{}
	}
	nodes := m.byPod[uid]
	if nodes == nil {
		nodes = map[string]failure{}
		m.byPod[uid] = nodes
	}
	_, known := nodes[node]
	if all = known || len(nodes) < maxFailures; !all {
		oldest := ""
		for name := range nodes {
			if oldest == "" || nodes[name].end.Before(nodes[oldest].end) {
				oldest = name
			}
		}
		delete(nodes, oldest)
	}
	nodes[node] = failure{at, why, time.Now().Add(failureTime)}
	return all
}

// of returns the nodes that are not to be tried for a pod in the cycle that begins. It is nil for
// nearly all pods.
func (m *failures) of(uid types.UID) map[string]failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.byPod[uid], func(_ string, s failure) bool { return now.After(s.end) || !s.at.Current() })
	if len(m.byPod[uid]) == 0 {
		delete(m.byPod, uid)
		return nil
	}
	return maps.Clone(m.byPod[uid])
}

// forget is called when the claims or their devices may have changed, and when the pod has a node
// or is gone.
func (m *failures) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byPod, uid)
}
