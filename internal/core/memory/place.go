package memory

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Reuse is the memory of a pod's init containers that its later containers may take over,
// by exact mask and type (R-MEM-40). It lives as long as the planning of one pod.
type Reuse []reusable

type reusable struct {
	nodes mask.Mask
	typ   string
	bytes int64
}

func (r Reuse) get(nodes mask.Mask, typ string) int64 {
	for _, x := range r {
		if x.nodes == nodes && x.typ == typ {
			return x.bytes
		}
	}
	return 0
}

// After is what can be reused once a container of that container type has its blocks: a standard
// init container adds them, any other uses them up.
func (r Reuse) After(containerType request.ContainerType, blocks []Block) Reuse {
	r = slices.Clone(r)
	for _, b := range blocks {
		i := slices.IndexFunc(r, func(x reusable) bool { return x.nodes == b.Nodes && x.typ == b.Type })
		switch {
		case containerType == request.Init && i < 0:
			r = append(r, reusable{b.Nodes, b.Type, b.Size})
		case containerType == request.Init:
			r[i].bytes = max(r[i].bytes, b.Size)
		case i >= 0:
			r[i].bytes = max(0, r[i].bytes-b.Size)
		}
	}
	return r
}

// Charged is how much of each block is new after reuse; parallel to blocks.
func (r Reuse) Charged(blocks []Block) []int64 {
	charged := make([]int64, len(blocks))
	for i, b := range blocks {
		charged[i] = max(0, b.Size-r.get(b.Nodes, b.Type))
	}
	return charged
}

type want struct {
	typ   int
	bytes int64
}

// few is room for the types of a request, so that they need no allocation: memory and three sizes
// of huge pages. Requests with more types take more.
type few[T any] [4]T

// wants resolves amounts to type indexes, or names the first type that the machine lacks.
// They are in room if that is enough.
func (c *Capacity) wants(amounts request.Amounts, room *few[want]) ([]want, string) {
	wants := room[:0]
	for _, a := range amounts {
		t := c.typeIndex(a.Resource)
		if t < 0 {
			return nil, a.Resource
		}
		wants = append(wants, want{t, a.Value})
	}
	return wants, ""
}

// Hints describes the masks on which the amounts fit (R-HINT-32). A request for nothing,
// and one that fits nowhere, give no hints (R-HINT-34); Place reports the second.
// A type that the machine does not have is unsatisfiable.
func (u Usage) Hints(amounts request.Amounts, reuse Reuse) hint.Set {
	f := hint.Set{Resource: request.Memory}
	if len(amounts) == 0 {
		return f
	}
	f.Resource = amounts[len(amounts)-1].Resource
	var room few[want]
	wants, missing := u.capacity.wants(amounts, &room)
	if missing != "" {
		return hint.Set{Resource: missing, Kind: hint.None, Why: "this machine has no " + missing}
	}
	f = u.hints(wants, reuse)
	f.Resource = amounts[len(amounts)-1].Resource
	if f.IsEmpty() {
		return hint.Set{Resource: f.Resource}
	}
	return f
}

func (u Usage) hints(wants []want, reuse Reuse) hint.Set {
	f := hint.Set{Kind: hint.Fits, Copies: len(wants), Preferred: u.capacity.width(wants)}
	busy := 0
	for i, n := range u.nodes {
		if n.assignments == 0 {
			f.Candidates = f.Candidates.With(u.capacity.nodes[i].ID)
		} else {
			busy++
		}
	}
	f.Needs = make([]hint.Need, len(wants))
	width := u.capacity.all.Highest() + 1
	offers := make([]int64, len(wants)*width)
	for k, w := range wants {
		offer := offers[k*width : (k+1)*width : (k+1)*width]
		for i := range u.nodes {
			offer[u.capacity.nodes[i].ID] = max(0, u.free(i, w.typ))
		}
		f.Needs[k] = hint.Need{Resource: u.capacity.types[w.typ], Amount: w.bytes, Offer: offer}
	}
	add := func(m mask.Mask) {
		if f.Has(m) || !u.fits(m, wants, reuse) {
			return
		}
		if f.Explicit == nil {
			f.Explicit = make([]mask.Mask, 0, busy+len(reuse))
		}
		f.Explicit = append(f.Explicit, m)
	}
	for i, n := range u.nodes {
		if n.assignments > 0 {
			add(mask.Of(u.capacity.nodes[i].ID))
			add(n.group)
		}
	}
	for _, r := range reuse {
		add(r.nodes)
	}
	return f
}

