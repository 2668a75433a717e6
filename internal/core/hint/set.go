package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

//go:generate stringer -type=Kind,Policy -linecomment -output=enum_string.go

// Kind is the kind of answer that a hint provider gives for a resource.
type Kind int

const (
	// Any means that the provider has no preference (R-HINT-11, nil list). It is the kind of the
	// zero Set.
	Any Kind = iota // any
	// None means that no mask satisfies the request (R-HINT-11, empty list). No result can then be
	// preferred, but the masks of the other sets still count.
	None // none
	// Fits means that the request fits on the masks that the Set describes.
	Fits // fits
)

// Set is a hint set: it describes the masks on which a request for one resource fits, without
// listing them. A Set of kind Fits has two parts:
//
//   - Every mask A, ∅ ≠ A ⊆ Candidates, with Required ⊆ A, A ∩ t ≠ ∅ for every t of Touch, and
//     enough for each of Needs. This part is upward closed: adding a candidate to a mask never
//     takes it out of this part.
//   - Every mask of Explicit.
//
// A hint is preferred if its mask has Preferred NUMA nodes, or if Sockets allows it.
type Set struct {
	// Resource is the name shown to people, such as "cpu" or "hugepages-2Mi".
	Resource string
	Kind     Kind
	// Why is a sentence that describes what is missing. It is set for kind None.
	Why string

	// Candidates has the NUMA nodes that can be in a mask.
	Candidates mask.Mask
	Required   mask.Mask
	Touch      []mask.Mask
	// Needs of a set of kind None, or of memory that has no preference because it fits nowhere, are
	// for explanations: no mask follows from them.
	Needs    []Need
	Explicit []mask.Mask
	// Kept has the NUMA nodes of what a pod keeps, if the masks follow from that and not from what
	// is free. It decides nothing.
	Kept mask.Mask
	// Copies is the number of hint lists with these masks, because the memory manager gives one
	// list for each requested type. Zero counts as 1. The merge chooses one mask for each copy.
	Copies int
	// Preferred is the size of a preferred mask (R-HINT-24, R-HINT-32, R-HINT-43).
	Preferred int
	// Sockets is the second way in which a mask can be preferred, for align-by-socket. Nil means
	// that only the size counts.
	Sockets *SocketRule
}

// SocketRule is the rule of align-by-socket: a mask whose NUMA nodes are on exactly Count sockets
// is preferred whatever its size is (R-HINT-25).
type SocketRule struct {
	Count int
	// Sockets lists the NUMA nodes of each socket, ascending by socket id.
	Sockets []mask.Mask
}

// Has reports whether m is a mask of the set. A Set of kind Any has every mask that is not empty,
// and a Set of kind None has no mask.
func (s Set) Has(m mask.Mask) bool {
	switch s.Kind {
	case Any:
		return !m.IsEmpty()
	case None:
		return false
	case Fits:
	}
	return s.fits(m) || slices.Contains(s.Explicit, m) && !m.IsEmpty()
}

// MustTouch restricts the set to masks that have at least one of these NUMA nodes. Callers pass the
// NUMA nodes of a device that is kept.
func (s *Set) MustTouch(nodes mask.Mask) {
	if nodes.Len() == 1 {
		s.Required |= nodes
	} else if !slices.Contains(s.Touch, nodes) {
		s.Touch = append(s.Touch, nodes)
	}
}

// IsEmpty reports whether the set is of kind Fits and has no mask. Merge treats it as None.
func (s Set) IsEmpty() bool {
	if s.Kind != Fits || s.fits(s.Candidates) {
		return false
	}
	return !slices.ContainsFunc(s.Explicit, func(m mask.Mask) bool { return !m.IsEmpty() })
}

// fits reports whether m is in the upward closed part.
func (s *Set) fits(m mask.Mask) bool {
	if m.IsEmpty() || !s.Candidates.Contains(m) || !m.Contains(s.Required) {
		return false
	}
	for _, touch := range s.Touch {
		if touch&m == 0 {
			return false
		}
	}
	for i := range s.Needs {
		// A few NUMA nodes meet most needs, so try the cheaper sum first.
		if n := &s.Needs[i]; n.sum(m) < n.Amount && n.Offered(m) < n.Amount {
			return false
		}
	}
	return true
}

// Indispensable returns the candidates that every mask of the upward closed part has.
func (s *Set) Indispensable() mask.Mask {
	all := s.Required
	for n := range (s.Candidates &^ s.Required).All() {
		if !s.fits(s.Candidates &^ mask.Of(n)) {
			all |= mask.Of(n)
		}
	}
	return all
}

// fitsOn reports whether the required candidates together with the lowest others form a mask of
// this size in the upward closed part. If it returns false, another mask of this size may still be
// in that part.
func (s *Set) fitsOn(size int) bool {
	lowest := s.Required | (s.Candidates &^ s.Required).First(size-s.Required.Len())
	return lowest.Len() == size && s.fits(lowest)
}

// within cuts the set to the NUMA nodes of a machine. If the upward closed part is empty, the
// result has no candidates. Explicit masks are dropped if they are in that part or have NUMA nodes
// outside the machine.
func (s Set) within(nodes mask.Mask) Set {
	s.Candidates &= nodes
	if !s.fits(s.Candidates) {
		s.Candidates = 0
	}
	var explicit []mask.Mask
	for _, m := range s.Explicit {
		if !m.IsEmpty() && nodes.Contains(m) && !s.fits(m) && !slices.Contains(explicit, m) {
			explicit = append(explicit, m)
		}
	}
	s.Explicit = explicit
	return s
}

// Prefers reports whether a hint of the set with mask m is preferred.
func (s Set) Prefers(m mask.Mask) bool {
	if m.Len() == s.Preferred || s.Sockets == nil {
		return m.Len() == s.Preferred
	}
	touched := 0
	for _, socket := range s.Sockets.Sockets {
		if socket&m != 0 {
			touched++
		}
	}
	return touched == s.Sockets.Count
}

// copies returns the number of hint lists that the set describes.
func (s Set) copies() int { return max(s.Copies, 1) }
