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

// FleetLargest has the largest pods that the nodes of a fleet would take now.
type FleetLargest struct {
	Nodes int          `json:"nodes"`
	Pod   string       `json:"pod"`
	Like  explain.Like `json:"like"`
}

// Text formats the answer for people.
func (f *FleetLargest) Text(style terminal.Style) string {
	return style.Paint(terminal.Strong, fmt.Sprintf("The largest pods like %s on this fleet of %s", f.Pod, Nodes(f.Nodes))) + "\n" + likeText(&f.Like, true, style)
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
		line += "; the budget of the pod grows with it"
	}
	out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(line+".")))
	if len(asks) == 0 {
		return out.String()
	}
	out.WriteString("\n" + likeTable(l, nodes).Text(style))
	for _, r := range l.Sizes {
		if r.Why != "" {
			prefix := ""
			if l.Device != "" {
				prefix = fmt.Sprintf("with %d %s: ", r.Devices, l.Device)
			}
			out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(prefix+r.Why)))
		}
	}
	return out.String()
}

// quantity formats bytes such that a manifest can have them.
func quantity(bytes int64) string {
	return explain.Amount{Resource: request.Memory, Value: bytes}.Quantity()
}

func likeTable(l *explain.Like, nodes bool) *terminal.Table {
	t := &terminal.Table{}
	column := func(title string) {
		t.Columns = append(t.Columns, terminal.Column{Title: title, Align: terminal.Right})
		if nodes {
			t.Columns = append(t.Columns, terminal.Column{Title: "NODES", Align: terminal.Right})
		}
	}
	if l.Device != "" {
		t.Columns = append(t.Columns, terminal.Column{Title: strings.ToUpper(l.Device), Align: terminal.Right})
	}
	if l.CPUs > 0 {
		column("MOST CPUS" + with(l.Bytes > 0 && !l.Unlimited, quantity(l.Bytes)))
	}
	withMemory := l.Bytes > 0 && !l.Unlimited
	if withMemory {
		column("MOST MEMORY" + with(l.CPUs > 0, Count(l.CPUs, "CPU")))
	}
	if l.CPUs > 0 && withMemory {
		column("IN PROPORTION")
	}
	for _, r := range l.Sizes {
		var cells []terminal.Cell
		cell := func(field, text string, is bool, places int) {
			switch {
			case !is:
				cells = append(cells, terminal.Bad.Of("none"))
			case slices.Contains(r.Apart, field):
				if !strings.Contains(text, "aligned up to") {
					text += ", not aligned"
				}
				cells = append(cells, terminal.Warn.Of(text))
			default:
				cells = append(cells, terminal.Cell{Text: text})
			}
			if nodes {
				cells = append(cells, terminal.Cell{Text: grouped(int64(places))})
			}
		}
		if l.Device != "" {
			cells = append(cells, terminal.Cell{Text: strconv.FormatInt(r.Devices, 10)})
		}
		if l.CPUs > 0 {
			cell("mostCPUs", cpusText(l, r.MostCPUs)+alignedUpTo(r.AlignedCPUs), r.MostCPUs > 0, r.CPUPlaces)
		}
		if withMemory {
			cell("mostMemory", orMore(bytesText(l, r.MostBytes), r.MoreBytes), r.MostBytes > 0, r.BytePlaces)
		}
		if l.CPUs > 0 && withMemory {
			cell("proportionalCPUs", cpusText(l, r.Share)+", "+bytesText(l, r.ShareBytes)+alignedUpTo(r.AlignedShare), r.Share > 0, r.SharePlaces)
		}
		t.Cells(cells...)
	}
	return t
}

// with returns a text in parentheses, if there is any.
func with(is bool, text string) string {
	if !is {
		return ""
	}
	return " (" + text + ")"
}

// alignedUpTo formats the largest number of CPUs with which a pod is aligned, if it is not the
// largest number that is admitted.
func alignedUpTo(cpus int) string {
	if cpus == 0 {
		return ""
	}
	return fmt.Sprintf("; aligned up to %d", cpus)
}

// cpusText formats CPUs of the container, with the pod-level budget that belongs to them.
func cpusText(l *explain.Like, cpus int) string {
	if l.BudgetCPUs == 0 {
		return Count(cpus, "CPU")
	}
	return fmt.Sprintf("%s (budget %d)", Count(cpus, "CPU"), l.BudgetCPUs+cpus-l.CPUs)
}

// bytesText formats memory of the container in the same way.
func bytesText(l *explain.Like, bytes int64) string {
	if l.BudgetBytes == 0 {
		return quantity(bytes)
	}
	return fmt.Sprintf("%s (budget %s)", quantity(bytes), quantity(l.BudgetBytes+bytes-l.Bytes))
}
