package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Topology is a machine to be shown.
type Topology struct {
	Name    string
	Machine *machine.Machine
	// Remarks are sentences that stand below it.
	Remarks []string
}

// Tree prints the machine for reading: sockets, their NUMA nodes, and uncore caches
// where they divide NUMA nodes. Where a NUMA node spans sockets, NUMA nodes come
// first. Sets of CPUs and lists of cores are shortened to patterns, so the number of
// lines does not depend on the number of CPUs.
func (t Topology) Tree(style Style) string {
	var out strings.Builder
	out.WriteString(t.summary(style) + "\n\n")
	out.WriteString(t.tree().Text(style))
	if matrix := t.distances(); matrix != nil {
		out.WriteString("\n" + matrix.Text(style))
	}
	t.remarks(&out, style)
	return out.String()
}

func (t Topology) remarks(out *strings.Builder, style Style) {
	if len(t.Remarks) > 0 {
		out.WriteByte('\n')
	}
	for _, r := range t.Remarks {
		out.WriteString(style.Paint(Warn, "note:") + " " + style.Paint(Plain, r) + "\n")
	}
}

func (t Topology) summary(style Style) string {
	m := t.Machine
	var memory int64
	for _, n := range m.Nodes() {
		memory += n.Memory
	}
	counts := []string{
		count(len(m.Sockets()), "socket"), count(len(m.Nodes()), "NUMA node"),
	}
	if t.showsUncores() {
		counts = append(counts, count(len(m.Uncores()), "uncore cache"))
	}
	counts = append(counts, count(len(m.Cores()), "core"), count(len(m.CPUs()), "CPU"), request.RoundedBytes(memory))
	return style.Paint(Strong, t.Name) + ": " + strings.Join(counts, ", ")
}

func count(n int, word string) string { return strconv.Itoa(n) + " " + plural(n, word) }

// level is a kind of unit in the tree. name is "socket", "NUMA node" or "uncore cache".
type level struct {
	name  string
	units []machine.Unit
}

// levels are the kinds of units from the outside to the inside.
func (t Topology) levels() []level {
	m := t.Machine
	sockets, nodes := level{"socket", m.Sockets()}, level{"NUMA node", m.CPUNodes()}
	levels := []level{sockets, nodes}
	if slices.ContainsFunc(nodes.units, func(n machine.Unit) bool { return len(inside(sockets.units, n.CPUs)) > 1 }) {
		levels = []level{nodes, sockets}
	}
	if t.showsUncores() {
		levels = append(levels, level{"uncore cache", m.Uncores()})
	}
	return levels
}

// showsUncores tells whether uncore caches are something else than the sockets, which
// take their place where none is reported, or the NUMA nodes.
func (t Topology) showsUncores() bool {
	same := func(a, b machine.Unit) bool { return a.CPUs.Equal(b.CPUs) }
	sorted := func(units []machine.Unit) []machine.Unit {
		units = slices.Clone(units)
		slices.SortFunc(units, func(a, b machine.Unit) int { return a.CPUs.Lowest() - b.CPUs.Lowest() })
		return units
	}
	uncores := sorted(t.Machine.Uncores())
	return !slices.EqualFunc(uncores, sorted(t.Machine.Sockets()), same) &&
		!slices.EqualFunc(uncores, sorted(t.Machine.CPUNodes()), same)
}

// inside are the units' parts that lie in cpus, without empty ones.
func inside(units []machine.Unit, cpus cpuset.Set) []machine.Unit {
	var parts []machine.Unit
	for _, u := range units {
		if part := u.CPUs.Intersection(cpus); !part.IsEmpty() {
			parts = append(parts, machine.Unit{ID: u.ID, CPUs: part, Size: part.Len()})
		}
	}
	return parts
}

func (t Topology) tree() *Table {
	table := &Table{Columns: []Column{
		{Title: "TOPOLOGY"},
		{Title: "CPUS", Align: Right},
		{Title: "CPU IDS"},
		{Title: "CORES"},
		{Title: "MEMORY", Align: Right},
		{Title: "HUGE PAGES"},
	}}
	levels := t.levels()
	for _, u := range levels[0].units {
		t.branch(table, "", "", u, levels)
	}
	var empty mask.Mask
	for _, n := range t.Machine.Nodes() {
		switch {
		case isEmpty(n):
			empty = empty.With(n.ID)
		case n.CPUs.IsEmpty():
			t.row(table, "", "NUMA node", machine.Unit{ID: n.ID}, t.memoryOnly(n))
		}
	}
	if !empty.IsEmpty() {
		text := plural(empty.Len(), "NUMA node") + " " + cpuset.Of(empty.Nodes()...).String()
		table.Cells(Cell{text, Faint}, Cell{}, Cell{}, Cell{"neither CPUs nor memory", Faint})
	}
	return table
}

// isEmpty tells of a NUMA node that only holds a place, for a GPU's instances or for
// memory that may be plugged in. Some machines have dozens, so they are kept short.
func isEmpty(n machine.Node) bool { return n.CPUs.IsEmpty() && n.Memory == 0 }

// branch adds a unit of the first level and, below it, its parts of the next one.
// first and rest are what stands left of the unit's own line and of those below it.
func (t Topology) branch(table *Table, first, rest string, u machine.Unit, levels []level) {
	inner := inside(t.Machine.Cores(), u.CPUs)
	if len(levels) == 1 {
		t.row(table, first, levels[0].name, u, cores(inner))
		return
	}
	t.row(table, first, levels[0].name, u, strconv.Itoa(len(inner)))
	parts := inside(levels[1].units, u.CPUs)
	for i, part := range parts {
		fork, below := "├─ ", "│  "
		if i == len(parts)-1 {
			fork, below = "└─ ", "   "
		}
		t.branch(table, rest+fork, rest+below, part, levels[1:])
	}
}

