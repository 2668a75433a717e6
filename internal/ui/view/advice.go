package view

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
)

// Advice describes what a person can do, instead of moves, on a node whose kubelet decides. No
// program carries it out.
type Advice struct {
	// Delete lists the pods to delete. Once the larger pod is there, each of them fits on the node
	// again, in whatever order they are created again.
	Delete []Deletion `json:"delete"`
	// Steps are the steps to take, in this order.
	Steps []string `json:"steps,omitempty"`
}

// Order sets the steps. node is the name of the node, or empty. A scheduler that compares only sums
// would bind the larger pod before there is room on one NUMA node, and the kubelet rejects a pod
// for good. If a controller created a deleted pod again, that scheduler would also bind it before
// the larger pod. The steps therefore cordon the node until the larger pod runs.
func (a *Advice) Order(node string) {
	a.Steps = nil
	if len(a.Delete) == 0 {
		return
	}
	var commands, again []string
	for _, p := range a.Delete {
		if save := SaveFirst(p.Pod, p.Recreated); save != "" {
			a.Steps = append(a.Steps, fmt.Sprintf("for pod %s: %s", p.Pod, save))
			again = append(again, p.Pod)
		}
		namespace, name, _ := strings.Cut(p.Pod, "/")
		commands = append(commands, fmt.Sprintf("kubectl delete pod -n %s %s", namespace, name))
	}
	gone, nodeName := "the pod and wait until it is gone", "the nodeName of this node"
	if len(commands) > 1 {
		gone = "the pods and wait until they are gone"
	}
	if node != "" {
		nodeName = "nodeName: " + node
	}
	a.Steps = append(a.Steps, cordon(node),
		fmt.Sprintf("delete %s: %s", gone, strings.Join(commands, "; ")),
		"create the larger pod with "+nodeName+" in its spec, because no scheduler binds it to a cordoned node, and wait until it runs",
		uncordon(node))
	if len(again) > 0 {
		a.Steps = append(a.Steps, fmt.Sprintf("create %s again, without nodeName", strings.Join(again, ", ")))
	}
}

// Deletion is a pod to delete, with what it has and what it gets when it is created again.
type Deletion struct {
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	FromCPUs  string `json:"fromCPUs"`
	ToCPUs    string `json:"toCPUs"`
	FromNodes []int  `json:"fromNUMANodes"`
	ToNodes   []int  `json:"toNUMANodes"`
	// Recreated describes how the pod is created again: "by its controller", "by hand" if it has
	// none, so that its manifest must be saved before, or "unknown".
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

// advice writes the list of pods to delete.
func (d *Defragmentation) advice(out *strings.Builder, style terminal.Style) {
	t := &terminal.Table{Columns: terminal.Columns("DELETE", "CPUS", ">NUMA", "THEN CPUS", ">NUMA")}
	for _, p := range d.Advice.Delete {
		t.Row(p.Pod, p.FromCPUs, nodeList(p.FromNodes), p.ToCPUs, nodeList(p.ToNodes))
	}
	out.WriteString("\n" + t.Text(style))
	line := func(tone terminal.Tone, label, text string) {
		out.WriteString(style.Paragraph("", "  ", tone.Of(label), terminal.Plain.Of(text)))
	}
	if d.Certainty.IsUnsure() {
		line(terminal.Warn, "advice:", "nothing was changed, and a kubelet moves no running pod; "+KeepPods)
		return
	}
	line(terminal.Warn, "do, in this order:", "")
	for i, step := range d.Advice.Steps {
		out.WriteString(style.Paragraph("  ", "     ", terminal.Plain.Of(fmt.Sprintf("%d. %s", i+1, step))))
	}
	line(terminal.Faint, "nothing was changed:", "a kubelet moves no running pod, and this command deletes none")
	line(terminal.Faint, "verified:", "the larger pod was planned as this kubelet decides, and then these pods again, in every order: all of them fit")
}
