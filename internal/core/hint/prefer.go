package hint

import "github.com/paddock-project/paddock/internal/core/mask"

// prefer is the first phase. It sets m.best to the fittest mask that every set has and prefers. A
// preferred result requires that all lists choose the same mask (R-HINT-51), so copies do not
// matter here.
func (m *merger) prefer() {
	nodes := m.rules.Nodes
	for i := range m.sets {
		nodes &= m.sets[i].Candidates
		for _, e := range m.sets[i].Explicit {
			if allPrefer(m.sets, e) {
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
	// All sets have socket rules: any size can be preferred, and the smallest wins.
	for size = 1; size <= nodes.Len() && (m.best == 0 || size <= m.best.Len()); size++ {
		m.onSockets(nodes, size, 0, 0, 0, nil)
		if m.best != 0 && m.best.Len() == size {
			return
		}
		if m.Over() {
			m.best = 0
			return
		}
	}
}

// preferredSize returns the size that all sets without a socket rule prefer, or -1 if they prefer
// different sizes. free is true if every set has a socket rule.
func (m *merger) preferredSize() (size int, free bool) {
	free = true
	for i := range m.sets {
		if s := &m.sets[i]; s.Sockets == nil {
			if !free && s.Preferred != size {
				return -1, false
			}
			size, free = s.Preferred, false
		}
	}
	if !free && size <= 0 {
		return -1, false
	}
	return size, free
}

// onSockets tries the ways to choose the sockets on which masks of this size are preferred, for
// each set from number set on whose socket rule matters. socket is the next socket of that set to
// choose or to skip, and chosen is the number of chosen sockets. A mask has NUMA nodes on each
// chosen socket and on no other.
func (m *merger) onSockets(nodes mask.Mask, size, set, socket, chosen int, touch []mask.Mask) {
	if nodes.IsEmpty() || !m.Spend(1) {
		return
	}
	if set == len(m.sets) {
		m.preferAmong(nodes, size, touch)
		return
	}
	rule := m.sets[set].Sockets
	if rule == nil || m.sets[set].Preferred == size {
		m.onSockets(nodes, size, set+1, 0, 0, touch)
		return
	}
	switch missing := rule.Count - chosen; {
	case missing < 0 || missing > len(rule.Sockets)-socket:
	case socket == len(rule.Sockets):
		m.onSockets(nodes, size, set+1, 0, 0, touch)
	default:
		s := rule.Sockets[socket]
		if s&nodes != 0 {
			m.onSockets(nodes, size, set, socket+1, chosen+1, append(touch, s))
		}
		m.onSockets(nodes&^s, size, set, socket+1, chosen, touch)
	}
}

// preferAmong considers the fittest mask of this size, out of nodes, that every set has and that
// has a NUMA node of each mask in touch.
func (m *merger) preferAmong(nodes mask.Mask, size int, touch []mask.Mask) {
	required := mask.Mask(0)
	for i := range m.sets {
		required |= m.sets[i].Required
	}
	p := &m.Problem
	p.Reset(nodes)
	p.AddBin(nodes&^required, false)
	for i := range m.sets {
		if !constrain(p, &m.sets[i], nodes) {
			return
		}
	}
	for _, socket := range touch {
		if !keepOneOf(p, socket&nodes) {
			return
		}
	}
	p.Finish()
	if size <= nodes.Len() {
		m.considerFittest(size)
	}
}
