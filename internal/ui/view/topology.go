package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Topology is a machine to be displayed.
type Topology struct {
	Name    string
	Machine *machine.Machine
	// PCI are the PCI devices of the machine that pods use.
	PCI []PCIDevice
	// Remarks are sentences below the machine.
	Remarks []string
}

// Tree formats the machine for reading: sockets, their NUMA nodes, and uncore caches if they divide
// NUMA nodes. If a NUMA node spans sockets, NUMA nodes come first. Sets of CPUs and lists of cores
// are shortened to patterns, so the number of lines does not depend on the number of CPUs.
func (t Topology) Tree(style terminal.Style) string {
	var out strings.Builder
	out.WriteString(t.summary(style) + "\n")
	out.WriteString(t.tree().Text(style))
	out.WriteString(t.isolation(style))
	out.WriteString(t.caches(style))
	if matrix := t.distances(); matrix != nil {
		out.WriteString("\n" + matrix.Text(style))
	}
	if len(t.PCI) > 0 {
		out.WriteString("\n" + t.devices().Text(style))
	}
	if len(t.Remarks) > 0 {
		out.WriteByte('\n')
	}
	for _, r := range t.Remarks {
		out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("note:"), terminal.Plain.Of(r)))
	}
	return out.String()
}

// isolation describes what the kernel keeps away from CPUs. It returns "" if that is nothing.
func (t Topology) isolation(style terminal.Style) string {
	i := t.Machine.Isolation()
	var out strings.Builder
	for _, l := range []struct {
		what string
		cpus cpuset.Set
	}{
		{"isolated CPUs (isolcpus):", i.Isolated}, {"without a timer tick (nohz_full):", i.NoHzFull}, {"without managed interrupts (isolcpus=managed_irq):", i.ManagedIRQ},
	} {
		if !l.cpus.IsEmpty() {
			out.WriteString(style.Paragraph("", "  ", terminal.Faint.Of(l.what), terminal.Plain.Of(CPUs(l.cpus))))
		}
	}
	if out.Len() == 0 {
		return ""
	}
	return "\n" + out.String()
}

// caches describes how the kernel can divide the L3 caches. It returns "" if it cannot.
func (t Topology) caches(style terminal.Style) string {
	c := t.Machine.Caches()
	if c.IsEmpty() {
		return ""
	}
	parts := []string{fmt.Sprintf("%d classes of service", c.Classes)}
	if c.Ways > 0 {
		text := Count(c.Ways, "way")
		if c.CodeAndData {
			text += " for code and for data (CDP)"
		}
		if c.LeastWays > 1 {
			text += fmt.Sprintf(", at least %d for a class", c.LeastWays)
		}
		if c.HardwareWays != 0 {
			text += ", of which hardware uses " + cache.Ways(c.HardwareWays).String()
		}
		parts = append(parts, text)
	}
	switch {
	case c.AbsoluteBandwidth:
		parts = append(parts, "memory bandwidth in absolute numbers, which is not divided")
	case c.DividesBandwidth():
		parts = append(parts, fmt.Sprintf("memory bandwidth from %d%% on, in steps of %d%%", c.LeastBandwidth, c.BandwidthStep))
	}
	return "\n" + style.Paragraph("", "  ", terminal.Faint.Of("each L3 cache can be divided (resctrl):"), terminal.Plain.Of(strings.Join(parts, "; ")))
}

func (t Topology) summary(style terminal.Style) string {
	m := t.Machine
	var memory int64
	for _, n := range m.Nodes() {
		memory += n.Memory
	}
	counts := []string{
		Count(len(m.Sockets()), "socket"), Count(len(m.Nodes()), "NUMA node"),
	}
	if levels := Levels(m); len(levels) == 3 {
		counts = append(counts, Count(len(levels[2].Units), "uncore cache"))
	}
	counts = append(counts, Count(len(m.Cores()), "core"), Count(len(m.CPUs()), "CPU"), request.RoundedBytes(memory))
	return style.Paragraph("", "  ", terminal.Strong.Of(t.Name+":"), terminal.Plain.Of(strings.Join(counts, ", ")))
}

