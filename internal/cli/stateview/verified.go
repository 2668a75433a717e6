package stateview

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
)

// Verified describes what a kubelet would do with state files.
type Verified []VerifiedFile

// VerifiedFile describes what a kubelet would do with one file.
type VerifiedFile struct {
	File     string    `json:"file"`
	Manager  string    `json:"manager"`
	Version  string    `json:"version,omitempty"`
	Kubelet  string    `json:"kubelet"`
	Answer   string    `json:"answer"`
	Findings []Finding `json:"findings"`
	// Steps are set if the next start changes pods even after a repair: what to do before it, in
	// this order, in place of the findings' Do.
	Steps []string `json:"steps,omitempty"`

	answer doctor.Answer
}

// Finding is one finding about a file; see doctor.Finding.
type Finding struct {
	Level   string `json:"level"`
	Rule    string `json:"rule"`
	What    string `json:"what"`
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`

	level doctor.Level
}

// VerifiedOf returns diagnoses as a document.
func VerifiedOf(all []treatment.Verified) Verified {
	out := Verified{}
	for _, v := range all {
		d := v.Diagnosis
		file := VerifiedFile{File: v.Name, Manager: d.Manager.String(), Kubelet: v.Kubelet.String(), Answer: d.Answer().String(), Findings: []Finding{}, Steps: v.Steps, answer: d.Answer()}
		if d.File != nil {
			file.Version = d.File.Version.String()
		}
		for _, f := range d.Findings {
			file.Findings = append(file.Findings, Finding{f.Level.String(), f.Rule, f.What, f.Do, f.Command, f.Kubelet, f.Level})
		}
		out = append(out, file)
	}
	return out
}

// Text formats the document for reading. The answer for each file comes first.
func (all Verified) Text(style terminal.Style) string {
	answers := map[doctor.Answer]string{
		doctor.Starts: "starts with it", doctor.StartsWithout: "starts without it, and running pods lose their devices", doctor.Rejects: "does not start with it", doctor.Unsure: "may or may not start with it: this is unknown",
	}
	answerTones := map[doctor.Answer]terminal.Tone{doctor.Starts: terminal.Good, doctor.StartsWithout: terminal.Bad, doctor.Rejects: terminal.Bad, doctor.Unsure: terminal.Warn}
	levelTones := map[doctor.Level]terminal.Tone{doctor.Note: terminal.Faint, doctor.Doubt: terminal.Warn, doctor.Loss: terminal.Bad, doctor.Fault: terminal.Bad}
	var texts []string
	for _, v := range all {
		var out strings.Builder
		fmt.Fprintf(&out, "%s: kubelet %s %s\n", style.Paint(terminal.Strong, v.File), style.Paint(terminal.Plain, v.Kubelet), style.Paint(answerTones[v.answer], answers[v.answer]))
		for _, f := range v.Findings {
			fmt.Fprintf(&out, "\n  %s %s\n", style.Paint(levelTones[f.level], f.Level+":"), style.Paint(terminal.Plain, f.What))
			if f.level == doctor.Fault && len(v.Steps) > 0 {
				out.WriteString("    do, in this order:\n")
				for i, step := range v.Steps {
					fmt.Fprintf(&out, "      %d. %s\n", i+1, style.Paint(terminal.Plain, step))
				}
			} else {
				fmt.Fprintf(&out, "    do: %s\n", style.Paint(terminal.Plain, f.Do))
			}
			if f.Kubelet != "" {
				fmt.Fprintf(&out, "    log: %s\n", style.Paint(terminal.Faint, f.Kubelet))
			}
		}
		texts = append(texts, out.String())
	}
	return strings.Join(texts, "\n")
}
