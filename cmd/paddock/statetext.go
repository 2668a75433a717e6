package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/view"
)

// text is the state for reading.
func (s *shownState) text(m *machine.Machine, style view.Style) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", style.Paint(view.Strong, s.File), style.Paint(view.Plain, s.title()))
	facts := view.Table{Columns: make([]view.Column, 2)}
	fact := func(name, value string, tone view.Tone) {
		facts.Cells(view.Cell{Text: name, Tone: view.Faint}, view.Cell{Text: value, Tone: tone})
	}
	s.facts(fact)
	out.WriteString(facts.Text(style))
	if table := s.podTable(); table != nil {
		out.WriteString("\n" + table.Text(style))
	}
	if len(s.NUMANodes) > 0 {
		out.WriteString("\n" + s.nodeTable().Text(style))
	}
	if m != nil && s.SharedPool != nil {
		out.WriteString("\n" + s.drawing(m).Text(style))
	}
	return out.String()
}

func (s *shownState) title() string {
	if s.Manager == "Paddock" {
		return "Paddock's state, version " + s.Version + ", " + s.Policy
	}
	return fmt.Sprintf("state of the kubelet's %s, version %s", s.Manager, s.Version)
}

func (s *shownState) facts(fact func(name, value string, tone view.Tone)) {
	tone := func(good bool) view.Tone {
		if good {
			return view.Good
		}
		return view.Bad
	}
	kubelets := strings.Join(s.ReadBy, "; ")
	kubelets = strings.Replace(kubelets, "1.35", "1.35 and older", 1)
	if kubelets == "" {
		kubelets = "no kubelet"
	}
	fact("read by", kubelets, tone(len(s.ReadBy) > 0))
	if s.DataChecksum != "" {
		fact("data checksum", s.DataChecksum, tone(s.Holds))
		fact("checksum for older kubelets", s.Checksum, tone(s.checksum.Holds()))
	} else {
		fact("checksum", s.Checksum, tone(s.Holds))
	}
	if s.Manager != "Paddock" {
		fact("policy", s.Policy, view.Plain)
	}
	if s.SharedPool != nil {
		fact("node shared pool", cpusText(*s.SharedPool), view.Plain)
	}
	if len(s.Unknown) > 0 {
		fact("unknown fields", strings.Join(s.Unknown, ", "), view.Warn)
	}
	if len(s.Pods) == 0 {
		fact("pods", "none has assignments", view.Plain)
	}
}

// cpusText is a list of CPUs for reading, with their number; what is no list stands as it is.
func cpusText(list string) string {
	set, err := cpuset.Parse(list)
	switch {
	case err != nil:
		return fmt.Sprintf("%q, which is no list of CPUs", list)
	case set.IsEmpty():
		return "none"
	}
	return fmt.Sprintf("%s (%d)", view.CPUs(set), set.Len())
}

func (s *shownState) podTable() *view.Table {
	if len(s.Pods) == 0 {
		return nil
	}
	t := &view.Table{Columns: []view.Column{{Title: "POD"}, {Title: "CONTAINER"}, {Title: "CPUS"}, {Title: "NUMA NODES"}, {Title: "MEMORY"}}}
	row := func(pod, container string, tone view.Tone, h shownHolding) {
		cpus := h.CPUs
		if cpus != "" {
			cpus = cpusText(cpus)
		}
		if h.Offline != "" {
			cpus += ", offline: " + h.Offline
		}
		var blocks []string
		for _, b := range h.Memory {
			blocks = append(blocks, fmt.Sprintf("%s of %s on NUMA %s", request.RoundedBytes(int64(b.Bytes)), b.Type, nodeList(b.NUMANodes)))
		}
		t.Cells(view.Cell{Text: pod, Tone: view.Strong}, view.Cell{Text: container, Tone: tone}, view.Cell{Text: cpus, Tone: tone},
			view.Cell{Text: h.NUMANodes, Tone: tone}, view.Cell{Text: strings.Join(blocks, ", "), Tone: tone})
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		title := p.title()
		if p.Estimated {
			title += " (estimated from cgroup numbers)"
		}
		if p.Pool != nil {
			row(title, "(pool)", view.Accent, *p.Pool)
			title = ""
		}
		for _, c := range p.Containers {
			row(title, c.Name, view.Plain, c.shownHolding)
			title = ""
		}
		if title != "" {
			row(title, "", view.Plain, shownHolding{})
		}
	}
	return t
}

func nodeList(nodes []int) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

func (s *shownState) nodeTable() *view.Table {
	t := &view.Table{Columns: []view.Column{
		{Title: "NUMA", Align: view.Right},
		{Title: "TYPE"},
		{Title: "TOTAL", Align: view.Right},
		{Title: "SYSTEM", Align: view.Right},
		{Title: "FOR PODS", Align: view.Right},
		{Title: "ASSIGNED", Align: view.Right},
		{Title: "FREE", Align: view.Right},
		{Title: "ASSIGNMENTS", Align: view.Right},
		{Title: "GROUP"},
	}}
	for _, n := range s.NUMANodes {
		group := ""
		if len(n.Group) > 1 {
			group = nodeList(n.Group)
		}
		// The kubelet calculates without signs, so that less than nothing is a large number.
		t.Row(strconv.Itoa(n.ID), n.Type, request.RoundedBytes(int64(n.Total)), request.RoundedBytes(int64(n.SystemReserved)),
			request.RoundedBytes(int64(n.Allocatable)), request.RoundedBytes(int64(n.Reserved)), request.RoundedBytes(int64(n.Free)),
			strconv.Itoa(n.Assignments), group)
	}
	return t
}

// letters are the marks of pods in a drawing, one after the other.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// The marks of CPUs that are no pod's.
const (
	markShared  = '.'
	markNobody  = '?'
	markSeveral = '!'
	markMore    = '#'
)

// drawn is how many CPUs stand on a line of a drawing.
const drawn = 64

// drawing has a line for each NUMA node, and in it a mark for each CPU.
func (s *shownState) drawing(m *machine.Machine) *view.Table {
	t := &view.Table{Columns: []view.Column{{Title: "NUMA NODE"}, {Title: "CPUS"}, {Title: "WHO"}}}
	marks := s.marks()
	for _, n := range m.CPUNodes() {
		ids := n.CPUs.IDs()
		name := strconv.Itoa(n.ID)
		for part := range slices.Chunk(ids, drawn) {
			var line strings.Builder
			for _, id := range part {
				if mark, has := marks[id]; has {
					line.WriteRune(mark)
				} else {
					line.WriteRune(markNobody)
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

// marks are the marks of the CPUs by id.
func (s *shownState) marks() map[int]rune {
	marks := map[int]rune{}
	put := func(list string, mark rune) {
		set, _ := cpuset.Parse(list) // what does not parse is empty
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
