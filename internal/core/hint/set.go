package hint

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
)

//go:generate go tool stringer -type=Kind,Policy -linecomment -output=enum_string.go

// Kind is what a hint provider answers for a resource.
type Kind int

const (
	// Any means that the provider has no preference (R-HINT-11, nil list). It is the kind of the
	// zero Set.
	Any Kind = iota // any
	// None means that no mask satisfies the request (R-HINT-11, empty list): no result is
	// preferred any more, but the masks of the other sets still count.
	None // none
	// Fits means that the request fits on the masks that the Set describes.
	Fits // fits
)

// Set is a hint set: it describes the masks on which a request for one resource fits, without
// listing them. A Set of kind Fits has two parts:
//
//   - every mask A, ∅ ≠ A ⊆ Candidates, with Required ⊆ A, A ∩ t ≠ ∅ for every t of Touch, and
//     with enough for each of Needs. A candidate more never takes a mask out of this part: it is
//     upward closed;
//   - every mask of Explicit.
//
// A hint is preferred when its mask has Preferred NUMA nodes, or when Sockets allows it.
type Set struct {
	// Resource is the name for people: "cpu", "hugepages-2Mi".
	Resource string
	Kind     Kind
	// Why is a sentence about what is missing, for kind None.
	Why string

	// Candidates are the NUMA nodes that can be in a mask.
	Candidates mask.Mask
	Required   mask.Mask
	Touch      []mask.Mask
	Needs      []Need
	Explicit   []mask.Mask
	// Copies is the number of hint lists with these masks: the memory manager gives one
	// for each requested type. 0 counts as 1. The merge chooses one mask for each copy.
	Copies int
	// Preferred is the size of a preferred mask (R-HINT-24, R-HINT-32, R-HINT-43).
	Preferred int
	// Sockets is the second way to be preferred, that of align-by-socket, or nil.
	Sockets *SocketRule
}

// SocketRule is align-by-socket: a mask whose NUMA nodes are on exactly Count sockets is
// preferred whatever its size (R-HINT-25).
type SocketRule struct {
	Count int
	// Sockets are the NUMA nodes of each socket, ascending by socket id.
	Sockets []mask.Mask
}

// Has reports whether m is a mask of the set. A Set of kind Any has every mask that is not
// empty, one of kind None has none.
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

// MustTouch leaves only masks in the set that have one of these NUMA nodes: those of a device that
// is kept.
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
		// Most needs are met by a few NUMA nodes.
		if n := &s.Needs[i]; n.sum(m) < n.Amount && n.Offered(m) < n.Amount {
			return false
		}
	}
	return true
}

// fitsOn reports whether the lowest candidates, with those that are required, are a mask of this
// size in the upward closed part. Another mask of the size may be in it where they are not.
func (s *Set) fitsOn(size int) bool {
	lowest := s.Required | (s.Candidates &^ s.Required).First(size-s.Required.Len())
	return lowest.Len() == size && s.fits(lowest)
}

// within cuts the set to the NUMA nodes of a machine. If its upward closed part is empty, it has
// no candidates afterwards. Explicit masks are left out if they are in that part or have other
// NUMA nodes.
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

// copies is the number of hint lists that the set describes.
func (s Set) copies() int { return max(s.Copies, 1) }
