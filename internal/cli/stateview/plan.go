package stateview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Conversion describes the effects of a conversion in text.
func Conversion(p *treatment.Plan, style terminal.Style) string {
	if p.State != nil {
		return fmt.Sprintf("%d pods have assignments; the node shared pool is %s\n", p.State.NumGrants(), view.CPUs(p.State.SharedCPUs()))
	}
	text := fmt.Sprintf("for kubelet %s:\n\n", p.Kubelet)
	if len(p.Fates) > 0 {
		table := terminal.Table{Columns: terminal.Columns("POD", "WHAT THE KUBELET DOES WHEN IT STARTS")}
		for _, f := range p.Fates {
			table.Row(f.Pod, f.Text)
		}
		text += table.Text(style) + "\n"
	}
	return text + remarks(p)
}

// Repair describes the effects of a repair in text.
func Repair(p *treatment.Plan) string {
	if len(p.Files) == 0 {
		var text strings.Builder
		for _, m := range slices.Sorted(maps.Keys(p.Unprotected)) {
			fmt.Fprintf(&text, "check: the content of the %s's file is not protected (%s)\n", m, p.Unprotected[m])
		}
		return text.String() + "nothing to repair: the kubelet starts with it\n"
	}
	text := remarks(p)
	if len(p.Remarks) == 0 {
		text = "nothing changes but version and checksum\n\n"
	}
	if len(p.Steps) == 0 {
		return text
	}
	text += "the next start of the kubelet changes pods even after this repair: do, in this order:\n"
	for i, step := range p.Steps {
		text += fmt.Sprintf("  %d. %s\n", i+1, step)
	}
	return text + "\n"
}

// remarks lists first what a person must check, then what is lost, then what changes, followed by
// an empty line.
func remarks(p *treatment.Plan) string {
	var out strings.Builder
	for _, kind := range []struct {
		word string
		is   func(doctor.Remark) bool
	}{
		{"check", func(r doctor.Remark) bool { return r.Check }},
		{"lost", func(r doctor.Remark) bool { return r.Lost && !r.Check }},
		{"changed", func(r doctor.Remark) bool { return !r.Lost && !r.Check }},
	} {
		for _, r := range p.Remarks {
			if !kind.is(r) {
				continue
			}
			pod := ""
			if r.UID != "" {
				pod = "pod " + p.Pods.Name(r.UID) + ": "
			}
			fmt.Fprintf(&out, "%s: %s%s\n", kind.word, pod, r.What)
		}
	}
	if len(p.Remarks) > 0 {
		out.WriteByte('\n')
	}
	return out.String()
}
