package cluster

import "sync/atomic"

// recent finds what is known of a node by the generation of the scheduler's cache. A look-up by
// name reads the name, the map and the name in it, and none of that is in a cache of the CPU if a
// cluster has thousands of nodes: it is most of what a known answer costs. Of two nodes in one slot
// one is looked up by name.
type recent [1 << 16]atomic.Pointer[At] // At 5,000 nodes, 7 % of them share a slot.

func (r *recent) slot(generation int64) *atomic.Pointer[At] {
	return &r[uint64(generation)%uint64(len(r))]
}

// find returns nil if the node has to be looked up.
func (r *recent) find(generation int64) *At {
	if at := r.slot(generation).Load(); at != nil && at.generation.Load() == generation && !at.replaced.Load() {
		return at
	}
	return nil
}

func (r *recent) keep(generation int64, at *At) {
	slot := r.slot(generation)
	slot.Store(at)
	if at.replaced.Load() { // Meanwhile; whoever did that may have been too early to forget it.
		slot.CompareAndSwap(at, nil)
	}
}

// forget lets the memory go of what is not known any more.
func (r *recent) forget(at *At) { r.slot(at.generation.Load()).CompareAndSwap(at, nil) }

// sighting is whether an At is what is known now. It is all that changes of an At.
type sighting struct {
	// generation is the one that the node had in the scheduler's cache when its state was compared.
	generation atomic.Int64
	// replaced: something else is known since.
	replaced atomic.Bool
}

// set makes at what is known of the node. The caller has the lock.
func (m *member) set(at *At) {
	old := m.at.Load()
	if old != nil {
		at.generation.Store(old.generation.Load())
	}
	at.replaced.Store(m.ended)
	m.at.Store(at)
	if old != nil {
		m.cluster.replace(old)
	}
}

func (c *Cluster) replace(at *At) {
	at.replaced.Store(true)
	c.recent.forget(at)
}

// end is for a node that has no objects any more.
func (m *member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.cluster.replace(m.at.Load())
}
