package view

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Repair describes the repair that must come first if a kubelet runs and would not start again on
// its files.
type Repair struct {
	// Faults are the reasons why the kubelet does not start again.
	Faults []FileFault `json:"faults"`
	// Steps are the steps to take, in this order.
	Steps []string `json:"steps"`
	// Command is a command that shows what a repair of the files changes.
	Command string `json:"command"`
	// Before lists the pods that the start after the repair changes because of a fault of the
	// kubelet, and what to do about each of them beforehand.
	Before []BeforeStart `json:"before,omitempty"`
	// Admits reports whether the node admits the pod after the repair, according to a plan.
	Admits bool `json:"admits"`
	// Then describes what the pod then has, or why it is rejected even then.
	Then string `json:"then"`
}

// FileFault is the reason why a kubelet does not start on a file.
type FileFault struct {
	File string `json:"file"`
	What string `json:"what"`
}

// Order sets the steps. node is the name of the node, or empty. The kubelet must still run when a
// pod is deleted, because it ends the pod. If a pod is deleted before the node is cordoned, it can
// come back to the node.
func (r *Repair) Order(node string) {
	cordoned := slices.ContainsFunc(r.Before, func(b BeforeStart) bool { return b.Deleted != "" })
	for _, b := range r.Before {
		if save := saveDeleted(b); save != "" {
			r.Steps = append(r.Steps, fmt.Sprintf("for pod %s: %s", b.Pod, save))
		}
	}
	if cordoned {
		r.Steps = append(r.Steps, cordon(node))
	}
	for _, b := range r.Before {
		r.Steps = append(r.Steps, b.step())
	}
	repair := "repair its files on the node with \"paddock state repair\""
	if r.Command != "" {
		repair = fmt.Sprintf("%s; %q shows what changes", repair, r.Command)
	}
	r.Steps = append(r.Steps, "stop the kubelet", repair, "start the kubelet")
	if cordoned {
		r.Steps = append(r.Steps, uncordon(node))
	}
}

// cordon and uncordon return the step for a node, whose name may be unknown.
func cordon(node string) string { return onNode("cordon", node) }

func uncordon(node string) string { return onNode("uncordon", node) }

func onNode(verb, node string) string {
	if node == "" {
		return verb + " the node"
	}
	return fmt.Sprintf("%s the node: kubectl %s %s", verb, verb, node)
}

// BeforeStart is a pod that the start of a kubelet changes.
type BeforeStart struct {
	Pod   string `json:"pod"`
	Quirk string `json:"quirk,omitempty"`
	Why   string `json:"why"`
	Do    string `json:"do"`
	// Deleted describes how the pod is created again if it must be deleted on a cordoned node. It
	// is empty if the pod need not be deleted.
	Deleted podspec.Recreation `json:"deleted,omitempty"`
}

// saveDeleted returns how to save the manifest of a pod that must be deleted, or "".
func saveDeleted(b BeforeStart) string {
	if b.Deleted == "" {
		return ""
	}
	return SaveFirst(b.Pod, b.Deleted)
}

// step returns what to do about the pod.
func (b *BeforeStart) step() string {
	why := b.Why
	if b.Quirk != "" {
		why = b.Quirk + ": " + why
	}
	do := fmt.Sprintf("for pod %s, %s", b.Pod, b.Do)
	switch b.Deleted {
	case "":
	case podspec.ByController:
		do = fmt.Sprintf("delete pod %s, so that it is created again on another node, and wait until it is gone", b.Pod)
	case podspec.ByHand, podspec.Unknown:
		do = fmt.Sprintf("delete pod %s, wait until it is gone, and create it again on another node", b.Pod)
	}
	return fmt.Sprintf("%s; otherwise the next start of the kubelet changes what the pod has (%s)", do, why)
}

// repair prints the repair that must come first.
func (w *explanation) repair(pod string, r *Repair) {
	w.paragraph("", "  ", terminal.Bad.Of("repair first:"), terminal.Strong.Of("the kubelet does not start again on the files of this node"))
	for _, f := range r.Faults {
		w.sentence(terminal.Plain.Of(f.File + ": " + f.What))
	}
	w.sentence(terminal.Warn.Of("do, in this order:"))
	for i, step := range r.Steps {
		w.sentence(terminal.Plain.Of(fmt.Sprintf("%d. %s", i+1, step)))
	}
	then, tone := pod+" is admitted, with "+r.Then, terminal.Good
	if !r.Admits {
		then, tone = pod+" is "+r.Then+" even then", terminal.Bad
	}
	w.sentence(terminal.Plain.Of("after that:"), tone.Of(then))
	w.out.WriteByte('\n')
}
