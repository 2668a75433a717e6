package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Defragmentation is the answer of paddock defragment.
type Defragmentation struct {
	Machine string `json:"machine"`
	Policy  string `json:"policy"`
	explain.Defragmentation

	// Advice is set instead of moves where a kubelet decides. Certainty is how sure it is that this
	// kubelet acts in this way.
	Advice    *Advice    `json:"advice,omitempty"`
	Certainty *Certainty `json:"certainty,omitempty"`
}

// Gains reports whether the answer makes room for a larger pod.
func (d *Defragmentation) Gains() bool {
	return len(d.Moves) > 0 || d.Advice != nil && len(d.Advice.Delete) > 0
}

// Text formats the moves for people.
func (d Defragmentation) Text(style terminal.Style) string {
	var out strings.Builder
	out.WriteString(head(style, d.Machine, d.Policy, "", d.Certainty) + "\n")
	line := func(tone terminal.Tone, label, text string) {
		out.WriteString(style.Paragraph("", "  ", tone.Of(label), terminal.Plain.Of(text)))
	}
	out.WriteString(d.Certainty.unsureLines(style))
	gain := fmt.Sprintf("%s on NUMA node %d", Count(d.Before.CPUs, "CPU"), d.Before.Node)
	switch {
	case len(d.Moves) > 0:
		line(terminal.Good, "largest pod that fits:", fmt.Sprintf("%d → %s on NUMA node %d, after %s", d.Before.CPUs, Count(d.After.CPUs, "CPU"), d.After.Node, Count(len(d.Moves), "move")))
	case d.Gains():
		line(terminal.Good, "largest pod that fits:", fmt.Sprintf("%d → %s on NUMA node %d, without %s", d.Before.CPUs, Count(d.After.CPUs, "CPU"), d.After.Node, Count(len(d.Advice.Delete), "pod")))
	case d.Before.CPUs == 0:
		none := "none: no NUMA node has a free CPU"
		if d.Reason != "" {
			none = "none"
		}
		line(terminal.Warn, "largest pod that fits:", none)
	default:
		line(terminal.Good, "largest pod that fits:", gain)
	}
	if d.Reason != "" {
		line(terminal.Warn, "nothing to gain:", d.Reason)
	}
	if len(d.Moves) == 0 && d.Gains() {
		d.advice(&out, style)
	}
	if len(d.Moves) > 0 {
		out.WriteString("\n" + d.table().Text(style))
		memory := "no memory moves between NUMA nodes"
		if d.Bytes > 0 {
			memory = request.RoundedBytes(d.Bytes) + " of memory moves between NUMA nodes"
		}
		line(terminal.Faint, "cost:", memory+". Every move goes to CPUs and memory that are free then")
	}
	var asked []string
	for _, m := range d.Moves {
		if !m.Consents {
			asked = append(asked, m.Pod)
		}
	}
	if len(asked) > 0 {
		line(terminal.Warn, "consent is missing:", strings.Join(asked, ", ")+": annotation paddock-project.github.io/moves: anywhere")
	}
	if d.All != nil {
		line(terminal.Faint, "with the consent of all pods:", fmt.Sprintf("%s on NUMA node %d (--all)", Count(d.All.CPUs, "CPU"), d.All.Node))
	}
	if d.Cut {
		line(terminal.Warn, "not everything was looked at:", "there are more sets of pods than the search tries, so there may be better ones")
	}
	return out.String()
}

func (d Defragmentation) table() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns(">MOVE", "POD", "CPUS", ">NUMA", "TO CPUS", ">NUMA", ">MEMORY MOVED", ">LARGEST POD THEN")}
	for i, m := range d.Moves {
		memory := "-"
		if m.Bytes > 0 {
			memory = request.RoundedBytes(m.Bytes)
		}
		t.Row(strconv.Itoa(i+1), m.Pod, m.FromCPUs, nodeList(m.FromNodes), m.ToCPUs, nodeList(m.ToNodes), memory, Count(m.Largest.CPUs, "CPU"))
	}
	return t
}
