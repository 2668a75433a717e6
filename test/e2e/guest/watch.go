package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/paddock-project/paddock/test/e2e/sampler"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// look is the time between two reads of the CPUs of every container. A read takes about 20 ms on an
// emulated CPU.
const look = 200 * time.Millisecond

// here has the paths of the node's files.
var here = sampler.Here()

// watch reads the CPUs of every running container regularly.
type watch struct {
	mu   sync.Mutex
	stop chan struct{}
	seen wire.Watched
	// containers are those of seen, by ID. A nil value means that the ID is not a container.
	containers map[string]*wire.WatchedContainer
}

// begin starts a new watch and ends an earlier one.
func (w *watch) begin(wire.Nothing) (wire.Nothing, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		close(w.stop)
	}
	w.stop, w.seen, w.containers = make(chan struct{}), wire.Watched{}, map[string]*wire.WatchedContainer{}
	go w.run(w.stop)
	return wire.Nothing{}, nil
}

func (w *watch) run(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(look):
		}
		if dirs, err := containerDirs(); err == nil {
			w.note(stop, dirs)
		}
	}
}

// watched returns what was seen, sorted by pod and container.
func (w *watch) watched(wire.Nothing) (wire.Watched, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := wire.Watched{Looks: w.seen.Looks}
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		if c := w.containers[id]; c != nil && len(c.Stays) > 0 {
			copied := *c
			copied.Stays = slices.Clone(c.Stays)
			seen.Containers = append(seen.Containers, copied)
		}
	}
	return seen, nil
}

func (w *watch) note(stop chan struct{}, dirs map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != stop {
		return
	}
	w.seen.Looks++
	for id, dir := range dirs {
		c, known := w.containers[id]
		if !known {
			found, ready := here.Identify(id)
			if !ready {
				continue
			}
			if found != nil {
				c = &wire.WatchedContainer{ID: id, Pod: found.Pod, Name: found.Name}
			}
			w.containers[id] = c
		}
		if c == nil || !here.Runs(dir) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "cpuset.cpus.effective"))
		cpus := trim(data)
		if err != nil || cpus == "" {
			continue
		}
		if n := len(c.Stays); n == 0 || c.Stays[n-1].CPUs != cpus {
			c.Stays = append(c.Stays, wire.Stay{CPUs: cpus, First: w.seen.Looks})
		}
		c.Stays[len(c.Stays)-1].Last = w.seen.Looks
	}
}
