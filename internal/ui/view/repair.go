package view

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// Repair is what to repair before anything else: a kubelet runs and does not start again on its
// files.
type Repair struct {
	// Faults are why the kubelet does not start again.
	Faults []FileFault `json:"faults"`
	// Command shows what a repair of the files changes.
	Command string `json:"command"`
	// Before are the pods that the start after the repair changes because of a fault of the
	// kubelet, and what to do about each before it.
	Before []BeforeStart `json:"before,omitempty"`
	// Admits is whether the pod is admitted after that, as planned.
	Admits bool `json:"admits"`
	// Then is what the pod then has, or why it is rejected even then.
	Then string `json:"then"`
}

// FileFault is why a kubelet does not start on a file.
type FileFault struct {
	File string `json:"file"`
	What string `json:"what"`
}

// BeforeStart is a pod that the start of a kubelet changes.
type BeforeStart struct {
	Pod   string `json:"pod"`
	Quirk string `json:"quirk,omitempty"`
	Why   string `json:"why"`
	Do    string `json:"do"`
}

// repair prints what to repair first.
func (w *explanation) repair(pod string, r *Repair) {
	w.paragraph("", "  ", terminal.Bad.Of("repair first:"), terminal.Strong.Of("the kubelet does not start again on the files of this node"))
	for _, f := range r.Faults {
		w.sentence(terminal.Plain.Of(f.File + ": " + f.What))
	}
	w.sentence(terminal.Warn.Of("do:"), terminal.Plain.Of(fmt.Sprintf("stop the kubelet, and repair its files with \"paddock state repair\" on the node before you start it again; %q shows what changes", r.Command)))
	for _, b := range r.Before {
		why := b.Why
		if b.Quirk != "" {
			why = b.Quirk + ": " + why
		}
		w.sentence(terminal.Warn.Of("before that start,"), terminal.Plain.Of(fmt.Sprintf("for %s: %s; otherwise the kubelet changes what the pod has (%s)", b.Pod, b.Do, why)))
	}
	then, tone := pod+" is admitted, with "+r.Then, terminal.Good
	if !r.Admits {
		then, tone = pod+" is "+r.Then+" even then", terminal.Bad
	}
	w.sentence(terminal.Plain.Of("after that:"), tone.Of(then))
	w.out.WriteByte('\n')
}