func (t Topology) row(table *Table, indent, kind string, u machine.Unit, cores string) {
	row := []Cell{{Text: indent + kind + " " + strconv.Itoa(u.ID)}, {}, {Text: CPUs(u.CPUs)}, {Text: cores}}
	if u.Size > 0 {
		row[1].Text = strconv.Itoa(u.Size)
	} else {
		row[3].Tone = Faint
	}
	switch kind {
	case "socket":
		row[0].Tone = Strong
	case "NUMA node":
		row[0].Tone = Accent
		n, _ := t.Machine.Node(u.ID)
		row = append(row, Cell{Text: request.RoundedBytes(n.Memory)}, Cell{Text: pools(n)})
	}
	table.Cells(row...)
}

// pools are the sizes of huge pages that have pages.
func pools(n machine.Node) string {
	var parts []string
	for _, p := range n.HugePages {
		if p.Count > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", p.Count, strings.TrimPrefix(machine.HugePageType(p.SizeKiB), request.HugePagesPrefix)))
		}
	}
	return strings.Join(parts, ", ")
}

// memoryOnly says of a NUMA node without CPUs to which ones with CPUs it is nearest.
func (t Topology) memoryOnly(n machine.Node) string {
	near := t.nearest(n)
	if near.IsEmpty() {
		return "memory only"
	}
	return "memory only, nearest to " + plural(near.Len(), "node") + " " + list(near)
}

func list(nodes mask.Mask) string {
	var words []string
	for n := range nodes.All() {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

func (t Topology) nearest(n machine.Node) mask.Mask {
	var near mask.Mask
	best := 0
	for _, with := range t.Machine.CPUNodes() {
		distance := t.Machine.Distance(with.ID, n.ID)
		switch {
		case distance == 0:
		case near.IsEmpty(), distance < best:
			near, best = mask.Of(with.ID), distance
		case distance == best:
			near = near.With(with.ID)
		}
	}
	return near
}

// distances is the matrix of NUMA distances, but for empty nodes; nil for one NUMA node
// or where they are not known.
func (t Topology) distances() *Table {
	nodes := slices.DeleteFunc(slices.Clone(t.Machine.Nodes()), isEmpty)
	if len(nodes) == 1 || !t.Machine.HasDistances() {
		return nil
	}
	table := &Table{Columns: []Column{{Title: "DISTANCE", Align: Right}}}
	for _, n := range nodes {
		table.Columns = append(table.Columns, Column{Title: strconv.Itoa(n.ID), Align: Right})
	}
	for _, from := range nodes {
		row := []Cell{{Text: strconv.Itoa(from.ID), Tone: Faint}}
		for _, to := range nodes {
			cell := Cell{Text: strconv.Itoa(t.Machine.Distance(from.ID, to.ID))}
			if from.ID == to.ID {
				cell.Tone = Faint
			}
			row = append(row, cell)
		}
		table.Cells(row...)
	}
	return table
}

// Table prints a line for each NUMA node with exact values, for scripts: sets as
// cpusets, memory in bytes, the number of huge pages, "-" for what is not there. It
// has no colours and no remarks.
func (t Topology) Table() string {
	m := t.Machine
	table := &Table{Columns: []Column{
		{Title: "NODE", Align: Right},
		{Title: "SOCKETS"},
		{Title: "UNCORES"},
		{Title: "CORES", Align: Right},
		{Title: "CPUS", Align: Right},
		{Title: "CPUSET"},
		{Title: "MEMORY", Align: Right},
	}}
	types := m.MemoryTypes()[1:]
	for _, name := range types {
		table.Columns = append(table.Columns, Column{Title: strings.ToUpper(name), Align: Right})
	}
	table.Columns = append(table.Columns, Column{Title: "DISTANCES"})
	for _, n := range m.Nodes() {
		row := []string{
			strconv.Itoa(n.ID), ids(inside(m.Sockets(), n.CPUs)), ids(inside(m.Uncores(), n.CPUs)),
			strconv.Itoa(len(inside(m.Cores(), n.CPUs))), strconv.Itoa(n.CPUs.Len()), orNone(n.CPUs.String()),
			strconv.FormatInt(n.Memory, 10),
		}
		for _, name := range types {
			row = append(row, pages(n, name))
		}
		table.Row(append(row, t.distancesFrom(n))...)
	}
	return table.Text(Style{})
}

func ids(units []machine.Unit) string {
	var words []string
	for _, u := range units {
		words = append(words, strconv.Itoa(u.ID))
	}
	return orNone(strings.Join(words, ","))
}

func pages(n machine.Node, name string) string {
	for _, p := range n.HugePages {
		if machine.HugePageType(p.SizeKiB) == name {
			return strconv.FormatInt(p.Count, 10)
		}
	}
	return "-"
}

func (t Topology) distancesFrom(from machine.Node) string {
	if !t.Machine.HasDistances() {
		return "-"
	}
	var words []string
	for _, to := range t.Machine.Nodes() {
		words = append(words, strconv.Itoa(t.Machine.Distance(from.ID, to.ID)))
	}
	return strings.Join(words, ",")
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
