package fleetpage

import (
	"cmp"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// snapshot is a Fleet with its tiles and the totals of its kinds. It does not change.
type snapshot struct {
	*Fleet
	tiles  []tile  // of Views
	totals []total // of the kinds of Answer
}

// snapshot measures the fleet. It reuses an earlier snapshot, which may be nil: a view that is in
// both has the same tile.
func (f *Fleet) snapshot(before *snapshot) *snapshot {
	s := &snapshot{Fleet: f, tiles: make([]tile, len(f.Views))}
	kinds, at := f.kindPositions(), positions(before)
	was := make([]int, len(f.Views)) // the position in before, or -1
	for i, v := range f.Views {
		if was[i] = at(i, v); was[i] >= 0 {
			s.tiles[i] = before.tiles[was[i]]
			s.tiles[i].Kind, s.tiles[i].Zone = kinds[v.Kind], f.zone(v) // Others may have moved.
		} else {
			s.tiles[i] = f.tile(v, kinds)
		}
	}
	s.totals = s.sum(before, was)
	return s
}

// positions returns a function that returns the position of a view in a snapshot, or -1. Most views
// have the same position as before.
func positions(before *snapshot) func(i int, v *fleet.View) int {
	if before == nil {
		return func(int, *fleet.View) int { return -1 }
	}
	var all map[*fleet.View]int // nil until a view has moved
	return func(i int, v *fleet.View) int {
		if i < len(before.Views) && before.Views[i] == v {
			return i
		}
		if all == nil {
			all = make(map[*fleet.View]int, len(before.Views))
			for k, v := range before.Views {
				all[v] = k
			}
		}
		if k, there := all[v]; there {
			return k
		}
		return -1
	}
}

// overview is the data that the page shows first. A node refers to its NUMA nodes by their position
// in Looks, because many nodes look alike.
type overview struct {
	Title string `json:"title"`
	aside
	state
	Revision uint64      `json:"revision"`
	Kinds    []kind      `json:"kinds"`
	Looks    [][][6]int  `json:"looks"`
	Nodes    []looked    `json:"nodes"`
	CanAsk   bool        `json:"canAsk"` // whether a server answers /api
	Pods     [][2]string `json:"pods,omitempty"`
	// Omitted is the number of pods that a page in one file leaves out.
	Omitted int `json:"omitted,omitempty"`
}

// aside is the data that the page shows beside the nodes.
type aside struct {
	Summary  string    `json:"summary"`
	Scarce   *scarce   `json:"scarce"` // null if no pod is rejected
	Totals   []total   `json:"totals"` // of the kinds
	Causes   []cause   `json:"causes"`
	Rejected int       `json:"rejected"`
	Counted  *counted  `json:"counted"` // null unless the nodes are those of a cluster
	Counters []Counter `json:"counters"`
	LeftOut  []Note    `json:"leftOut"`
	Notes    []Note    `json:"notes"`
}

// counted compares the rejections by the nodes of a cluster with all their decisions. LastHour
// counts the rejections of the last hour.
type counted struct {
	Summary  string        `json:"summary"`
	Rejected int64         `json:"rejected"`
	LastHour int64         `json:"lastHour"`
	Kinds    []countedKind `json:"kinds"`
}

type countedKind struct {
	view.RejectingKind
	Percent string `json:"percent"`
}

type kind struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
}

// tile represents a node. NUMA has one entry for each NUMA node: its id, its numbers of shared,
// exclusive, pooled and free CPUs, and the stranded part of the free CPUs in hundredths of a CPU.
type tile struct {
	Name string   `json:"name"`
	Kind int      `json:"kind"`
	Zone string   `json:"zone"`
	Pods int      `json:"pods"`
	NUMA [][6]int `json:"numa"`
}

// looked is a tile without its NUMA nodes, which are stored elsewhere.
type looked struct {
	Name string `json:"name"`
	Kind int    `json:"kind"`
	Zone string `json:"zone,omitempty"`
	Pods int    `json:"pods"`
	Look int    `json:"look"`
}

