package nodemap

import (
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/request"
)

// part is a piece of a bar.
type part struct {
	use    Use
	pod    int // position in Map.Pods, or noPod
	amount int64
}

// amounts is the content of a bar: the amount of a resource on a NUMA node and its parts by pod.
// What the parts leave of whole is free.
type amounts struct {
	name, value string
	about       string // the full text, for people who cannot see the bar
	whole       int64
	parts       []part
}

// memoryOf returns the bars of the NUMA node at that position: one for its memory without huge
// pages, and one for each size of huge pages that it has.
//
// If a pod has memory on several NUMA nodes together, it is not known how much is on which NUMA
// node. What the memory accounting has reserved on this NUMA node is divided among those pods in
// proportion to their amounts.
func (m Map) memoryOf(at int) []amounts {
	capacity, used := m.state.Memory().Capacity().Nodes()[at], m.state.Memory().Nodes()
	var bars []amounts
	for t, name := range m.state.Machine().MemoryTypes() {
		c := capacity.Types[t]
		whole := c.Allocatable + c.SystemReserved
		if !c.Listed || whole == 0 {
			continue
		}
		bar := amounts{name: name, whole: whole, value: request.RoundedBytes(whole)}
		if size, huge := strings.CutPrefix(name, request.HugePagesPrefix); huge {
			bar.name = size + " pages"
		}
		bar.about = bar.name + " of NUMA node " + strconv.Itoa(capacity.ID) + ": " + request.RoundedBytes(whole)
		if m.state.Policy().StaticMemory {
			if c.SystemReserved > 0 {
				bar.parts = append(bar.parts, part{UseReserved, noPod, c.SystemReserved})
			}
			group := used[at].Group
			var all int64
			for _, u := range used {
				if group.Has(u.ID) {
					all += u.Reserved[t]
				}
			}
			bar.parts = append(bar.parts, m.holders(name, capacity.ID, used[at].Reserved[t], all)...)
			bar.value = bytesOf(used[at].Free[t], c.Allocatable) + " free"
			bar.about += ", " + bar.value + ", " + request.RoundedBytes(c.SystemReserved) + " reserved for the system"
			if group.Len() > 1 {
				bar.about += "; used as a group with NUMA nodes " + group.Without(capacity.ID).String()
			}
			bar.about += m.partsText(bar.parts, request.RoundedBytes)
		}
		bars = append(bars, bar)
	}
	return bars
}

// holders returns each pod's part of the here bytes that are reserved on one NUMA node. all is the
// number of bytes reserved on its whole group.
func (m Map) holders(typ string, id int, here, all int64) []part {
	var parts []part
	for i, pod := range m.Pods {
		g, _ := m.state.Grant(pod.UID)
		var assigned int64
		for _, b := range g.Charged() {
			if b.Type == typ && b.Nodes.Has(id) {
				assigned += b.Size
			}
		}
		if assigned > 0 && all > 0 {
			parts = append(parts, part{UseExclusive, i, int64(float64(assigned) * (float64(here) / float64(all)))})
		}
	}
	return parts
}

func (m Map) partsText(parts []part, text func(int64) string) string {
	var words []string
	for _, p := range parts {
		if p.pod != noPod {
			words = append(words, m.Pods[p.pod].Pod+" "+text(p.amount))
		}
	}
	if words == nil {
		return ""
	}
	return "; " + strings.Join(words, ", ")
}

// bytesOf returns a text such as "24 of 96 GiB". It has both units if they differ.
func bytesOf(some, all int64) string {
	a, b := request.RoundedBytes(some), request.RoundedBytes(all)
	number, unit, _ := strings.Cut(a, " ")
	if _, same, _ := strings.Cut(b, " "); unit == same || some == 0 {
		a = number
	}
	return a + " of " + b
}
