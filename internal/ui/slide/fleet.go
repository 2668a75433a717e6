package slide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// The layout of a picture of a fleet, in pixels.
const (
	margin     = 60
	tileGap    = 22
	below      = 46 // the number of nodes, below a tile
	headHeight = 44 // of a kind
	firstRow   = 190
	lastRow    = Height - 70 // the legend is below
)

// grid has the sizes of tiles. A picture with few tiles uses larger ones.
type grid struct{ tile, numa float64 }

func gridOf(scale float64) grid { return grid{84 * scale, math.Round(13 * scale)} }

// coarsest is the largest step to which numbers of CPUs are rounded. Nodes that differ by more
// would not look alike.
const coarsest = 16

// row is the height of a row of tiles.
func (g grid) row() float64 { return g.tile + below }

// tile is a number of nodes of one kind that look the same.
type tile struct {
	// of is the name of the kind, in a picture with a tile for each kind.
	of    string
	numa  []fleet.Stock
	nodes int
	// memory is the assigned part of the memory, from 0 to 1. It is shown if memory is the limit.
	memory float64
}

// kind is a heading with its tiles. Tiles that represent the most nodes come first.
type kind struct {
	name, policy string
	nodes        int
	tiles        []tile
	// memory is set if a larger part of the memory is assigned than of the CPUs.
	memory bool
}

// Fleet returns the picture of a fleet: a tile for every group of equal nodes, with a bar for each
// NUMA node. If there is no room for all tiles, nodes whose numbers of CPUs differ by less than a
// step share one tile, which shows the mean.
func Fleet(title string, answer *view.Fleet, views []*fleet.View) *Picture {
	p := &Picture{title: title}
	p.label(label{x: margin, y: 74, size: 40, bold: true, text: title}, Width-2*margin)
	p.paragraph(label{x: margin, y: 118, size: 22, colour: soft, text: answer.Summary() + ". " + answer.StrandedText()}, Width-2*margin, 2)
	kinds, g, step := kindsOf(answer, views, 1), gridOf(1), 1
	for _, scale := range []float64{2.5, 2, 1.5} {
		if gridOf(scale).height(kinds) <= lastRow-firstRow {
			g = gridOf(scale)
			break
		}
	}
	for ; g.height(kinds) > lastRow-firstRow && step < coarsest; step *= 2 {
		kinds = kindsOf(answer, views, step*2)
	}
	if g.height(kinds) > lastRow-firstRow {
		kinds, step = together(kinds), 0
	}
	y, hidden := float64(firstRow), 0
	for _, k := range kinds {
		y, hidden = p.kind(g, k, y, hidden)
	}
	p.legend(step, hidden, slices.ContainsFunc(kinds, func(k kind) bool { return k.memory }))
	return p
}

// together returns one kind with a tile for each of many kinds.
func together(kinds []kind) []kind {
	all := kind{name: view.Count(len(kinds), "kind"), policy: "a tile is the mean of a kind"}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.nodes, a.nodes) })
	for _, k := range kinds {
		mean := tile{of: k.name}
		for _, t := range k.tiles {
			mean.add(t.numa, t.memory)
			mean.nodes += t.nodes - 1
		}
		all.nodes += k.nodes
		all.memory = all.memory || k.memory
		all.tiles = append(all.tiles, mean)
	}
	return []kind{all}
}

// height returns the height of the kinds.
func (g grid) height(kinds []kind) (sum float64) {
	for _, k := range kinds {
		x, rows := float64(margin), 1.0
		for _, t := range k.tiles {
			w := g.width(&k, &t)
			if x+w > Width-margin {
				x, rows = margin, rows+1
			}
			x += w + tileGap
		}
		sum += headHeight + rows*g.row()
	}
	return sum
}

func (g grid) width(k *kind, t *tile) float64 {
	w := float64(len(t.numa))*g.numa + 6
	if k.memory {
		w += g.numa + 4
	}
	if t.of != "" {
		w = max(w, 120) // for the name
	}
	return max(w, 46)
}

// kindsOf groups the nodes. Numbers of CPUs are rounded to steps.
func kindsOf(answer *view.Fleet, views []*fleet.View, step int) []kind {
	var kinds []kind
	at := map[string]int{}
	for _, k := range answer.Kinds {
		at[k.Kind] = len(kinds)
		kinds = append(kinds, kind{name: k.Kind, policy: k.Policy})
	}
	used := make([][2]float64, len(kinds)) // the assigned parts of CPUs and memory
	stocks, memories := make([][]fleet.Stock, len(views)), make([]float64, len(views))
	for j, v := range views {
		i, known := at[v.Kind]
		if !known {
			i = len(kinds)
			at[v.Kind] = i
			kinds, used = append(kinds, kind{name: v.Kind}), append(used, [2]float64{})
		}
		kinds[i].nodes++
		stocks[j], memories[j] = v.Stock(), memoryOf(v)
		used[i][0] += cpusOf(stocks[j])
		used[i][1] += memories[j]
	}
	for i := range kinds {
		kinds[i].memory = used[i][1] > used[i][0]
	}
	tiles := make([]map[string]int, len(kinds))
	for j, v := range views {
		i := at[v.Kind]
		k := &kinds[i]
		stock, memory := stocks[j], 0.0
		if k.memory { // Else it is not drawn, and does not tell tiles apart.
			memory = memories[j]
		}
		key := keyOf(stock, memory, step)
		if tiles[i] == nil {
			tiles[i] = map[string]int{}
		}
		n, seen := tiles[i][key]
		if !seen {
			n = len(k.tiles)
			tiles[i][key] = n
			k.tiles = append(k.tiles, tile{})
		}
		k.tiles[n].add(stock, memory)
	}
	for i := range kinds {
		slices.SortStableFunc(kinds[i].tiles, func(a, b tile) int { return cmp.Compare(b.nodes, a.nodes) })
	}
	return slices.DeleteFunc(kinds, func(k kind) bool { return k.nodes == 0 })
}

