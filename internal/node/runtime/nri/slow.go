package nri

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

const (
	// slowFor is how long a slow answer is reported.
	slowFor = 10 * time.Minute
	// patience is how long a runtime waits for an answer if it does not report that: the default of
	// NRI.
	patience = 2 * time.Second
)

// slowness has what came closest to the limit in the last slowFor. A node that is starved loses the
// plugin after a few such answers, and pods then start without CPUs of their own.
type slowness struct {
	mu sync.Mutex
	// limit is the plugin's own, and runtime is how long the runtime waits. Both are 0 until a
	// runtime has connected.
	limit, runtime time.Duration
	what           string
	took           time.Duration
	at             time.Time
}

// limits sets the limits of a connection. If runtime is 0, the runtime does not report how long it
// waits.
func (s *slowness) limits(limit, runtime time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit, s.runtime = limit, cmp.Or(runtime, patience)
}

// note takes in an answer. It is reported if it took more than half of the limit.
func (s *slowness) note(what string, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && 2*took > s.limit && (took > s.took || now.Sub(s.at) > slowFor) {
		s.what, s.took, s.at = what, took, now
	}
}

// Slow returns what came close to the time after which the runtime goes on without the agent, or
// nil if nothing did in the last ten minutes. Its text stays the same until something took longer.
func (p *Plugin) Slow() error {
	s := &p.slow
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || p.config.Now().Sub(s.at) > slowFor {
		return nil
	}
	return fmt.Errorf("at %s %s took %s of the %s that the agent has; after %s the runtime goes on without it, and pods start without CPUs of their own. "+
		"Find out whether the agent waits for CPU time, the kubelet or the disk, or raise the runtime's plugin_request_timeout and nri.timeout to less than half of it",
		s.at.UTC().Format(time.RFC3339), s.what, s.took.Round(10*time.Millisecond), s.limit, s.runtime)
}