// width is how many NUMA nodes the request needs without any pod, or all of them if these have too
// little (R-HINT-32, step 2).
func (c *Capacity) width(wants []want) int {
	var room few[hint.Need]
	ever := room[:0]
	for _, w := range wants {
		ever = append(ever, hint.Need{Resource: c.types[w.typ], Amount: w.bytes, Offer: c.allocatable[w.typ]})
	}
	if size, ok := hint.MinSize(c.all, ever); ok {
		return size
	}
	return c.all.Len()
}

// fits is R-HINT-32 read literally for one mask.
func (u Usage) fits(m mask.Mask, wants []want, reuse Reuse) bool {
	if !u.allowed(m) {
		return false
	}
	for _, w := range wants {
		var allocatable int64
		for n := range m.All() {
			allocatable += u.capacity.allocatable[w.typ][n]
		}
		if allocatable < w.bytes || u.freeOn(m, w.typ)+reuse.get(m, u.capacity.types[w.typ]) < w.bytes {
			return false
		}
	}
	return true
}

// allowed is the rule of groups: a NUMA node serves single masks, or one group (R-MEM-22).
func (u Usage) allowed(m mask.Mask) bool {
	for i, n := range u.nodes {
		if !m.Has(u.capacity.nodes[i].ID) {
			continue
		}
		if m.Len() == 1 && n.group.Len() > 1 {
			return false
		}
		if m.Len() > 1 && n.assignments > 0 && n.group != m {
			return false
		}
	}
	return true
}

// Cause is why memory could not be placed.
type Cause int

// The causes.
const (
	// NoSuchType: the machine does not have the type.
	NoSuchType Cause = iota
	// NoRoom: no allowed set of NUMA nodes has enough free (R-MEM-32).
	NoRoom
	// NoExtension: the aligned NUMA nodes have too little, and no allowed set around them has
	// enough (R-MEM-33).
	NoExtension
	// NotPreferred: it would fit, but on more NUMA nodes than the alignment promised
	// (R-MEM-32, R-MEM-33).
	NotPreferred
	// GroupConflict: the aligned NUMA nodes serve another group or single nodes (R-MEM-35).
	GroupConflict
)

// PlacementError is why Place rejected.
type PlacementError struct {
	Cause Cause
	// Type is the first type that is short, Wanted the bytes of it; Nodes the aligned NUMA
	// nodes and Free what they have of it.
	Type         string
	Wanted, Free int64
	Nodes        mask.Mask
}

func (e *PlacementError) Error() string {
	switch e.Cause {
	case NoSuchType:
		return fmt.Sprintf("this machine has no %s", e.Type)
	case NoRoom:
		return fmt.Sprintf("no NUMA nodes with enough memory: %s wanted, NUMA nodes %s have %s free", e.wanted(), e.Nodes, request.Bytes(e.Free))
	case NoExtension:
		return fmt.Sprintf("%s wanted, NUMA nodes %s have %s free, and no NUMA nodes to extend them have enough", e.wanted(), e.Nodes, request.Bytes(e.Free))
	case NotPreferred:
		return fmt.Sprintf("%s fit only on more NUMA nodes than preferred: NUMA nodes %s have %s free", e.wanted(), e.Nodes, request.Bytes(e.Free))
	case GroupConflict:
	}
	return fmt.Sprintf("NUMA nodes %s are aligned, but some of them already serve memory in another group, or as single NUMA nodes, and cannot join", e.Nodes)
}

func (e *PlacementError) wanted() string { return request.Bytes(e.Wanted) + " of " + e.Type }

