package stateview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Text formats the state for reading, with a drawing if the machine is known.
func (s *State) Text(m *machine.Machine, style terminal.Style) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", style.Paint(terminal.Strong, s.File), style.Paint(terminal.Plain, s.title()))
	if s.Version == "" {
		return out.String() + s.deviceText(style)
	}
	facts := terminal.Table{Columns: make([]terminal.Column, 2)}
	fact := func(name, value string, tone terminal.Tone) {
		facts.Cells(terminal.Cell{Text: name, Tone: terminal.Faint}, terminal.Cell{Text: value, Tone: tone})
	}
	s.facts(fact)
	out.WriteString(facts.Text(style))
	if len(s.Pods) > 0 {
		out.WriteString("\n" + s.podTable().Text(style))
	}
	if len(s.NUMANodes) > 0 {
		accounting := &terminal.Table{Columns: terminal.Columns(">NUMA", "TYPE", ">TOTAL", ">SYSTEM", ">FOR PODS", ">ASSIGNED", ">FREE", ">ASSIGNMENTS", "GROUP")}
		for _, n := range s.NUMANodes {
			group := ""
			if len(n.Group) > 1 {
				group = nodeList(n.Group)
			}
			// The kubelet's numbers are unsigned, so a negative amount is a large number.
			accounting.Row(strconv.Itoa(n.ID), n.Type, request.RoundedBytes(int64(n.Total)), request.RoundedBytes(int64(n.SystemReserved)),
				request.RoundedBytes(int64(n.Allocatable)), request.RoundedBytes(int64(n.Reserved)), request.RoundedBytes(int64(n.Free)),
				strconv.Itoa(n.Assignments), group)
		}
		out.WriteString("\n" + accounting.Text(style))
	}
	if m != nil && s.SharedPool != nil {
		out.WriteString("\n" + s.drawing(m).Text(style))
	}
	return out.String()
}

func (s *State) title() string {
	if s.Manager == "Paddock" {
		return "Paddock's state, version " + s.Version + ", " + s.Policy
	}
	if s.Version == "" {
		return "state of the kubelet's " + s.Manager
	}
	return fmt.Sprintf("state of the kubelet's %s, version %s", s.Manager, s.Version)
}

func (s *State) facts(fact func(name, value string, tone terminal.Tone)) {
	tone := func(good bool) terminal.Tone {
		if good {
			return terminal.Good
		}
		return terminal.Bad
	}
	kubelets := strings.Join(s.ReadBy, "; ")
	kubelets = strings.Replace(kubelets, "1.35", "1.35 and older", 1)
	if kubelets == "" {
		kubelets = "no kubelet"
	}
	fact("read by", kubelets, tone(len(s.ReadBy) > 0))
	if s.DataChecksum != "" {
		fact("data checksum", s.DataChecksum, tone(s.Valid))
		fact("checksum for older kubelets", s.Checksum, tone(s.checksum.Valid()))
	} else {
		fact("checksum", s.Checksum, tone(s.Valid))
	}
	if s.Manager != "Paddock" {
		fact("policy", s.Policy, terminal.Plain)
	}
	if s.SharedPool != nil {
		fact("node shared pool", cpusText(*s.SharedPool), terminal.Plain)
	}
	if len(s.Unknown) > 0 {
		fact("unknown fields", strings.Join(s.Unknown, ", "), terminal.Warn)
	}
	if len(s.Pods) == 0 {
		fact("pods", "none has assignments", terminal.Plain)
	}
}

// cpusText formats a list of CPUs for reading, with their number. Text that is not a list is
// quoted.
func cpusText(list string) string {
	set, err := cpuset.Parse(list)
	switch {
	case err != nil:
		return fmt.Sprintf("%q, which is not a list of CPUs", list)
	case set.IsEmpty():
		return "none"
	}
	return fmt.Sprintf("%s (%d)", view.CPUs(set), set.Len())
}

func (s *State) podTable() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns("POD", "CONTAINER", "CPUS", "NUMA NODES", "MEMORY", "CACHE")}
	for i := range s.Pods {
		p := &s.Pods[i]
		title := p.title()
		if p.Estimated {
			title += " (estimated from cgroup numbers)"
		}
		if p.Pool != nil {
			addRow(t, title, "(pool)", terminal.Accent, *p.Pool)
			title = ""
		}
		for _, c := range p.Containers {
			addRow(t, title, c.Name, terminal.Plain, c.Assigned)
			title = ""
		}
		if title != "" {
			addRow(t, title, "", terminal.Plain, Assigned{})
		}
	}
	return t
}

func addRow(t *terminal.Table, pod, container string, tone terminal.Tone, a Assigned) {
	cpus := a.CPUs
	if cpus != "" {
		cpus = cpusText(cpus)
	}
	if a.Offline != "" {
		cpus += ", offline: " + a.Offline
	}
	t.Cells(terminal.Cell{Text: pod, Tone: terminal.Strong}, terminal.Cell{Text: container, Tone: tone}, terminal.Cell{Text: cpus, Tone: tone},
		terminal.Cell{Text: a.NUMANodes, Tone: tone}, terminal.Cell{Text: memoryText(a), Tone: tone},
		terminal.Cell{Text: view.SharesText(a.Cache), Tone: tone})
}

func nodeList(nodes []int) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// letters are the marks of pods in a drawing, in order.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// The marks of CPUs that are not those of one pod with a letter.
const (
	markShared  = '.'
	markNone    = '?'
	markSeveral = '!'
	markMore    = '#'
)

// cpusPerLine of a drawing fit a terminal of 100 columns. It is a power of two, as the number of
// CPUs of most machines is.
const cpusPerLine = 64

// drawing returns a table with a mark for each CPU, and one or more lines for each NUMA node.
func (s *State) drawing(m *machine.Machine) *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns("NUMA NODE", "CPUS", "WHO")}
	marks := s.marks()
	for _, n := range m.CPUNodes() {
		ids := n.CPUs.IDs()
		name := strconv.Itoa(n.ID)
		for part := range slices.Chunk(ids, cpusPerLine) {
			var line strings.Builder
			for _, id := range part {
				if mark, has := marks[id]; has {
					line.WriteRune(mark)
				} else {
					line.WriteRune(markNone)
				}
			}
			t.Row(name, view.CPUs(cpuset.Of(part...)), line.String())
			name = ""
		}
	}
	t.Row("")
	t.Row("", "", "each CPU in the order of its id: . shared, ? in no set (reserved strictly, or leaked), ! in several")
	for i := range s.Pods {
		if i < len(letters) {
			t.Row("", "", letters[i:i+1]+" "+s.Pods[i].title())
		}
	}
	if len(s.Pods) > len(letters) {
		t.Row("", "", string(markMore)+" other pods")
	}
	return t
}

// marks returns the marks of the CPUs by id.
func (s *State) marks() map[int]rune {
	marks := map[int]rune{}
	put := func(list string, mark rune) {
		set, _ := cpuset.Parse(list) // A list that does not parse is empty.
		for id := range set.All() {
			if old, has := marks[id]; has && old != mark {
				marks[id] = markSeveral
			} else {
				marks[id] = mark
			}
		}
	}
	put(*s.SharedPool, markShared)
	for i := range s.Pods {
		mark := markMore
		if i < len(letters) {
			mark = rune(letters[i])
		}
		if s.Pods[i].Pool != nil {
			put(s.Pods[i].Pool.CPUs, mark)
		}
		for _, c := range s.Pods[i].Containers {
			put(c.CPUs, mark)
		}
	}
	return marks
}
