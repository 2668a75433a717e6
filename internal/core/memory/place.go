package memory

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Reuse is the memory of a pod's init containers that its later containers may take over, by exact
// mask and type (R-MEM-40). It is only used while one pod is planned.
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

// After returns what can be reused after a container of the given container type has its blocks. A
// standard init container adds its blocks. Any other container uses them up.
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

// Charged returns, for each block, the number of bytes that are not reused. The result is parallel
// to blocks.
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

// few is a buffer for the types of a request that avoids an allocation. It has room for memory and
// three sizes of huge pages. Requests with more types allocate.
type few[T any] [4]T

// wants resolves amounts to type indexes. If the machine lacks a type, it returns the name of the
// first such type. The result is in room if it fits.
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

// Hints describes the masks on which the amounts fit (R-HINT-32). A request for nothing and a
// request that fits nowhere give no hints (R-HINT-34); in the second case Place returns an error. A
// type that the machine does not have is unsatisfiable.
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
		return hint.Set{Resource: f.Resource, Needs: f.Needs, Preferred: f.Preferred}
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

// width returns how many NUMA nodes the request needs on a machine without pods. If all NUMA nodes
// together have too little, it returns their number (R-HINT-32, step 2).
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

// fits implements R-HINT-32 word for word for one mask.
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

// allowed implements the rule of groups: a NUMA node serves either single masks or one group
// (R-MEM-22).
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

// Cause is the reason why memory could not be placed.
type Cause int

// The causes.
const (
	// NoSuchType means that the machine does not have the type.
	NoSuchType Cause = iota
	// NoRoom means that no allowed set of NUMA nodes has enough free memory (R-MEM-32).
	NoRoom
	// NoExtension means that the aligned NUMA nodes have too little free memory, and that no
	// allowed set that contains them has enough (R-MEM-33).
	NoExtension
	// NotPreferred means that the memory would fit, but only on more NUMA nodes than the alignment
	// promised (R-MEM-32, R-MEM-33).
	NotPreferred
	// GroupConflict means that the aligned NUMA nodes already serve another group or single NUMA
	// nodes (R-MEM-35).
	GroupConflict
)

// PlacementError describes why Place rejected a request.
type PlacementError struct {
	Cause Cause
	// Type is the first type that is short, and Wanted the requested number of bytes of it. Nodes
	// has the aligned NUMA nodes, and Free is the number of bytes of the type that are free on
	// them.
	Type         string
	Wanted, Free int64
	Nodes        mask.Mask
	// Largest is the largest number of bytes of the type that are free on one allowed set of NUMA
	// nodes. It is set with NoRoom.
	Largest int64
}

func (e *PlacementError) Error() string {
	switch e.Cause {
	case NoSuchType:
		return fmt.Sprintf("this machine has no %s", e.Type)
	case NoRoom:
		text := fmt.Sprintf("no NUMA nodes with enough memory: %s wanted, %s free on %s", e.wanted(), request.RoundedQuantity(e.Free), e.Nodes.Text())
		if e.Free >= e.Wanted && e.Largest < e.Wanted {
			text += fmt.Sprintf(", but a container can get at most %s of it: the Memory Manager does not combine NUMA nodes on which pods have memory with others", request.RoundedQuantity(e.Largest))
		}
		return text
	case NoExtension:
		return fmt.Sprintf("%s wanted, %s free on %s, and no larger set of NUMA nodes around it has enough", e.wanted(), request.Bytes(e.Free), e.Nodes.Text())
	case NotPreferred:
		return fmt.Sprintf("%s wanted, %s free on %s: it fits only on more NUMA nodes than the fewest possible", e.wanted(), request.Bytes(e.Free), e.Nodes.Text())
	case GroupConflict:
	}
	if e.Nodes.Len() == 1 {
		return fmt.Sprintf("the memory would be on %s, which serves memory together with other NUMA nodes, and so none alone", e.Nodes.Text())
	}
	return fmt.Sprintf("the memory would be on %s together, but some of them already serve memory one by one, or together with others", e.Nodes.Text())
}

func (e *PlacementError) wanted() string { return request.Bytes(e.Wanted) + " of " + e.Type }

// Place returns the NUMA nodes for the amounts (R-MEM-32…36). aligned is the choice of the Topology
// Manager. If the aligned NUMA nodes have room, Place returns them, otherwise their narrowest
// extension. Without an alignment, it returns the narrowest mask on which the amounts fit. The
// error is a *PlacementError.
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
	// At this point the reference checks only groups (R-MEM-36). A NUMA node can then be single and
	// in a group at once, and the kubelet does not start again.
	if !u.allowed(nodes) {
		return 0, u.placementError(GroupConflict, wants, nodes)
	}
	return nodes, nil
}

// short returns the index of the first type of which nodes have too little free memory, or -1. It
// does not count the memory that init containers leave (R-MEM-33).
func (u Usage) short(wants []want, nodes mask.Mask) int {
	return slices.IndexFunc(wants, func(w want) bool { return u.freeOn(nodes, w.typ) < w.bytes })
}

// narrowest returns the best mask that fits and contains within (R-MEM-38). Merging a single set
// yields exactly this: its narrowest mask, preferred or not.
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
	if cause == NoRoom && i < len(wants) {
		e.Largest = u.largest(wants[i].typ)
	}
	return e
}

// largest returns the largest number of bytes of a type that are free on one set of NUMA nodes that
// the rule of groups allows.
func (u Usage) largest(typ int) int64 {
	var idle mask.Mask
	most := int64(0)
	for i, n := range u.nodes {
		id := u.capacity.nodes[i].ID
		if n.assignments == 0 {
			idle = idle.With(id)
			continue
		}
		for _, m := range []mask.Mask{mask.Of(id), n.group} {
			if u.allowed(m) {
				most = max(most, u.freeOn(m, typ))
			}
		}
	}
	return max(most, u.freeOn(idle, typ))
}

// Fits reports whether the amounts fit on exactly these NUMA nodes, taking the rule of groups into
// account.
func (u Usage) Fits(nodes mask.Mask, amounts request.Amounts) bool {
	var room few[want]
	wants, missing := u.capacity.wants(amounts, &room)
	return missing == "" && u.fits(nodes, wants, nil)
}

// HintsAround is Hints restricted to masks that contain within, the NUMA nodes that a pod already
// has. If there is no such mask, the request is unsatisfiable (R-RSZ-13).
func (u Usage) HintsAround(amounts request.Amounts, within mask.Mask) hint.Set {
	f := u.Hints(amounts, nil)
	if f.Kind == hint.Fits {
		f.Required |= within
		f.Explicit = slices.DeleteFunc(f.Explicit, func(m mask.Mask) bool { return !m.Contains(within) })
	}
	if f.Kind == hint.Any && len(amounts) > 0 || f.IsEmpty() {
		return hint.Set{Resource: f.Resource, Kind: hint.None, Why: fmt.Sprintf("no set of NUMA nodes around %s has enough memory", within.Text())}
	}
	return f
}

// PlaceAround is Place for a pod that has the NUMA nodes of within and keeps them. It returns these
// together with the aligned NUMA nodes if the amounts fit there, otherwise the narrowest extension
// (R-RSZ-13). The error is a *PlacementError.
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
