package plugin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// moveTime is how long a node that moves running pods for one pod gets no other pod that needs
// moves. It is the time for which the node reserves the room that it makes.
const moveTime = 2 * time.Minute

// movers represents the nodes that move pods to make room for another pod. That pod is bound to the
// node, and has no grant until the node has planned it.
type movers struct {
	mu     sync.Mutex
	byNode map[string]mover
}

type mover struct {
	uid   types.UID
	until time.Time
}

// take records that a node makes room for a pod.
func (m *movers) take(node string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byNode == nil {
		m.byNode = map[string]mover{}
	}
	m.byNode[node] = mover{uid, time.Now().Add(moveTime)}
}

// busy reports whether a node makes room for a pod other than uid.
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