// add adds a node. The numbers of a tile are sums.
func (t *tile) add(stock []fleet.Stock, memory float64) {
	t.nodes++
	t.memory += memory
	for len(t.numa) < len(stock) {
		t.numa = append(t.numa, fleet.Stock{})
	}
	for i, s := range stock {
		n := &t.numa[i]
		n.NUMANode = s.NUMANode
		n.Shared += s.Shared
		n.Exclusive += s.Exclusive
		n.Pooled += s.Pooled
		n.Free += s.Free
		n.Stranded += s.Stranded
	}
}

func keyOf(stock []fleet.Stock, memory float64, step int) string {
	var key []byte
	part := func(n int) { key = strconv.AppendInt(append(key, ' '), int64((n+step/2)/step), 10) }
	for _, s := range stock {
		for _, n := range []int{s.Shared, s.Exclusive, s.Pooled, s.Free} {
			part(n)
		}
	}
	part(int(memory * 100))
	return string(key)
}

// cpusOf returns the part of the CPUs that pods have, from 0 to 1.
func cpusOf(stock []fleet.Stock) float64 {
	var has, all int
	for _, s := range stock {
		has += s.Exclusive + s.Pooled
		all += s.Exclusive + s.Pooled + s.Free
	}
	if all == 0 {
		return 0
	}
	return float64(has) / float64(all)
}

// memoryOf returns the part of the memory that is assigned to pods, from 0 to 1.
func memoryOf(v *fleet.View) float64 {
	state := v.State.Memory()
	var free, all int64
	for i, n := range state.Capacity().Nodes() {
		for t, name := range state.Capacity().Types() {
			if name == request.Memory {
				all += n.Types[t].Allocatable
				free += state.Nodes()[i].Free[t]
			}
		}
	}
	if all == 0 {
		return 0
	}
	return 1 - float64(free)/float64(all)
}

// kind draws a kind below y, as far as there is room, and returns the position of the next one.
func (p *Picture) kind(g grid, k kind, y float64, hidden int) (next float64, nowHidden int) {
	if y+headHeight+g.row() > lastRow {
		return y, hidden + k.nodes
	}
	text := k.name + " × " + view.Number(k.nodes)
	p.label(label{x: margin, y: y + 22, size: 22, bold: true, text: text}, 500)
	p.label(label{x: margin + measure(text, 22, true) + 16, y: y + 22, size: 16, colour: soft, text: k.policy}, Width-2*margin-measure(text, 22, true)-16)
	y += headHeight
	x := float64(margin)
	for i, t := range k.tiles {
		w := g.width(&k, &t)
		if x+w > Width-margin {
			if x, y = margin, y+g.row(); y+g.row() > lastRow {
				for _, rest := range k.tiles[i:] {
					hidden += rest.nodes
				}
				return y, hidden
			}
		}
		p.tile(g, &k, &t, x, y)
		x += w + tileGap
	}
	return y + g.row(), hidden
}

func (p *Picture) tile(g grid, k *kind, t *tile, x, y float64) {
	w := g.width(k, t)
	p.rect(x, y, w, g.tile, line)
	p.rect(x+1, y+1, w-2, g.tile-2, free)
	most := g.tile - 6
	room := w - 6
	if k.memory {
		room -= g.numa + 4
	}
	bar := room / float64(max(1, len(t.numa)))
	for i, n := range t.numa {
		all := float64(n.Shared + n.Exclusive + n.Pooled + n.Free)
		bottom, at := y+g.tile-3, x+3+float64(i)*bar
		p.rect(at, y+3, bar-2, most, line)
		p.rect(at+1, y+4, bar-4, most-2, free)
		part := func(n float64, fill tone) {
			if all > 0 {
				h := n / all * most
				bottom -= h
				p.rect(at, bottom, bar-2, h, fill)
			}
		}
		part(float64(n.Shared), shared)
		part(float64(n.Exclusive), exclusive)
		part(float64(n.Pooled), pooled)
		part(n.Stranded, stranded)
	}
	if k.memory {
		h := min(1, t.memory/float64(t.nodes)) * most
		p.rect(x+w-g.numa-2, y+g.tile-3-h, g.numa-2, h, memory)
	}
	p.label(label{x: x + w/2, y: y + g.tile + 20, size: 16, at: middle, text: strings.TrimSpace(t.of + " × " + view.Number(t.nodes))}, w+tileGap)
}

// legend explains the colours.
func (p *Picture) legend(step, hidden int, withMemory bool) {
	all := []entry{{exclusive, "exclusive CPUs"}, {pooled, "in pods' pools"}, {stranded, "free, stranded"}, {free, "free"}, {shared, "shared only"}}
	if withMemory {
		all = append(all, entry{memory, "memory, where it is the limit"})
	}
	x := p.entries(all...)
	note := "a bar is a NUMA node, a tile that many equal nodes"
	switch {
	case step == 0:
		note = "a bar is a NUMA node"
	case step > 1:
		note = fmt.Sprintf("a tile is that many nodes that differ by less than %d CPUs on a NUMA node", step)
	}
	if hidden > 0 {
		note += fmt.Sprintf("; %s not shown", view.Nodes(hidden))
	}
	p.note(x, note)
}
