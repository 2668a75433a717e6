package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-project/paddock/test/e2e/sampler"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// sampling is the time between two reads of the cgroups of containers and their pods.
const sampling = 10 * time.Millisecond

// samples has the sampler that runs, if any.
type samples struct {
	mu      sync.Mutex
	stop    chan struct{}
	sampler *sampler.Sampler
	begun   time.Time
	// failed is the error of a look that failed.
	failed error
}

// begin starts a new sampler. Earlier samples are dropped.
func (s *samples) begin(in wire.Sample) (wire.Nothing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := sampler.New(here, in.Own)
	if err != nil {
		return wire.Nothing{}, err
	}
	if s.sampler != nil {
		close(s.stop)
		err = s.sampler.Close()
	}
	s.stop, s.sampler, s.begun, s.failed = make(chan struct{}), next, time.Now(), nil
	go s.run(s.stop)
	return wire.Nothing{}, err
}

// run samples until stop is closed. It runs at a higher priority than most other programs, which
// would delay it on an emulated CPU.
func (s *samples) run(stop chan struct{}) {
	runtime.LockOSThread() // The thread ends with this goroutine.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.stop == stop && s.failed == nil {
			s.failed = s.sampler.Look(time.Since(s.begun))
		}
		s.mu.Unlock()
	}
}

// sampled returns what was seen until now.
func (s *samples) sampled(wire.Nothing) (wire.Sampled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sampler == nil {
		return wire.Sampled{}, errors.New("nothing is sampled: run sample before")
	}
	if s.failed != nil {
		return wire.Sampled{}, fmt.Errorf("sampling ended: %w", s.failed)
	}
	seen := s.sampler.Seen()
	seen.Begun = s.begun
	return seen, nil
}
