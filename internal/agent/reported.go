package agent

import (
	"sync/atomic"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// reported provides the assignments that are in force to the PodResources API and the gauges. It
// never blocks.
type reported struct {
	engine *engine.Engine
	status func() *nri.Status
	last   atomic.Pointer[reduction]
}

// reduction is a snapshot without the grants that are not in force.
type reduction struct {
	of      *engine.Snapshot
	status  *nri.Status
	reduced *engine.Snapshot
}

// Snapshot returns nil while another manager assigns CPUs on this node, because no assignment is in
// force then.
func (r *reported) Snapshot() *engine.Snapshot {
	snapshot, status := r.engine.Snapshot(), r.status()
	switch {
	case status.Unmanaged != nil:
		return nil
	case len(status.Unenforced) == 0:
		return snapshot
	}
	if last := r.last.Load(); last != nil && last.of == snapshot && last.status == status {
		return last.reduced
	}
	reduced := *snapshot
	for uid := range status.Unenforced {
		reduced.State = reduced.State.Release(uid)
	}
	reduced.State = reduced.State.Resume(snapshot.State.Generation())
	r.last.Store(&reduction{snapshot, status, &reduced})
	return &reduced
}

// State returns the state of Snapshot, or nil if there is none.
func (r *reported) State() *node.State {
	if s := r.Snapshot(); s != nil {
		return s.State
	}
	return nil
}

// Unmanaged returns the reason why nothing is reported. It returns nil if everything in force is
// reported.
func (r *reported) Unmanaged() error { return r.status().Unmanaged }
