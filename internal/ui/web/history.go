package web

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

const (
	// Kept is the largest number of states that are kept.
	Kept = 1000
	// maxHistoryBytes is the approximate limit of their memory. The last state is always kept. A
	// node with 250 pods of four containers stays below it with Kept states.
	maxHistoryBytes = 16 << 20
)

// moment is a state in the history.
type moment struct {
	state *node.State
	// slots are the pods' places in the palette; see nodemap.NextSlots.
	slots []int32
	at    time.Time
	// changed describes settings of the policy that differ from those of the node, in a preview.
	changed string
	// bytes is the approximate memory that it needs and does not share with the moment before.
	bytes int
}

// history has the last states in ascending order of revision.
type history struct {
	moments []moment
	// Moments before first are no longer kept. Readers may have slices of them, so they stay until
	// the list is copied. size is the bytes of the kept moments, and gone those of the others.
	first      int
	size, gone int
}

// add keeps a state if it is newer than the last one.
func (h *history) add(s *node.State, at time.Time) bool {
	last := h.last()
	if last.state != nil && s.Generation() <= last.state.Generation() {
		return false
	}
	m := moment{state: s, slots: nodemap.NextSlots(last.state, last.slots, s), at: at, bytes: stateBytes(last.state, s)}
	h.moments = append(h.moments, m)
	h.size += m.bytes
	for n := len(h.moments) - 1; h.first < n && (n-h.first >= Kept || h.size > maxHistoryBytes); h.first++ {
		h.size -= h.moments[h.first].bytes
		h.gone += h.moments[h.first].bytes
	}
	if h.first >= Kept || h.gone > maxHistoryBytes { // Readers have slices of moments, which never change.
		h.moments, h.first, h.gone = slices.Clone(h.moments[h.first:]), 0, 0
	}
	return true
}

// stateBytes returns the approximate memory that a state needs and does not share with the one
// before it: its list of grants with the slots, and the new grants.
func stateBytes(before, s *node.State) int {
	var old []*node.Grant
	if before != nil {
		old = before.Grants()
	}
	bytes := 1<<10 + 12*s.NumGrants()
	for g := range s.AllGrants() {
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

// kept returns the moments that are kept. The caller must not change them.
func (h *history) kept() []moment {
	return slices.Clip(h.moments[h.first:])
}

// after returns the position of the first moment with a later revision.
func after(moments []moment, revision uint64) int {
	i, _ := slices.BinarySearchFunc(moments, revision, func(m moment, g uint64) int {
		if m.state.Generation() <= g {
			return -1
		}
		return 1
	})
	return i
}

// maxNames is how many pods a change names.
const maxNames = 3

// The words that describe what happened to pods.
const (
	wasAdmitted = "admitted "
	wasReleased = "released "
	beganToMove = "began to move "
	wasMoved    = "moved "
	moveEnded   = "gave up moving "
	wasResized  = "resized "
	gaveBack    = "gave back a part: "
)

// changeOf returns the word that describes what happened to a pod that was there before.
func changeOf(old, g *node.Grant) string {
	switch {
	case g.Moving != nil && old.Moving == nil:
		return beganToMove
	case g.Moving == nil && old.Moving != nil && g.SameAssignments(old.Moving):
		return wasMoved
	case g.Moving == nil && old.Moving != nil:
		return moveEnded
	case g.Resized != old.Resized && !g.Pod.Equal(old.Pod):
		return wasResized
	}
	return gaveBack
}

// changeText describes the difference between two states. before is nil for the first state.
func changeText(before, s *node.State) string {
	if before == nil {
		return "the first state that was seen, with " + strconv.Itoa(s.NumGrants()) + " pods"
	}
	became := map[string][]string{}
	note := func(word string, g *node.Grant) { became[word] = append(became[word], g.Pod.ID()) }
	old := before.Grants()
	for g := range s.AllGrants() {
		for len(old) > 0 && old[0].Pod.UID < g.Pod.UID {
			note(wasReleased, old[0])
			old = old[1:]
		}
		if len(old) == 0 || old[0].Pod.UID != g.Pod.UID {
			note(wasAdmitted, g)
			continue
		}
		if old[0] != g {
			note(changeOf(old[0], g), g)
		}
		old = old[1:]
	}
	for _, g := range old {
		note(wasReleased, g)
	}
	var parts []string
	for _, word := range []string{wasAdmitted, wasReleased, beganToMove, wasMoved, moveEnded, wasResized, gaveBack} {
		pods := became[word]
		if n := len(pods); n > maxNames {
			pods = append(pods[:maxNames:maxNames], "and "+strconv.Itoa(n-maxNames)+" more")
		}
		if len(pods) > 0 {
			parts = append(parts, word+strings.Join(pods, ", "))
		}
	}
	if parts == nil {
		return "nothing that pods have"
	}
	return strings.Join(parts, "; ")
}
