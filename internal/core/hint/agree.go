package hint

import "github.com/paddock-project/paddock/internal/core/mask"

// agree is the second phase: the best intersection of one mask from each list becomes m.best. It
// first finds the best size that any branch reaches, then the fittest mask of that
// size, so that a budget that ends in between leaves a mask of the right size.
func (m *merger) agree() {
	for i := range m.sets {
		if s := &m.sets[i]; !s.fitsOn(m.wanted) { // One set that needs many NUMA nodes spares the search for the others.
			size, _ := narrowest(m.Search, s)
			m.wanted = max(m.wanted, size)
		}
	}
	m.closed = make([]int, len(m.sets))
	m.branch(0, m.rules.Nodes)
	if m.Over() {
		if m.best.Len() != m.wanted {
			m.best = 0
		}
		return
	}
	if m.best != 0 {
		m.refining = true
		m.branch(0, m.rules.Nodes)
	}
}

// branch measures or refines the ways in which sets from i on can choose between their explicit
// masks and their upward closed part, cutting nodes as it goes. To choose an explicit mask
// twice changes nothing, and another copy that chooses from the closed part can only reach
// more. So a set has one branch for each choice of at most as many explicit masks as it has
// copies, with all other copies in the closed part or none.
func (m *merger) branch(i int, nodes mask.Mask) {
	if nodes.IsEmpty() || !m.Spend(1) {
		return
	}
	if i == len(m.sets) {
		if m.refining {
			m.refine(nodes)
		} else {
			m.measure(nodes)
		}
		return
	}
	s := &m.sets[i]
	m.closed[i] = s.copies()
	m.branch(i+1, nodes&s.Candidates)
	m.explicit(i, 0, s.copies(), nodes)
}

// explicit lets set i choose explicit masks from the given one on, for as many copies
// as are left.
func (m *merger) explicit(i, from, copies int, nodes mask.Mask) {
	s := &m.sets[i]
	for e := from; e < len(s.Explicit); e++ {
		cut := nodes & s.Explicit[e]
		if cut.IsEmpty() {
			continue
		}
		m.closed[i] = 0
		m.branch(i+1, cut)
		if copies > 1 {
			m.closed[i] = copies - 1
			m.branch(i+1, cut&s.Candidates)
			m.explicit(i, e+1, copies-1, cut)
		}
	}
}

// measure looks in one branch for a mask with a better size than m.best has. A branch reaches all
// its NUMA nodes together, and all sizes from some on (theorem 2 of the package comment): sizes
// below the wanted one count only where the branch has no more NUMA nodes.
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
	// One set takes the NUMA nodes that it requires, often those of given devices, and each other
	// one all its candidates. The search finds such a mask too, and costs more.
	for i := range m.sets {
		s := &m.sets[i]
		if m.closed[i] > 0 && s.Required.Len() == m.wanted && nodes.Contains(s.Required) && s.fits(s.Required) &&
			(m.best.Len() != m.wanted || s.Required < m.best) {
			m.best = s.Required
		}
	}
	if m.best.Len() == m.wanted {
		return
	}
	m.build(nodes)
	for size := m.wanted; size <= nodes.Len(); size++ {
		if m.best != 0 && rank(size, m.wanted) >= rank(m.best.Len(), m.wanted) {
			return
		}
		found, ok := m.Any(size)
		if ok {
			m.best = found
		}
		if ok || m.Over() {
			return
		}
	}
}

// refine considers the fittest mask of one branch that has the size of m.best.
func (m *merger) refine(nodes mask.Mask) {
	switch size := m.best.Len(); {
	case nodes.Len() == size:
		m.consider(nodes)
	case nodes.Len() < size || size < m.wanted:
	case m.rules.Distances == nil && nodes.First(size) >= m.best:
	default:
		m.build(nodes)
		m.considerFittest(size)
	}
}

// build states which masks the branch can reach (theorem 1 of the package comment): one bin
// for each copy of a set that chooses from its upward closed part.
func (m *merger) build(nodes mask.Mask) {
	p := &m.Problem
	p.Reset(nodes)
	for i := range m.sets {
		s := &m.sets[i]
		for c := range min(m.closed[i], nodes.Len()) {
			p.AddBin(nodes&^s.Required, c > 0)
			constrain(p, s, s.Candidates)
		}
	}
	p.Finish()
}

// rank orders sizes of masks that are not preferred: the wanted one, then those below
// it from high to low, then those above it from low to high (R-HINT-56).
func rank(size, wanted int) int {
	if size > wanted {
		return size
	}
	return wanted - size
}
