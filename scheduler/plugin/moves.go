package plugin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// moveTime is for how long a node that moves running pods for one pod gets no other pod that needs
// moves: as long as the node keeps the place that it makes.
const moveTime = 2 * time.Minute

// movers are the nodes that make room for a pod by moving others. The pod is bound there, and has
// no grant until the node has planned it.
type movers struct {
	mu     sync.Mutex
	byNode map[string]mover
}

type mover struct {
	uid   types.UID
	until time.Time
}

// take notes that a node makes room for a pod.
func (m *movers) take(node string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byNode == nil {
		m.byNode = map[string]mover{}
	}
	m.byNode[node] = mover{uid, time.Now().Add(moveTime)}
}

// busy reports whether a node makes room for another pod.
func (m *movers) busy(node string, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, there := m.byNode[node]
	if there && time.Now().After(at.until) {
		delete(m.byNode, node)
		return false
	}
	return there && at.uid != uid
}
