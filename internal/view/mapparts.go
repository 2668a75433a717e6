package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// part is a piece of a bar.
type part struct {
	use    Use
	pod    int // position in Map.Pods, or noPod
	amount int64
}

// amounts is what a bar shows: an amount of a NUMA node and who has which parts of it. What is
// left of whole is free.
type amounts struct {
	name, value string
	about       string // in full, for people who cannot see the bar
	whole       int64
	parts       []part
}

// sumOf adds up blocks of one type on the same NUMA nodes.
func sumOf(blocks []memory.Block) []PlanBlock {
	var sums []memory.Block
	for _, b := range blocks {
		at := slices.IndexFunc(sums, func(s memory.Block) bool { return s.Type == b.Type && s.Nodes == b.Nodes })
		if at < 0 {
			sums = append(sums, b)
			continue
		}
		sums[at].Size += b.Size
	}
	return planBlocks(sums)
}

// memoryOf are the bars of the NUMA node at that position: its memory but for huge pages, and
// each size of huge pages of which there is any.
//
// Of memory that a pod holds on several NUMA nodes together nobody knows how much is on
// which. What the books have on this one is shared out among the holders by what they hold.
func (m Map) memoryOf(at int) []amounts {
	capacity, used := m.state.Memory().Capacity().Nodes()[at], m.state.Memory().Nodes()
	var bars []amounts
	for t, name := range m.state.Machine().MemoryTypes() {
		c := capacity.Types[t]
		whole := c.Allocatable + c.SystemReserved
		if !c.Listed || whole == 0 {
			continue
		}
		bar := amounts{name: memoryName(name), whole: whole, value: request.RoundedBytes(whole)}
		bar.about = bar.name + " of NUMA node " + strconv.Itoa(capacity.ID) + ": " + request.RoundedBytes(whole)
		if m.state.Policy().StaticMemory {
			if c.SystemReserved > 0 {
				bar.parts = append(bar.parts, part{UseReserved, noPod, c.SystemReserved})
			}
			group := used[at].Group
			var booked int64
			for _, u := range used {
				if group.Has(u.ID) {
					booked += u.Reserved[t]
				}
			}
			bar.parts = append(bar.parts, m.holders(name, capacity.ID, used[at].Reserved[t], booked)...)
			bar.value = bytesOf(used[at].Free[t], whole) + " free"
			bar.about += ", " + request.RoundedBytes(used[at].Free[t]) + " free, " + request.RoundedBytes(c.SystemReserved) + " reserved for the system"
			if group.Len() > 1 {
				bar.about += "; used as a group with NUMA nodes " + group.Without(capacity.ID).String()
			}
			bar.about += m.partsText(bar.parts, request.RoundedBytes)
		}
		bars = append(bars, bar)
	}
	return bars
}

// holders are the pods' parts of what is booked on one NUMA node of a group that holds all.
func (m Map) holders(typ string, id int, here, all int64) []part {
	var parts []part
	for i, pod := range m.Pods {
		g, _ := m.state.Grant(pod.UID)
		var held int64
		for _, b := range g.Charged() {
			if b.Type == typ && b.Nodes.Has(id) {
				held += b.Size
			}
		}
		if held > 0 && all > 0 {
			parts = append(parts, part{UseExclusive, i, int64(float64(held) * (float64(here) / float64(all)))})
		}
	}
	return parts
}

func (m Map) partsText(parts []part, say func(int64) string) string {
	var words []string
	for _, p := range parts {
		if p.pod != noPod {
			words = append(words, m.Pods[p.pod].Pod+" "+say(p.amount))
		}
	}
	if words == nil {
		return ""
	}
	return "; " + strings.Join(words, ", ")
}

func memoryName(typ string) string {
	if size, huge := strings.CutPrefix(typ, request.HugePagesPrefix); huge {
		return size + " pages"
	}
	return typ
}

// bytesOf is "24 of 96 GiB", or with both units where they differ.
func bytesOf(some, all int64) string {
	a, b := request.RoundedBytes(some), request.RoundedBytes(all)
	number, unit, _ := strings.Cut(a, " ")
	if _, same, _ := strings.Cut(b, " "); unit == same || some == 0 {
		a = number
	}
	return a + " of " + b
}

// piece is one device, to be drawn as a cell.
type piece struct {
	use   Use
	pod   int
	about string
}

// devicesOf are the devices of a resource that are local to a NUMA node, or with device.NoNode
// those that report none.
func (m Map) devicesOf(resource string, id int) []piece {
	holder := map[string]int{}
	for i, pod := range m.Pods {
		g, _ := m.state.Grant(pod.UID)
		for _, h := range g.Devices() {
			for _, name := range h.IDs {
				if h.Resource == resource {
					holder[name] = i
				}
			}
		}
	}
	var pieces []piece
	for _, d := range m.state.Devices().Inventory().Devices(resource) {
		if !d.Nodes.Has(id) && (id != device.NoNode || !d.Nodes.IsEmpty()) {
			continue
		}
		p := piece{use: UseShared, pod: noPod, about: resource + " " + d.ID + deviceNodes(d.Nodes) + ": "}
		pod, held := holder[d.ID]
		switch {
		case held:
			p.use, p.pod = UseExclusive, pod
			p.about += "assigned to pod " + m.Pods[pod].Pod
		case d.Healthy:
			p.about += "free"
		}
		if !d.Healthy {
			p.about += "unhealthy"
			if !held {
				p.use = UseUnhealthy
			}
		}
		pieces = append(pieces, p)
	}
	return pieces
}

func deviceNodes(nodes mask.Mask) string {
	if nodes.IsEmpty() {
		return ""
	}
	return " on " + plural(nodes.Len(), "NUMA node") + " " + list(nodes)
}

// deviceBar is what is shown where devices are too many for cells of their own.
func (m Map) deviceBar(resource string, pieces []piece) amounts {
	bar := amounts{name: shortResource(resource), whole: int64(len(pieces))}
	free := 0
	for _, p := range pieces {
		if p.use == UseShared {
			free++
			continue
		}
		if at := slices.IndexFunc(bar.parts, func(b part) bool { return b.use == p.use && b.pod == p.pod }); at >= 0 {
			bar.parts[at].amount++
			continue
		}
		bar.parts = append(bar.parts, part{p.use, p.pod, 1})
	}
	slices.SortStableFunc(bar.parts, func(a, b part) int { return a.pod - b.pod })
	bar.value = strconv.Itoa(free) + " of " + strconv.Itoa(len(pieces)) + " free"
	bar.about = resource + ": " + bar.value + m.partsText(bar.parts, func(n int64) string { return strconv.FormatInt(n, 10) })
	return bar
}

// shortResource leaves the domain out of an extended resource's name.
func shortResource(resource string) string {
	return resource[strings.LastIndexByte(resource, '/')+1:]
}

// isMemoryOnly tells of a NUMA node that has memory and no CPUs.
func isMemoryOnly(n machine.Node) bool { return n.CPUs.IsEmpty() && !isEmpty(n) }