// Place finds the NUMA nodes for the amounts, given what the Topology Manager aligned: these
// themselves where there is room, else the narrowest extension; without an alignment the narrowest
// that fits (R-MEM-32…36). The error is a *PlacementError.
func (u Usage) Place(amounts request.Amounts, aligned hint.Choice, reuse Reuse) (mask.Mask, error) {
	var room few[want]
	wants, missing := u.capacity.wants(amounts, &room)
	if missing != "" {
		w, _ := amounts.Get(missing)
		return 0, &PlacementError{Cause: NoSuchType, Type: missing, Wanted: w, Nodes: u.capacity.all}
	}
	nodes, preferred := aligned.Mask, aligned.Preferred
	if !aligned.HasMask {
		best, ok := u.narrowest(wants, reuse, 0)
		if !ok {
			return 0, u.placementError(NoRoom, wants, u.capacity.all)
		}
		if preferred && !best.Preferred {
			return 0, u.placementError(NotPreferred, wants, best.Mask)
		}
		nodes = best.Mask
	}
	if u.short(wants, nodes) >= 0 {
		best, ok := u.narrowest(wants, reuse, nodes)
		if !ok {
			return 0, u.placementError(NoExtension, wants, nodes)
		}
		if preferred && !best.Preferred {
			return 0, u.placementError(NotPreferred, wants, nodes)
		}
		nodes = best.Mask
	}
	// The reference looks at groups alone here (R-MEM-36), so that a NUMA node can be single and in
	// a group at once, and then does not start again.
	if !u.allowed(nodes) {
		return 0, u.placementError(GroupConflict, wants, nodes)
	}
	return nodes, nil
}

// short returns the first type of which nodes have too little free, or -1. What init containers
// leave is not counted here (R-MEM-33).
func (u Usage) short(wants []want, nodes mask.Mask) int {
	return slices.IndexFunc(wants, func(w want) bool { return u.freeOn(nodes, w.typ) < w.bytes })
}

// narrowest is the best fitting mask that contains within (R-MEM-38). One set merged alone
// yields just that: its narrowest mask, preferred or not.
func (u Usage) narrowest(wants []want, reuse Reuse, within mask.Mask) (hint.Choice, bool) {
	f := u.hints(wants, reuse)
	f.Copies = 1
	f.Required = within
	f.Explicit = slices.DeleteFunc(f.Explicit, func(m mask.Mask) bool { return !m.Contains(within) })
	if f.IsEmpty() {
		return hint.Choice{}, false
	}
	choice := hint.Merge([]hint.Set{f}, hint.Rules{Policy: hint.BestEffort, Nodes: u.capacity.all})
	return choice, !choice.Unsolved
}

func (u Usage) placementError(cause Cause, wants []want, nodes mask.Mask) error {
	i := max(0, u.short(wants, nodes))
	e := &PlacementError{Cause: cause, Nodes: nodes}
	if i < len(wants) {
		e.Type, e.Wanted, e.Free = u.capacity.types[wants[i].typ], wants[i].bytes, u.freeOn(nodes, wants[i].typ)
	}
	return e
}

// Fits reports whether the amounts fit on exactly these NUMA nodes, by the rule of groups too.
func (u Usage) Fits(nodes mask.Mask, amounts request.Amounts) bool {
	var room few[want]
	wants, missing := u.capacity.wants(amounts, &room)
	return missing == "" && u.fits(nodes, wants, nil)
}

// HintsAround is Hints with the masks alone that contain within: the NUMA nodes that a pod has
// already. If there is none, the request is unsatisfiable (R-RSZ-13).
func (u Usage) HintsAround(amounts request.Amounts, within mask.Mask) hint.Set {
	f := u.Hints(amounts, nil)
	if f.Kind == hint.Fits {
		f.Required |= within
		f.Explicit = slices.DeleteFunc(f.Explicit, func(m mask.Mask) bool { return !m.Contains(within) })
	}
	if f.Kind == hint.Any && len(amounts) > 0 || f.IsEmpty() {
		return hint.Set{Resource: f.Resource, Kind: hint.None, Why: fmt.Sprintf("no set of NUMA nodes around NUMA nodes %s has enough memory", within)}
	}
	return f
}

// PlaceAround is Place for a pod that has the NUMA nodes of within and keeps them: on these and the
// aligned ones where there is room, else on the narrowest extension (R-RSZ-13). The error is a
// *PlacementError.
func (u Usage) PlaceAround(amounts request.Amounts, aligned hint.Choice, within mask.Mask) (mask.Mask, error) {
	var room few[want]
	wants, missing := u.capacity.wants(amounts, &room)
	if missing != "" {
		w, _ := amounts.Get(missing)
		return 0, &PlacementError{Cause: NoSuchType, Type: missing, Wanted: w, Nodes: u.capacity.all}
	}
	if aligned.HasMask {
		within |= aligned.Mask
	}
	if u.fits(within, wants, nil) {
		return within, nil
	}
	best, ok := u.narrowest(wants, nil, within)
	if !ok {
		return 0, u.placementError(NoExtension, wants, within)
	}
	return best.Mask, nil
}
