package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// LikeHelp describes the columns for the help of commands.
const LikeHelp = `  MOST CPUS               with the memory of the manifest
  MOST MEMORY             with the CPUs of the manifest
  IN PROPORTION           CPUs with as much memory for each as in the manifest
  MOST CPUS, THEN MEMORY  the most CPUs with any amount of memory, and then the most memory with them`

// FleetLargest lists the largest pods that the nodes of a fleet would take now.
type FleetLargest struct {
	Nodes int `json:"nodes"`
	// Pods counts the pods that were placed before. It is nil if there were none.
	Pods *FleetPods   `json:"pods,omitempty"`
	Pod  string       `json:"pod"`
	Like explain.Like `json:"like"`
}

// Text formats the answer for people.
func (f *FleetLargest) Text(style terminal.Style) string {
	head := fmt.Sprintf("The largest pods like %s on this fleet of %s", f.Pod, Nodes(f.Nodes))
	if f.Pods != nil {
		head += fmt.Sprintf(", after placing %s of %s", grouped(f.Pods.Placed), podCount(f.Pods.Asked))
	}
	return style.Paint(terminal.Strong, head) + "\n" + likeText(&f.Like, true, style)
}

// likeText formats sizes of pods. With nodes, it shows how many nodes take each of them.
func likeText(l *explain.Like, nodes bool, style terminal.Style) string {
	var out strings.Builder
	asks := []string{}
	if l.CPUs > 0 {
		asks = append(asks, Count(l.CPUs, "CPU"))
	}
	if l.Bytes > 0 {
		asks = append(asks, quantity(l.Bytes))
	}
	line := fmt.Sprintf("Container %s grows", l.Container)
	if len(asks) > 0 {
		line += ", which asks for " + strings.Join(asks, " and ")
	} else {
		line = "No container has exclusive CPUs or pinned memory, so that no policy limits the size of the pod; for that, every container needs limits equal to its requests, and whole CPUs"
	}
	if len(asks) > 0 && l.Device != "" && l.DeviceContainer != l.Container {
		line += fmt.Sprintf("; container %s has the devices", l.DeviceContainer)
	}
	if len(asks) > 0 && l.BudgetCPUs > 0 {
		line += fmt.Sprintf("; the budget of the pod, %s, grows by as much", budgetText(l))
	}
	out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(line+".")))
	if len(asks) == 0 {
		return out.String()
	}
	columns := likeColumns(l)
	out.WriteString("\n" + likeTable(l, columns, nodes).Text(style))
	for _, why := range likeWhys(l, columns) {
		out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(why)))
	}
	for _, note := range l.Notes {
		out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("note"), terminal.Plain.Of(" "+note)))
	}
	return out.String()
}

// quantity formats bytes so that a manifest can contain them.
func quantity(bytes int64) string {
	return explain.Amount{Resource: request.Memory, Value: bytes}.Quantity()
}

// likeColumn is the column of one pod in each row.
type likeColumn struct {
	title string
	of    func(r *explain.LikeSizes) *explain.LikeSize
	text  func(s *explain.LikeSize) string
}

// likeColumns returns the columns that the pod has a meaning for.
func likeColumns(l *explain.Like) []likeColumn {
	cpus := func(s *explain.LikeSize) string { return Count(s.CPUs, "CPU") }
	bytes := func(s *explain.LikeSize) string { return quantity(s.Bytes) }
	both := func(s *explain.LikeSize) string { return cpus(s) + ", " + bytes(s) }
	withMemory := l.Bytes > 0 && !l.Unlimited
	var columns []likeColumn
	if l.CPUs > 0 {
		columns = append(columns, likeColumn{"MOST CPUS" + with(withMemory, quantity(l.Bytes)), func(r *explain.LikeSizes) *explain.LikeSize { return r.MostCPUs }, cpus})
	}
	if withMemory {
		columns = append(columns, likeColumn{"MOST MEMORY" + with(l.CPUs > 0, Count(l.CPUs, "CPU")), func(r *explain.LikeSizes) *explain.LikeSize { return r.MostMemory }, bytes})
	}
	if l.CPUs > 0 && withMemory {
		columns = append(columns,
			likeColumn{"IN PROPORTION", func(r *explain.LikeSizes) *explain.LikeSize { return r.InProportion }, both},
			likeColumn{"MOST CPUS, THEN MEMORY", func(r *explain.LikeSizes) *explain.LikeSize { return r.MostCPUsThenMemory }, both})
	}
	return columns
}

func likeTable(l *explain.Like, columns []likeColumn, nodes bool) *terminal.Table {
	t := &terminal.Table{}
	column := func(title string) {
		t.Columns = append(t.Columns, terminal.Column{Title: title, Align: terminal.Right})
	}
	if l.Device != "" {
		column(strings.ToUpper(l.Device))
	}
	for _, c := range columns {
		column(c.title)
		if nodes {
			column("NODES")
		}
	}
	for i := range l.Sizes {
		r := &l.Sizes[i]
		var cells []terminal.Cell
		if l.Device != "" {
			cells = append(cells, terminal.Cell{Text: strconv.FormatInt(r.Devices, 10)})
		}
		for _, c := range columns {
			found := c.of(r)
			cell, count := terminal.Bad.Of("none"), 0
			if found != nil {
				cell, count = likeCell(found, c.text), found.Nodes
			}
			cells = append(cells, cell)
			if nodes {
				cells = append(cells, terminal.Cell{Text: grouped(int64(count))})
			}
		}
		t.Cells(cells...)
	}
	return t
}

func likeCell(s *explain.LikeSize, text func(*explain.LikeSize) string) terminal.Cell {
	words := orMore(text(s), s.More)
	switch {
	case s.AlignedCPUs > 0:
		return terminal.Warn.Of(words + fmt.Sprintf("; aligned up to %d", s.AlignedCPUs))
	case s.NotAligned:
		return terminal.Warn.Of(words + ", not aligned")
	}
	return terminal.Cell{Text: words}
}

// likeWhys returns the reasons why no pod is found: one for each number of devices without any pod,
// and one for the first number with only some of the pods.
func likeWhys(l *explain.Like, columns []likeColumn) (whys []string) {
	some := false
	for i := range l.Sizes {
		r := &l.Sizes[i]
		missing := slices.ContainsFunc(columns, func(c likeColumn) bool { return c.of(r) == nil })
		if r.Why == "" || !missing || !r.None() && some {
			continue
		}
		some = some || !r.None()
		asked := []string{}
		if l.Device != "" {
			asked = append(asked, fmt.Sprintf("%d %s", r.Devices, l.Device))
		}
		if l.CPUs > 0 && !r.None() {
			asked = append(asked, Count(l.CPUs, "CPU"))
		}
		if l.Bytes > 0 && !r.None() {
			asked = append(asked, quantity(l.Bytes))
		}
		prefix := ""
		if len(asked) > 0 {
			prefix = "with " + strings.Join(asked, ", ") + ": "
		}
		whys = append(whys, prefix+r.Why)
	}
	return whys
}

// with returns a text in parentheses, if there is any.
func with(is bool, text string) string {
	if !is {
		return ""
	}
	return " (" + text + ")"
}

// budgetText formats the pod-level budget in the manifest.
func budgetText(l *explain.Like) string {
	text := Count(l.BudgetCPUs, "CPU")
	if l.BudgetBytes > 0 {
		text += " and " + quantity(l.BudgetBytes)
	}
	return text
}