type cause struct {
	Reason  string   `json:"reason"`
	Pods    int64    `json:"pods"`
	Nodes   []string `json:"nodes"` // why nodes reject the example, and how many nodes
	Example string   `json:"example"`
	Node    string   `json:"node,omitempty"`
	Detail  string   `json:"detail,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	OneMore string   `json:"oneMore,omitempty"`
}

func (s *snapshot) overview(revision uint64) overview {
	o := overview{Title: s.Title, Revision: revision, Kinds: s.kinds(), Looks: [][][6]int{}, Nodes: make([]looked, 0, len(s.tiles)), aside: s.aside()}
	looks := map[string]int{}
	var key []byte
	for i := range s.tiles {
		t := &s.tiles[i]
		key = t.appendLook(key[:0])
		at, known := looks[string(key)]
		if !known {
			at = len(o.Looks)
			looks[string(key)] = at
			o.Looks = append(o.Looks, t.NUMA)
		}
		o.Nodes = append(o.Nodes, looked{t.Name, t.Kind, t.Zone, t.Pods, at})
	}
	return o
}

// appendLook appends bytes that are equal for tiles with equal NUMA nodes.
func (t *tile) appendLook(b []byte) []byte {
	for _, n := range t.NUMA {
		for _, v := range n {
			b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
	}
	return b
}

func (f *Fleet) kinds() []kind {
	out := make([]kind, 0, len(f.Answer.Kinds))
	for _, k := range f.Answer.Kinds {
		out = append(out, kind{k.Kind, k.Policy})
	}
	return out
}

func (f *Fleet) kindPositions() map[string]int {
	at := make(map[string]int, len(f.Answer.Kinds))
	for i, k := range f.Answer.Kinds {
		at[k.Kind] = i
	}
	return at
}

func (f *Fleet) zone(v *fleet.View) string { return cmp.Or(f.Zones[v.Name], f.Zones[v.Kind]) }

func (f *Fleet) tile(v *fleet.View, kinds map[string]int) tile {
	t := tile{Name: v.Name, Kind: kinds[v.Kind], Zone: f.zone(v), Pods: v.State.NumGrants()}
	for _, s := range v.Stock() {
		t.NUMA = append(t.NUMA, [6]int{s.NUMANode, s.Shared, s.Exclusive, s.Pooled, s.Free, int(math.Round(100 * s.Stranded))})
	}
	return t
}

// maxNotes is how many notes, and counters of each kind, a page lists. More would not help a
// reader.
const maxNotes = 500

func (s *snapshot) aside() aside {
	f := s.Fleet
	a := aside{
		Summary: f.Summary, Scarce: scarceOf(f.Answer.Scarcity), Totals: s.totals, Rejected: len(f.Rejected), Causes: make([]cause, 0, len(f.Answer.Causes)), Counted: f.counted(),
		Counters: append([]Counter{}, f.Counters[:min(len(f.Counters), maxNotes)]...),
		LeftOut:  append([]Note{}, f.LeftOut[:min(len(f.LeftOut), maxNotes)]...), Notes: append([]Note{}, f.Notes[:min(len(f.Notes), maxNotes)]...),
	}
	for _, c := range f.Answer.Causes {
		out := cause{Reason: c.Reason, Pods: c.Pods.Rejected, Nodes: []string{view.Nodes(c.Nodes) + ": " + c.Reason}, Example: c.Example, Node: c.Node, Detail: c.Detail, Remedy: c.Remedy, OneMore: c.OneMore}
		for _, other := range c.Others {
			out.Nodes = append(out.Nodes, view.Nodes(other.Nodes)+": "+other.Reason)
		}
		a.Causes = append(a.Causes, out)
	}
	return a
}

func (f *Fleet) counted() *counted {
	if f.Counted == nil {
		return nil
	}
	c := &counted{Summary: f.Counted.Summary(), Rejected: f.Counted.Rejected, Kinds: make([]countedKind, 0, len(f.Counted.Kinds))}
	for _, k := range f.Counted.Kinds[:min(len(f.Counted.Kinds), maxNotes)] {
		c.Kinds = append(c.Kinds, countedKind{k, k.Percent()})
	}
	for i := range f.Counters {
		c.LastHour += f.Counters[i].LastHour
	}
	return c
}

// change is the difference from an earlier fleet with the same nodes and kinds. Tiles maps
// positions of nodes to their new tiles.
type change struct {
	Revision uint64       `json:"revision"`
	Tiles    map[int]tile `json:"tiles"`
	aside
}

// maxChanged limits changes by tiles: if more than 1/maxChanged of the nodes changed, the page
// reads everything again.
const maxChanged = 4

// since returns the difference from an earlier fleet. It returns false if the page must read
// everything again.
func (s *snapshot) since(before *snapshot, revision uint64) (change, bool) {
	if before == nil || s.Title != before.Title || len(s.Views) != len(before.Views) || !slices.Equal(s.kinds(), before.kinds()) {
		return change{}, false
	}
	c := change{Revision: revision, Tiles: map[int]tile{}, aside: s.aside()}
	for i, v := range s.Views {
		if v == before.Views[i] {
			continue
		}
		if v.Name != before.Views[i].Name || len(c.Tiles) > len(s.Views)/maxChanged {
			return change{}, false
		}
		c.Tiles[i] = s.tiles[i]
	}
	return c, true
}