func (t Topology) tree() *terminal.Table {
	table := &terminal.Table{Columns: terminal.Columns("TOPOLOGY", ">CPUS", "CPU IDS", "CORES", ">MEMORY", "HUGE PAGES")}
	levels := Levels(t.Machine)
	for _, u := range levels[0].Units {
		t.branch(table, "", "", u, levels)
	}
	var empty mask.Mask
	for _, n := range t.Machine.Nodes() {
		switch {
		case IsEmpty(n):
			empty = empty.With(n.ID)
		case n.CPUs.IsEmpty():
			t.row(table, "", NUMA, machine.Unit{ID: n.ID}, MemoryOnly(t.Machine, n))
		}
	}
	if !empty.IsEmpty() {
		text := Plural(empty.Len(), "NUMA node") + " " + empty.List()
		table.Cells(terminal.Faint.Of(text), terminal.Cell{}, terminal.Cell{}, terminal.Faint.Of("neither CPUs nor memory"))
	}
	return table
}

// IsEmpty reports whether a NUMA node has neither CPUs nor memory. Its id is reserved for a GPU's
// instances or for memory that may be plugged in. Some machines have dozens of them, so they are
// listed briefly.
func IsEmpty(n machine.Node) bool { return n.CPUs.IsEmpty() && n.Memory == 0 }

// branch adds a unit of the first level and, below it, its parts on the next level. first is the
// prefix of the unit's own line, and rest the prefix of the lines below it.
func (t Topology) branch(table *terminal.Table, first, rest string, u machine.Unit, levels []Level) {
	inner := Inside(t.Machine.Cores(), u.CPUs)
	if len(levels) == 1 {
		t.row(table, first, levels[0].Kind, u, cores(inner))
		return
	}
	t.row(table, first, levels[0].Kind, u, strconv.Itoa(len(inner)))
	parts := Inside(levels[1].Units, u.CPUs)
	for i, part := range parts {
		fork, below := "├─ ", "│  "
		if i == len(parts)-1 {
			fork, below = "└─ ", "   "
		}
		t.branch(table, rest+fork, rest+below, part, levels[1:])
	}
}

func (t Topology) row(table *terminal.Table, indent string, kind Kind, u machine.Unit, cores string) {
	row := []terminal.Cell{{Text: indent + string(kind) + " " + strconv.Itoa(u.ID)}, {}, {Text: CPUs(u.CPUs)}, {Text: cores}}
	if u.Size > 0 {
		row[1].Text = strconv.Itoa(u.Size)
	} else {
		row[3].Tone = terminal.Faint
	}
	switch kind {
	case Socket:
		row[0].Tone = terminal.Strong
	case NUMA:
		row[0].Tone = terminal.Accent
		n, _ := t.Machine.Node(u.ID)
		row = append(row, terminal.Cell{Text: request.RoundedBytes(n.Memory)}, terminal.Cell{Text: pools(n)})
	case Uncore:
	}
	table.Cells(row...)
}

// pools lists the sizes of huge pages of which the NUMA node has any.
func pools(n machine.Node) string {
	var parts []string
	for _, p := range n.HugePages {
		if p.Count > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", p.Count, strings.TrimPrefix(machine.HugePageType(p.SizeKiB), request.HugePagesPrefix)))
		}
	}
	return strings.Join(parts, ", ")
}

// MemoryOnly names the nearest NUMA nodes with CPUs of a NUMA node without CPUs.
func MemoryOnly(m *machine.Machine, n machine.Node) string {
	var near mask.Mask
	best := 0
	for _, with := range m.CPUNodes() {
		distance := m.Distance(with.ID, n.ID)
		switch {
		case distance == 0: // Not known.
		case near.IsEmpty(), distance < best:
			near, best = mask.Of(with.ID), distance
		case distance == best:
			near = near.With(with.ID)
		}
	}
	if near.IsEmpty() {
		return "memory only"
	}
	return "memory only, nearest to " + Plural(near.Len(), "node") + " " + NodeWords(near)
}

