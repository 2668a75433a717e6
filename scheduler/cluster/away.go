package cluster

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// agent is what the comparisons of a node have seen of its agent.
type agent struct {
	seen bool      // it was ready once
	away time.Time // when it was first found not to be ready. Zero means that it is ready.
}

// missesAgent reports whether what the agent of the node published does not count, because the agent
// is not ready. An agent that this process has never seen ready may have been away for days.
func (m *member) missesAgent(pods []*v1.Pod) bool {
	switch {
	case m.cluster.world.AgentReady(pods):
		m.agent = agent{seen: true}
		return false
	case m.source.Kubelet == nil || !m.agent.seen:
		return true
	case m.agent.away.IsZero():
		m.agent.away = time.Now()
		time.AfterFunc(m.cluster.world.AgentAway, m.afterAgent)
	}
	return time.Since(m.agent.away) >= m.cluster.world.AgentAway
}

// afterAgent makes the node unsure if its agent is still away.
func (m *member) afterAgent() {
	m.mu.Lock()
	over := !m.ended && !m.agent.away.IsZero() && time.Since(m.agent.away) >= m.cluster.world.AgentAway
	if over {
		m.check(m.cluster.world.Pods(m.name))
	}
	m.mu.Unlock()
	if over {
		m.cluster.world.Wake(m.name)
	}
}
