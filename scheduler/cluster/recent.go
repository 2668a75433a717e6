package cluster

import (
	"sync/atomic"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleet/memo"
)

// recent finds what is known of a node by its generation in the scheduler's cache. A look-up by
// name reads the name, the map and the name in the map. In a cluster of thousands of nodes, none of
// these is in a CPU cache, and reading them is most of the cost of a known answer. If two nodes
// share a slot, one of them is looked up by name.
type recent [1 << 16]atomic.Pointer[At] // At 5,000 nodes, 7 % of them share a slot.

func (r *recent) slot(generation int64) *atomic.Pointer[At] {
	return &r[uint64(generation)%uint64(len(r))]
}

// find returns nil if the node has to be looked up by name.
func (r *recent) find(generation int64) *At {
	if at := r.slot(generation).Load(); at != nil && at.generation.Load() == generation && !at.replaced.Load() {
		return at
	}
	return nil
}

func (r *recent) keep(generation int64, at *At) {
	slot := r.slot(generation)
	slot.Store(at)
	if at.replaced.Load() { // It was replaced meanwhile. The replacing goroutine may have called forget too early.
		slot.CompareAndSwap(at, nil)
	}
}

// forget removes an entry that is not current any more, so that its memory can be freed.
func (r *recent) forget(at *At) { r.slot(at.generation.Load()).CompareAndSwap(at, nil) }

// sighting records whether an At is current. It is the only part of an At that changes.
type sighting struct {
	// generation is the generation of the node in the scheduler's cache when its state was
	// compared.
	generation atomic.Int64
	// replaced is set when a newer At exists.
	replaced atomic.Bool
}

// answers has the last answers of an At to a few questions. The View has them too, with others, but
// elsewhere in memory, and thousands of nodes do not fit in a CPU cache.
type answers struct {
	takes  [fewQuestions]atomic.Pointer[memo.Question]
	priced [fewQuestions]atomic.Pointer[Priced]
}

// fewQuestions is the number of questions whose answers have a place of their own. With sighting,
// the places of takes fill a line of a CPU cache. Pods of a few workloads often come by turns.
const fewQuestions = 4

// Priced is what a pod costs on a node. Nodes with the same cost can share it.
type Priced struct {
	Question *memo.Question
	Cost     fleet.Cost
}

// Takes reports whether SetTakes was called for the question, and not for another one in its place
// since.
func (a *answers) Takes(q *memo.Question) bool {
	return a.takes[q.Number()%fewQuestions].Load() == q
}

// SetTakes remembers that the node takes the pods of a question, whatever else is known of it.
func (a *answers) SetTakes(q *memo.Question) { a.takes[q.Number()%fewQuestions].Store(q) }

// Price returns what was passed to SetPrice for a question, or nil if it is forgotten.
func (a *answers) Price(q *memo.Question) *Priced {
	if p := a.priced[q.Number()%fewQuestions].Load(); p != nil && p.Question == q {
		return p
	}
	return nil
}

// SetPrice remembers what the pods of a question cost.
func (a *answers) SetPrice(p *Priced) { a.priced[p.Question.Number()%fewQuestions].Store(p) }

// Current reports whether nothing else has become known of the node since.
func (s *sighting) Current() bool { return !s.replaced.Load() }

// set makes at the current knowledge of the node. The caller must have locked mu.
func (m *member) set(at *At) {
	old := m.at.Load()
	if old != nil {
		at.generation.Store(old.generation.Load())
	}
	at.replaced.Store(m.ended)
	at.Hidden, at.soon = m.hidden, m.soon(at)
	m.at.Store(at)
	if old != nil {
		m.cluster.replace(old)
	}
}

func (c *Cluster) replace(at *At) {
	at.replaced.Store(true)
	c.recent.forget(at)
}

// end is called when the node has no objects any more.
func (m *member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.cluster.replace(m.at.Load())
}
