package hint

import (
	"github.com/paddock-project/paddock/internal/core/mask"
)

// agree is phase N: the best intersection of one mask from each list becomes m.best. It
// first finds the best count that any branch reaches, then the fittest mask with that
// count, so that a budget that ends in between leaves a mask of the right count.
func (m *merger) agree() {
	for i := range m.lists {
		m.wanted = max(m.wanted, m.narrowest(&m.lists[i]))
	}
	m.up = make([]int, len(m.lists))
	m.branch(0, m.rules.Nodes, (*merger).measure)
	if m.over {
		if m.best.Len() != m.wanted {
			m.best = 0
		}
		return
	}
	if m.best != 0 {
		m.branch(0, m.rules.Nodes, (*merger).refine)
	}
}

// branch visits the ways in which lists from i on can choose between their explicit
// masks and the part that is closed upwards, cutting nodes as it goes. Choosing an
// explicit mask twice changes nothing, and another copy that chooses from the closed part can
// only reach more, so that a list has one branch for each set of explicit masks that is
// not larger than its number of copies, with all other copies in the closed part or none.
func (m *merger) branch(i int, nodes mask.Mask, visit func(*merger, mask.Mask)) {
	if nodes.IsEmpty() || !m.spend(1) {
		return
	}
	if i == len(m.lists) {
		visit(m, nodes)
		return
	}
	f := &m.lists[i]
	m.up[i] = f.copies()
	m.branch(i+1, nodes&f.Universe, visit)
	m.explicit(i, 0, f.copies(), nodes, visit)
}

// explicit lets list i choose explicit masks from the given one on, for as many copies
// as there are.
func (m *merger) explicit(i, from, copies int, nodes mask.Mask, visit func(*merger, mask.Mask)) {
	f := &m.lists[i]
	for e := from; e < len(f.Explicit); e++ {
		cut := nodes & f.Explicit[e]
		if cut.IsEmpty() {
			continue
		}
		m.up[i] = 0
		m.branch(i+1, cut, visit)
		if copies > 1 {
			m.up[i] = copies - 1
			m.branch(i+1, cut&f.Universe, visit)
			m.explicit(i, e+1, copies-1, cut, visit)
		}
	}
}

// measure looks in one branch for a mask with a better count than m.best has. What can
// be reached in a branch is closed upwards, and all its nodes together can be reached:
// counts below the wanted one occur only where the branch has no more nodes.
func (m *merger) measure(nodes mask.Mask) {
	if m.best.Len() == m.wanted {
		return
	}
	if n := nodes.Len(); n <= m.wanted {
		if m.best == 0 || rank(n, m.wanted) < rank(m.best.Len(), m.wanted) {
			m.best = nodes
		}
		return
	}
	m.build(nodes)
	for size := m.wanted; size <= nodes.Len(); size++ {
		if m.best != 0 && rank(size, m.wanted) >= rank(m.best.Len(), m.wanted) {
			return
		}
		found, ok := m.feasible(query{size: size})
		if ok {
			m.best = found
		}
		if ok || m.over {
			return
		}
	}
}

// refine considers the fittest mask of one branch that has as many nodes as m.best.
func (m *merger) refine(nodes mask.Mask) {
	switch size := m.best.Len(); {
	case nodes.Len() == size:
		m.consider(nodes)
	case nodes.Len() < size || size < m.wanted:
	case m.rules.Distances == nil && lowest(nodes, size) >= m.best:
	default:
		m.build(nodes)
		m.fittest(size)
	}
}

// build states which masks the branch can reach (see the package comment, theorem 1):
// one bin for each copy of a list that chooses from the part that is closed upwards.
func (m *merger) build(nodes mask.Mask) {
	p := &m.problem
	p.reset(nodes)
	for i := range m.lists {
		f := &m.lists[i]
		for c := range min(m.up[i], nodes.Len()) {
			p.openBin(c > 0)
			p.constrain(f, f.Universe)
		}
	}
	p.finish()
}

// rank orders counts of masks that are not preferred: the wanted one, then those below
// it from high to low, then those above it from low to high (R-HINT-56).
func rank(count, wanted int) int {
	if count > wanted {
		return count
	}
	return wanted - count
}