// NodeWords lists NUMA nodes for a sentence: "0, 1, 2".
func NodeWords(nodes mask.Mask) string {
	var words []string
	for n := range nodes.All() {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// distances returns the matrix of NUMA distances without empty NUMA nodes. It returns nil if there
// is only one NUMA node or if the distances are not known.
func (t Topology) distances() *terminal.Table {
	nodes := slices.DeleteFunc(slices.Clone(t.Machine.Nodes()), IsEmpty)
	if len(nodes) == 1 || !t.Machine.HasDistances() {
		return nil
	}
	table := &terminal.Table{Columns: terminal.Columns(">DISTANCE")}
	for _, n := range nodes {
		table.Columns = append(table.Columns, terminal.Column{Title: strconv.Itoa(n.ID), Align: terminal.Right})
	}
	for _, from := range nodes {
		row := []terminal.Cell{{Text: strconv.Itoa(from.ID), Tone: terminal.Faint}}
		for _, to := range nodes {
			cell := terminal.Cell{Text: strconv.Itoa(t.Machine.Distance(from.ID, to.ID))}
			if from.ID == to.ID {
				cell.Tone = terminal.Faint
			}
			row = append(row, cell)
		}
		table.Cells(row...)
	}
	return table
}

// PCIDevice is a PCI device to be displayed.
type PCIDevice struct {
	// Kind is for example "GPU". ID has the vendor and device numbers, for example "10de:2330".
	Address, Kind, ID string
	// NUMANode is nil and Root is empty if they are not known.
	NUMANode *int
	Root     string
	// Physical is the address of the physical function. It is set for a virtual function.
	Physical string
}

// devices lists the PCI devices by NUMA node and PCIe root, with those without a NUMA node last.
// Virtual functions are counted beside their physical function.
func (t Topology) devices() *terminal.Table {
	virtual := map[string]int{}
	var physical []PCIDevice
	for _, d := range t.PCI {
		known := slices.ContainsFunc(t.PCI, func(p PCIDevice) bool { return p.Address == d.Physical })
		if d.Physical != "" && known {
			virtual[d.Physical]++
		} else {
			physical = append(physical, d)
		}
	}
	numa := func(d PCIDevice) int {
		if d.NUMANode == nil {
			return mask.MaxNode + 1
		}
		return *d.NUMANode
	}
	slices.SortStableFunc(physical, func(a, b PCIDevice) int {
		return cmp.Or(cmp.Compare(numa(a), numa(b)), cmp.Compare(a.Root, b.Root), cmp.Compare(a.Address, b.Address))
	})
	table := &terminal.Table{Columns: terminal.Columns(">NUMA", "PCIE ROOT", "DEVICE", "KIND", "VENDOR:DEVICE", ">VIRTUAL FUNCTIONS")}
	for _, d := range physical {
		node, functions := "-", ""
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		if n := virtual[d.Address]; n > 0 {
			functions = strconv.Itoa(n)
		}
		table.Cells(terminal.Accent.Of(node), terminal.Cell{Text: orNone(d.Root)}, terminal.Cell{Text: d.Address},
			terminal.Cell{Text: d.Kind, Tone: terminal.Strong}, terminal.Cell{Text: d.ID}, terminal.Cell{Text: functions})
	}
	return table
}

// Table formats one line for each NUMA node with exact values for scripts: sets as cpusets, memory
// in bytes, the number of huge pages, and "-" for missing values. It has no colours and no remarks.
func (t Topology) Table() string {
	m := t.Machine
	table := &terminal.Table{Columns: terminal.Columns(">NODE", "SOCKETS", "UNCORES", ">CORES", ">CPUS", "CPUSET", ">MEMORY")}
	types := m.MemoryTypes()[1:]
	for _, name := range types {
		table.Columns = append(table.Columns, terminal.Column{Title: strings.ToUpper(name), Align: terminal.Right})
	}
	table.Columns = append(table.Columns, terminal.Column{Title: "DISTANCES"})
	isolated := m.Isolation().Isolated
	if !isolated.IsEmpty() {
		table.Columns = append(table.Columns, terminal.Column{Title: "ISOLATED"})
	}
	for _, n := range m.Nodes() {
		row := []string{
			strconv.Itoa(n.ID), ids(Inside(m.Sockets(), n.CPUs)), ids(Inside(m.Uncores(), n.CPUs)),
			strconv.Itoa(len(Inside(m.Cores(), n.CPUs))), strconv.Itoa(n.CPUs.Len()), orNone(n.CPUs.String()),
			strconv.FormatInt(n.Memory, 10),
		}
		for _, name := range types {
			row = append(row, pages(n, name))
		}
		var distances []string
		if m.HasDistances() {
			for _, to := range m.Nodes() {
				distances = append(distances, strconv.Itoa(m.Distance(n.ID, to.ID)))
			}
		}
		row = append(row, orNone(strings.Join(distances, ",")))
		if !isolated.IsEmpty() {
			row = append(row, orNone(isolated.Intersection(n.CPUs).String()))
		}
		table.Row(row...)
	}
	return table.Text(terminal.Style{})
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

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
