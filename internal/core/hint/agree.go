package hint

import "github.com/paddock-project/paddock/internal/core/mask"

// agree is the second phase. It sets m.best to the best intersection of one mask from each list. It
// first finds the best size that any branch reaches, then the fittest mask of that size. If the
// budget ends in between, it leaves a mask of the right size.
func (m *merger) agree() {
	for i := range m.sets {
		if s := &m.sets[i]; !s.fitsOn(m.wanted) { // One set that needs many NUMA nodes makes the search unnecessary for the others.
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

// branch goes through the ways in which the sets from i on can choose between their explicit masks
// and their upward closed parts. It cuts nodes on the way and measures or refines the result.
// Choosing an explicit mask twice changes nothing, and another copy that chooses from the closed
// part can only reach more. So a set has one branch for each choice of at most as many explicit
// masks as it has copies. All other copies choose from the closed part, or none is left.
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

// explicit lets set i choose explicit masks, starting with mask number from, for the copies that
// are left.
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

// measure looks in one branch for a mask with a better size than m.best. A branch reaches the set
// of all its NUMA nodes, and every size from some minimum on (theorem 2 of the package comment). So
// a size below the wanted one counts only if the branch has no more NUMA nodes.
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
	// Try the mask of NUMA nodes that one set requires, often those of given devices, while each
	// other set takes all its candidates. The search would also find such a mask, but at a higher
	// cost.
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

// refine considers the fittest mask of one branch that has as many NUMA nodes as m.best.
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

// build sets up the problem whose answers are the masks that the branch can reach (theorem 1 of the
// package comment). It has one bin for each copy of a set that chooses from its upward closed part.
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

// rank orders the sizes of masks that are not preferred: first the wanted size, then smaller sizes
// in descending order, then larger sizes in ascending order (R-HINT-56).
func rank(size, wanted int) int {
	if size > wanted {
		return size
	}
	return wanted - size
}
