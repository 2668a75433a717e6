package web

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/view"
)

const (
	// Kept is how many states are kept at most.
	Kept = 1000
	// maxHistoryBytes is about how much memory they may need; the last is always kept. A node with 250
	// pods of four containers stays below it with Kept states.
	maxHistoryBytes = 16 << 20
)

// moment is a state in the history.
type moment struct {
	state *node.State
	// slots are the pods' places in the palette; see view.NextSlots.
	slots []int32
	at    time.Time
	// bytes is about what it needs besides what it has in common with the moment before.
	bytes int
}

// history are the states that were, ascending by generation.
type history struct {
	moments []moment
	// Moments before first are not kept any more: readers may have slices of them, so that they stay
	// until the list is copied. size is the bytes of those that are kept, gone of the others.
	first      int
	size, gone int
}

// add keeps a state, unless it is not newer than the last one.
func (h *history) add(s *node.State, at time.Time) bool {
	last := h.last()
	if last.state != nil && s.Generation() <= last.state.Generation() {
		return false
	}
	m := moment{state: s, slots: view.NextSlots(last.state, last.slots, s), at: at, bytes: stateBytes(last.state, s)}
	h.moments = append(h.moments, m)
	h.size += m.bytes
	for n := len(h.moments) - 1; h.first < n && (n-h.first >= Kept || h.size > maxHistoryBytes); h.first++ {
		h.size -= h.moments[h.first].bytes
		h.gone += h.moments[h.first].bytes
	}
	if h.first >= Kept || h.gone > maxHistoryBytes { // Readers have slices of it: what they read never changes.
		h.moments, h.first, h.gone = slices.Clone(h.moments[h.first:]), 0, 0
	}
	return true
}

// stateBytes is about what a state needs besides what it shares with the one before it: its list of
// grants with the slots, and the grants that are new.
func stateBytes(before, s *node.State) int {
	var old []*node.Grant
	if before != nil {
		old = before.Grants()
	}
	bytes := 1<<10 + 12*len(s.Grants())
	for _, g := range s.Grants() {
		for len(old) > 0 && old[0].Pod.UID < g.Pod.UID {
			old = old[1:]
		}
		if len(old) == 0 || old[0] != g {
			bytes += podBytes(g.Pod) + 320*len(g.Containers)
		}
	}
	return bytes
}

func (h *history) last() moment {
	if len(h.moments) == 0 {
		return moment{}
	}
	return h.moments[len(h.moments)-1]
}

// kept are the last moments, for reading.
func (h *history) kept() []moment {
	return slices.Clip(h.moments[h.first:])
}

// find returns the moment of a generation.
func find(moments []moment, generation uint64) (moment, bool) {
	i := after(moments, generation)
	if i == 0 || moments[i-1].state.Generation() != generation {
		return moment{}, false
	}
	return moments[i-1], true
}

// after is the position of the first moment of a later generation.
func after(moments []moment, generation uint64) int {
	i, _ := slices.BinarySearchFunc(moments, generation, func(m moment, g uint64) int {
		if m.state.Generation() <= g {
			return -1
		}
		return 1
	})
	return i
}

// maxNames is how many pods a change names.
const maxNames = 3

// changeText says what became different between two states; before is nil for the first one.
func changeText(before, s *node.State) string {
	if before == nil {
		return "the first state that was seen, with " + strconv.Itoa(len(s.Grants())) + " pods"
	}
	var came, went, other []string
	old := before.Grants()
	for _, g := range s.Grants() {
		for len(old) > 0 && old[0].Pod.UID < g.Pod.UID {
			went, old = append(went, old[0].Pod.ID()), old[1:]
		}
		if len(old) == 0 || old[0].Pod.UID != g.Pod.UID {
			came = append(came, g.Pod.ID())
			continue
		}
		if old[0] != g {
			other = append(other, g.Pod.ID())
		}
		old = old[1:]
	}
	for _, g := range old {
		went = append(went, g.Pod.ID())
	}
	var parts []string
	for _, p := range []struct {
		word string
		pods []string
	}{{"admitted ", came}, {"released ", went}, {"gave back a part: ", other}} {
		if n := len(p.pods); n > maxNames {
			p.pods = append(p.pods[:maxNames:maxNames], "and "+strconv.Itoa(n-maxNames)+" more")
		}
		if len(p.pods) > 0 {
			parts = append(parts, p.word+strings.Join(p.pods, ", "))
		}
	}
	if parts == nil {
		return "nothing that pods have"
	}
	return strings.Join(parts, "; ")
}
