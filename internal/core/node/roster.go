package node

import (
	"iter"
	"slices"
	"strings"
)

// roster has the grants of a state, ascending by UID. It is a value: with and without return
// another roster, and nothing to which a roster refers ever changes. So any number of rosters can
// be derived from one.
//
// It is a B+ tree. A new roster shares all pages with the old one, except for the few pages on the
// path to the grant, so the cost of a change is logarithmic in the number of pods. All leaves have
// the same depth. Two adjacent children of a page together have more than half a page, so that the
// depth follows the number of pods also when it falls.
type roster struct {
	root *page // nil if there are no grants
	len  int
}

// pageSize is the maximum number of entries of a page. A change copies a page on each level, and
// two levels have room for the pods of most nodes.
const pageSize = 32

// page is either a leaf with grants or an inner node with pages. It never changes, and is never
// empty.
type page struct {
	grants []*Grant
	pages  []*page
}

// get returns the grant of a pod.
func (r roster) get(uid string) (*Grant, bool) {
	if r.root == nil || uid == "" && r.root.first() != "" { // A scheduler asks without a UID.
		return nil, false
	}
	p := r.root
	for p.pages != nil {
		p = p.pages[p.way(uid)]
	}
	if i, found := p.find(uid); found {
		return p.grants[i], true
	}
	return nil, false
}

// with returns the roster with g, in place of an earlier grant of its pod.
func (r roster) with(g *Grant) roster {
	if r.root == nil {
		return roster{&page{grants: []*Grant{g}}, 1}
	}
	p, more, added := r.root.with(g)
	if more != nil {
		p = &page{pages: []*page{p, more}}
	}
	if added {
		r.len++
	}
	return roster{p, r.len}
}

// without returns the roster without the grant of a pod. The pod must have one.
func (r roster) without(uid string) roster {
	p := r.root.without(uid)
	for p != nil && len(p.pages) == 1 {
		p = p.pages[0]
	}
	return roster{p, r.len - 1}
}

// all yields the grants, ascending by UID.
func (r roster) all() iter.Seq[*Grant] {
	return func(yield func(*Grant) bool) {
		if r.root != nil {
			r.root.walk(yield)
		}
	}
}

func (p *page) walk(yield func(*Grant) bool) bool {
	for _, g := range p.grants {
		if !yield(g) {
			return false
		}
	}
	for _, below := range p.pages {
		if !below.walk(yield) {
			return false
		}
	}
	return true
}

// find returns the position in a leaf at which the grant of a pod is, or would be.
func (p *page) find(uid string) (int, bool) {
	return slices.BinarySearchFunc(p.grants, uid, func(g *Grant, uid string) int { return strings.Compare(g.Pod.UID, uid) })
}

// way returns the position of the child page in which the pod is, or would be.
func (p *page) way(uid string) int {
	i, found := slices.BinarySearchFunc(p.pages, uid, func(below *page, uid string) int { return strings.Compare(below.first(), uid) })
	if found {
		return i
	}
	return max(0, i-1)
}

// first returns the lowest UID.
func (p *page) first() string {
	for p.pages != nil {
		p = p.pages[0]
	}
	return p.grants[0].Pod.UID
}

func (p *page) size() int { return len(p.grants) + len(p.pages) }

// with returns p with g. If one page does not have enough room, more is the page after changed.
// Otherwise more is nil. added is false if g replaces a grant.
func (p *page) with(g *Grant) (changed, more *page, added bool) {
	if p.pages == nil {
		i, found := p.find(g.Pod.UID)
		if found {
			return &page{grants: spliced(p.grants, i, i+1, g)}, nil, false
		}
		changed, more = (&page{grants: spliced(p.grants, i, i, g)}).split()
		return changed, more, true
	}
	i := p.way(g.Pod.UID)
	below, next, added := p.pages[i].with(g)
	if next == nil {
		return &page{pages: spliced(p.pages, i, i+1, below)}, nil, added
	}
	changed, more = (&page{pages: spliced(p.pages, i, i+1, below, next)}).split()
	return changed, more, added
}

// split returns p, or its two halves if it exceeds pageSize.
func (p *page) split() (*page, *page) {
	half := p.size() / 2
	switch {
	case p.size() <= pageSize:
		return p, nil
	case p.pages == nil:
		return &page{grants: p.grants[:half:half]}, &page{grants: p.grants[half:]}
	}
	return &page{pages: p.pages[:half:half]}, &page{pages: p.pages[half:]}
}

// without returns p without the grant of a pod, or nil if nothing is left.
func (p *page) without(uid string) *page {
	if p.pages == nil {
		if len(p.grants) == 1 {
			return nil
		}
		i, _ := p.find(uid)
		return &page{grants: spliced(p.grants, i, i+1)}
	}
	i := p.way(uid)
	below := p.pages[i].without(uid)
	if below != nil {
		return &page{pages: merged(spliced(p.pages, i, i+1, below), i)}
	}
	if len(p.pages) == 1 {
		return nil
	}
	left := spliced(p.pages, i, i+1)
	return &page{pages: merged(left, min(i, len(left)-1))}
}

// merged joins page i with the pages beside it while two together have at most half a page.
func merged(pages []*page, i int) []*page {
	for {
		switch {
		case i > 0 && pages[i-1].size()+pages[i].size() <= pageSize/2:
			i--
		case i+1 < len(pages) && pages[i].size()+pages[i+1].size() <= pageSize/2:
		default:
			return pages
		}
		pages = spliced(pages, i, i+2, joined(pages[i], pages[i+1]))
	}
}

// joined returns one page with the entries of two adjacent pages. Of inner pages, the last child of
// p and the first of q become adjacent, and may be small.
func joined(p, q *page) *page {
	if p.pages == nil {
		return &page{grants: slices.Concat(p.grants, q.grants)}
	}
	return &page{pages: merged(slices.Concat(p.pages, q.pages), len(p.pages))}
}

// spliced returns a copy of list with put in place of the part from i up to j.
func spliced[T any](list []T, i, j int, put ...T) []T {
	copied := make([]T, 0, len(list)-(j-i)+len(put))
	copied = append(copied, list[:i]...)
	copied = append(copied, put...)
	return append(copied, list[j:]...)
}
