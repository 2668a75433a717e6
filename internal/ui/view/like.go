package view

import (
	"fmt"
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
	return style.Paint(terminal.Strong, fmt.Sprintf("The largest pods like %s that %s would take now", f.Pod, Nodes(f.Nodes))) + "\n" + likeText(&f.Like, true, style)
}

// likeText formats sizes of pods. With nodes, it shows how many nodes take each of them.
func likeText(l *explain.Like, nodes bool, style terminal.Style) string {
	var out strings.Builder
	asks := []string{}
	if l.CPUs > 0 {
		asks = append(asks, Count(l.CPUs, "CPU"))
	}
	if l.Bytes > 0 {
		asks = append(asks, request.RoundedBytes(l.Bytes))
	}
	line := fmt.Sprintf("Container %s grows", l.Container)
	if len(asks) > 0 {
		line += ", which asks for " + strings.Join(asks, " and ")
	} else {
		line = "The pod has no exclusive CPUs and no pinned memory: no policy limits its size"
	}
	if l.Device != "" {
		line += fmt.Sprintf("; container %s has the devices", l.DeviceContainer)
	}
	out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(line+".")))
	if len(asks) == 0 && l.Device == "" {
		return out.String()
	}
	out.WriteString("\n" + likeTable(l, nodes).Text(style))
	return out.String()
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
		column("MOST CPUS")
	}
	if l.Bytes > 0 {
		column("MOST MEMORY")
	}
	if l.CPUs > 0 && l.Bytes > 0 {
		column("IN PROPORTION")
	}
	for _, r := range l.Sizes {
		var cells []terminal.Cell
		cell := func(text string, is bool, places int) {
			if !is {
				cells = append(cells, terminal.Bad.Of("none"))
			} else {
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
			cell(Count(r.MostCPUs, "CPU"), r.MostCPUs > 0, r.CPUPlaces)
		}
		if l.Bytes > 0 {
			cell(orMore(request.RoundedBytes(r.MostBytes), r.MoreBytes), r.MostBytes > 0, r.BytePlaces)
		}
		if l.CPUs > 0 && l.Bytes > 0 {
			cell(Count(r.Share, "CPU")+", "+request.RoundedBytes(r.ShareBytes), r.Share > 0, r.SharePlaces)
		}
		t.Cells(cells...)
	}
	return t
}
