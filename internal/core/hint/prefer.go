package hint

import (
	"github.com/paddock-project/paddock/internal/core/mask"
)

// prefer is phase P: the fittest mask that is in every list and preferred in every list
// becomes m.best. A preferred result demands that all lists choose the same mask
// (R-HINT-51), so the lists' copies do not matter here.
func (m *merger) prefer() {
	nodes := m.rules.Nodes
	for i := range m.lists {
		nodes &= m.lists[i].Universe
		for _, e := range m.lists[i].Explicit {
			if m.allPrefer(e) {
				m.consider(e)
			}
		}
	}
	size, free := m.preferredSize()
	if nodes.IsEmpty() || size < 0 {
		return
	}
	if !free {
		m.onSockets(nodes, size, 0, 0, 0, nil)
		return
	}
	// Only socket rules: any size may be preferred, and the smallest wins.
	for size = 1; size <= nodes.Len() && (m.best == 0 || size <= m.best.Len()); size++ {
		m.onSockets(nodes, size, 0, 0, 0, nil)
		if m.best != 0 && m.best.Len() == size {
			return
		}
		if m.over {
			m.best = 0
			return
		}
	}
}

// preferredSize is the size that all lists without socket rule agree on, -1 where they
// do not agree; free where every list has a socket rule.
func (m *merger) preferredSize() (size int, free bool) {
	free = true
	for i := range m.lists {
		if f := &m.lists[i]; f.Sockets == nil {
			if !free && f.Preferred != size {
				return -1, false
			}
			size, free = f.Preferred, false
		}
	}
	if !free && size <= 0 {
		return -1, false
	}
	return size, free
}

// onSockets goes through the ways to choose the sockets on which masks of this size are
// preferred, for each list from list on whose rule has a say; socket is the next of that
// list's sockets to choose or not, chosen how many were. On a socket that is not chosen no
// node may be used, and each chosen one must be touched.
func (m *merger) onSockets(nodes mask.Mask, size, list, socket, chosen int, touch []mask.Mask) {
	if nodes.IsEmpty() || !m.spend(1) {
		return
	}
	if list == len(m.lists) {
		m.preferAmong(nodes, size, touch)
		return
	}
	f := &m.lists[list]
	if f.Sockets == nil || f.Preferred == size {
		m.onSockets(nodes, size, list+1, 0, 0, touch)
		return
	}
	sockets := f.Sockets.Sockets
	switch missing := f.Sockets.Count - chosen; {
	case missing < 0 || missing > len(sockets)-socket:
	case socket == len(sockets):
		m.onSockets(nodes, size, list+1, 0, 0, touch)
	default:
		s := sockets[socket]
		if s&nodes != 0 {
			m.onSockets(nodes, size, list, socket+1, chosen+1, append(touch, s))
		}
		m.onSockets(nodes&^s, size, list, socket+1, chosen, touch)
	}
}

// preferAmong considers the fittest mask of nodes with this size that every list holds
// and that has a node of each of touch.
func (m *merger) preferAmong(nodes mask.Mask, size int, touch []mask.Mask) {
	p := &m.problem
	p.reset(nodes)
	p.openBin(false)
	for i := range m.lists {
		if !p.constrain(&m.lists[i], nodes) {
			return
		}
	}
	for _, set := range touch {
		if !p.keepOneOf(set & nodes) {
			return
		}
	}
	p.finish()
	if size >= p.fewest() && size <= nodes.Len() {
		m.fittest(size)
	}
}
