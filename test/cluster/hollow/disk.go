package hollow

import (
	"sync"
	"time"
)

// marks stores the time of the last answer to the runtime: see agent.Marks.
type marks struct {
	mu sync.Mutex
	at time.Time
}

// Mark stores a time.
func (m *marks) Mark(at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
	return nil
}

// Marked returns the time that was stored last.
func (m *marks) Marked() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}
