package memo

import (
	"sync"
	"sync/atomic"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// shapes finds what nodes with the same free have in common. Most nodes of a cluster have the same
// machine and the same policy, and many of them are empty, full, or have the same pods.
type shapes struct {
	// rare is set if few nodes have the shape of another one. Then only some look for it. turn
	// counts the nodes that would look.
	rare atomic.Bool
	turn atomic.Uint32

	mu    sync.Mutex
	known map[fleet.Likeness]*shape
	// asked is the number of nodes that looked lately, and found that of those whose shape was
	// known.
	asked, found int
}

const (
	// someNodes is the part of the nodes that look for their shape while shapes are rare. To look
	// takes about half a microsecond for each state of a node, a third of an answer.
	someNodes = 8
	// lately is the number of nodes after which it is decided whether shapes are rare.
	lately = 512
)

// shape has the answers of nodes that have the same free.
type shape struct {
	newest atomic.Pointer[answered]
	costs  atomic.Pointer[entry[basis, fleet.Cost]]
	// common is set if a second node has the shape. Until then nothing is kept here, so that a
	// fleet of nodes that all differ does not pay for it.
	common atomic.Bool
}

// basis is a question with all on which its cost depends beside the shape.
type basis struct {
	question *Question
	fleet.Basis
}

// maxShapes is the number of shapes that are found. If there are more, nodes keep those that they
// have, and the others are forgotten. At 32 answers and costs each, they take at most 50 MB, and
// usually a tenth of that.
const maxShapes = 4096

// like returns the shape of the node. A node that shares no answers with others has one for itself.
func (n *Node) like(q *Question) *shape {
	if s := n.shape.Load(); s != nil {
		return s
	}
	s := &shape{}
	if all := q.shapes; !all.rare.Load() || all.turn.Add(1)%someNodes == 0 {
		if l, is := n.Likeness(); is {
			s = all.of(l, s)
		}
	}
	if !n.shape.CompareAndSwap(nil, s) {
		s = n.shape.Load()
	}
	return s
}

// of returns the shape with a likeness, which is empty if the likeness is not known.
func (all *shapes) of(l fleet.Likeness, empty *shape) *shape {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.asked++; all.asked >= lately {
		all.rare.Store(all.found*someNodes < all.asked)
		all.asked, all.found = all.asked/2, all.found/2
	}
	if s, known := all.known[l]; known {
		all.found++
		s.common.Store(true)
		return s
	}
	if all.known == nil || len(all.known) >= maxShapes {
		all.known = map[fleet.Likeness]*shape{}
	}
	all.known[l] = empty
	return empty
}

// cost returns the cost that another node with the same amounts has.
func (s *shape) cost(q *Question, v *fleet.View) (fleet.Cost, bool) {
	for k := s.costs.Load(); k != nil; k = k.older {
		if k.key.question == q && k.key.Equal(v.Basis()) {
			return k.value, true
		}
	}
	return fleet.Cost{}, false
}
