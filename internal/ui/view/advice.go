package view

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
)

// Advice is what a person can do on a node whose kubelet decides, in place of moves. No program
// does it.
type Advice struct {
	// Delete are the pods to delete. When the larger pod has come first, each of them fits on the
	// node again, in whatever order they are created again.
	Delete []Deletion `json:"delete"`
}

// Deletion is a pod to delete: what it has, and what it gets when it is created again.
type Deletion struct {
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	FromCPUs  string `json:"fromCPUs"`
	ToCPUs    string `json:"toCPUs"`
	FromNodes []int  `json:"fromNUMANodes"`
	ToNodes   []int  `json:"toNUMANodes"`
	// Recreated is how the pod is created again: "by its controller", "by hand" if it has none, so
	// that its manifest has to be saved before, or "unknown".
	Recreated podspec.Recreation `json:"recreated"`
}

// DeletionOf returns a deletion on a machine.
func DeletionOf(m *machine.Machine, d moves.Deletion) Deletion {
	from, to := d.From.CPUs(), d.To.CPUs()
	return Deletion{
		Pod: d.From.Pod.ID(), UID: d.From.Pod.UID, FromCPUs: from.String(), ToCPUs: to.String(),
		FromNodes: m.NodesOf(from).Nodes(), ToNodes: m.NodesOf(to).Nodes(),
	}
}

// advice writes which pods to delete.
func (d *Defragmentation) advice(out *strings.Builder, style terminal.Style) {
	t := &terminal.Table{Columns: terminal.Columns("DELETE", "CPUS", ">NUMA", "THEN CPUS", ">NUMA")}
	var commands []string
	for _, p := range d.Advice.Delete {
		t.Row(p.Pod, p.FromCPUs, nodeList(p.FromNodes), p.ToCPUs, nodeList(p.ToNodes))
		namespace, name, _ := strings.Cut(p.Pod, "/")
		commands = append(commands, fmt.Sprintf("kubectl delete pod -n %s %s", namespace, name))
	}
	out.WriteString("\n" + t.Text(style))
	line := func(tone terminal.Tone, label, text string) {
		out.WriteString(style.Paragraph("", "  ", tone.Of(label), terminal.Plain.Of(text)))
	}
	if d.Certainty.IsUnsure() {
		line(terminal.Warn, "advice:", "nothing was changed, and a kubelet moves no running pod; "+KeepPods)
		return
	}
	for _, p := range d.Advice.Delete {
		if save := SaveFirst(p.Pod, p.Recreated); save != "" {
			line(terminal.Warn, p.Pod+":", save)
		}
	}
	line(terminal.Faint, "advice:", "nothing was changed, and a kubelet moves no running pod. Create the larger pod first, so that it waits, and then delete: "+strings.Join(commands, "; "))
	line(terminal.Faint, "verified:", "the larger pod was planned as this kubelet decides, and then these pods again, in every order: all of them fit")
}
