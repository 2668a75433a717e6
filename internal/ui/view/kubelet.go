package view

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// Kubelet lists the differences between the answers of a kubelet and the plan. It is present if the
// kubelet's answer was requested.
type Kubelet struct {
	Version string `json:"version"`
	// Restart are the pods that get a different answer when this kubelet restarts with the state at
	// the end of the plan.
	Restart []quirk.Changed `json:"restart,omitempty"`
	// NoStart are the faults that prevent this kubelet from starting again.
	NoStart []quirk.Quirk `json:"noStart,omitempty"`
}

// maxNamed is how many pods are named of those that a fault changes in the same way.
const maxNamed = 3

// text describes the effect of a restart in one line for each fault.
func (k *Kubelet) text(style terminal.Style, wide bool) string {
	var out strings.Builder
	warn := func(format string, args ...any) {
		out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("restart"), terminal.Plain.Of(fmt.Sprintf(format, args...))))
	}
	rule := func(q quirk.Quirk) string {
		if !wide {
			return ""
		}
		return " (" + string(q.ID) + ")"
	}
	var order []quirk.Quirk
	pods := map[string][]string{}
	for _, changed := range k.Restart {
		for _, q := range changed.Quirks {
			if pods[q.Text] == nil {
				order = append(order, q)
			}
			pods[q.Text] = append(pods[q.Text], changed.Pod)
		}
	}
	for _, q := range order {
		named := pods[q.Text]
		more := ""
		if n := len(named) - maxNamed; n > 0 && !wide {
			named, more = named[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		warn("%s%s: %s%s", strings.Join(named, ", "), more, strings.Replace(q.Text, "this pod", "the pod", 1), rule(q))
	}
	for _, q := range k.NoStart {
		warn("%s%s", q.Text, rule(q))
	}
	return out.String()
}
