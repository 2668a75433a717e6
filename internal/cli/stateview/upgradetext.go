package stateview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Text formats the document for reading: the verdict, what the kubelet does not accept, the pods
// that change, and how many keep what they have. Notes are not in it.
func (u *Upgrade) Text(style terminal.Style) string {
	var out strings.Builder
	tone := terminal.Good
	switch {
	case u.Answer == doctor.Rejects.String():
		tone = terminal.Bad
	case u.Changes():
		tone = terminal.Warn
	}
	out.WriteString(style.Paragraph("", "  ", tone.Of(u.verdict())))
	finding := func(tone terminal.Tone, title, what, do, log string) {
		out.WriteString(style.Paragraph("  ", "    ", tone.Of(title), terminal.Plain.Of(what)))
		out.WriteString(style.Paragraph("    ", "    ", terminal.Plain.Of("do first: "+do)))
		if log != "" {
			fmt.Fprintf(&out, "    log: %s\n", style.Paint(terminal.Faint, log)) // On one line, to search for it.
		}
	}
	for _, p := range u.Configuration {
		finding(terminal.Bad, p.Field+":", p.Why, p.Do, p.Log)
	}
	var doubts []string // The same doubt can be about several files.
	for _, f := range u.Files {
		for _, x := range f.Findings {
			switch {
			case x.level == doctor.Doubt && slices.Contains(doubts, x.What):
			case x.level == doctor.Doubt:
				doubts = append(doubts, x.What)
				finding(terminal.Warn, "unsure:", x.What, x.Do, "")
			case x.level > doctor.Note:
				if x.level == doctor.Fault && len(f.Steps) > 0 {
					u.steps(&out, style, f.File+":", x, f.Steps)
					continue
				}
				finding(terminal.Bad, f.File+":", x.What, x.Do, x.Kubelet)
			case !strings.HasPrefix(x.Do, "nothing"):
				finding(terminal.Faint, f.File+":", x.What, x.Do, "")
			}
		}
	}
	if u.Answer == doctor.Rejects.String() {
		rest := "containers run on as they are; the node starts no pod until the kubelet starts"
		if len(u.Configuration) > 0 {
			rest += "; its files and pods are checked only with a configuration that it accepts"
		}
		out.WriteString(style.Paragraph("  ", "  ", terminal.Plain.Of(rest)))
	}
	if u.otherMachine { // The reason is the same for every pod.
		return out.String()
	}
	if u.Changed+u.Unsure > 0 {
		out.WriteString("\n" + u.table().Text(style))
	}
	u.summary(&out, style)
	return out.String()
}

// steps adds a fault with the steps to do before the start.
func (u *Upgrade) steps(out *strings.Builder, style terminal.Style, file string, x Finding, steps []string) {
	out.WriteString(style.Paragraph("  ", "    ", terminal.Bad.Of(file), terminal.Plain.Of(x.What)))
	out.WriteString(style.Paragraph("    ", "    ", terminal.Plain.Of("do first, in this order:")))
	for i, step := range steps {
		out.WriteString(style.Paragraph("    ", "      ", terminal.Plain.Of(fmt.Sprintf("%d. %s", i+1, step))))
	}
	if x.Kubelet != "" {
		fmt.Fprintf(out, "    log: %s\n", style.Paint(terminal.Faint, x.Kubelet))
	}
}

// summary adds what stays, and what follows.
func (u *Upgrade) summary(out *strings.Builder, style terminal.Style) {
	line := func(tone terminal.Tone, title, text string) {
		out.WriteString(style.Paragraph("", "  ", tone.Of(title), terminal.Plain.Of(text)))
	}
	switch {
	case len(u.Pods) == 0:
	case u.Kept == 1:
		out.WriteString("\n1 pod keeps its CPUs and memory\n")
	default:
		fmt.Fprintf(out, "\n%d pods keep their CPUs and memory\n", u.Kept)
	}
	same := 0
	for i := range u.Pods {
		if u.Pods[i].AlsoNow && u.Pods[i].Outcome != string(treatment.Unknown) {
			same++
		}
	}
	switch {
	case same == 1:
		line(terminal.Faint, "restart", fmt.Sprintf("1 of these changes happens at any restart of the present kubelet %s, too", u.Present))
	case same > 1:
		line(terminal.Faint, "restart", fmt.Sprintf("%d of these changes happen at any restart of the present kubelet %s, too", same, u.Present))
	}
	for _, r := range u.NextStart {
		line(terminal.Bad, "the start after that:", r.number())
	}
	if u.skips && u.Answer != doctor.Rejects.String() && len(u.Pods) > 0 {
		line(terminal.Faint, "drain the node first if you can:", fmt.Sprintf(
			"this start skips minors, from %s to %s, and every recorded start is on a node of the same or a neighboring minor", u.Present, u.To))
	}
	if most := 3; u.Changed+u.Unsure > most {
		line(terminal.Strong, "do first:", "drain the node, as more than a few pods change")
	}
}

// table lists the pods that change, and those of which it is not known.
func (u *Upgrade) table() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns("POD", "NOW", "THEN", "WHY", "DO FIRST")}
	for i := range u.Pods {
		p := &u.Pods[i]
		if p.Outcome == string(treatment.Keeps) {
			continue
		}
		var why []string
		for _, r := range p.Why {
			why = append(why, r.number())
		}
		tone := terminal.Bad
		if p.Outcome == string(treatment.Unknown) {
			tone = terminal.Warn
		}
		now := p.Now.text()
		if p.Outcome == string(treatment.Unknown) && p.Now == nil {
			now = ""
		}
		t.Cells(terminal.Strong.Of(p.Pod), terminal.Plain.Of(now), tone.Of(p.then()), terminal.Plain.Of(strings.Join(why, "; ")), terminal.Plain.Of(p.Do))
	}
	return t
}

// then describes what the pod has after the start.
func (p *UpgradePod) then() string {
	text := p.Outcome
	if p.Then != nil {
		text += ": " + p.Then.text()
	}
	if p.LostCPUs != "" {
		set, _ := cpuset.Parse(p.LostCPUs) // It is the text of a set.
		text += "; CPUs " + view.CPUs(set) + " are lost"
	}
	return text
}

// text describes a place in a few words: "CPUs 1-3 on NUMA 0, 4 GiB on NUMA 0".
func (p *UpgradePlace) text() string {
	if p == nil {
		return "none of its own"
	}
	var parts []string
	if set, err := cpuset.Parse(p.CPUs); err == nil && !set.IsEmpty() {
		parts = append(parts, fmt.Sprintf("%s on NUMA %s", cpuWord(set), nodeList(p.NUMANodes)))
	}
	for _, b := range p.Memory {
		unit := ""
		if b.Type != request.Memory {
			unit = " of " + b.Type
		}
		parts = append(parts, fmt.Sprintf("%s%s on NUMA %s", request.RoundedBytes(int64(b.Bytes)), unit, nodeList(b.NUMANodes)))
	}
	return strings.Join(parts, ", ")
}

func cpuWord(set cpuset.Set) string {
	if set.Len() == 1 {
		return "CPU " + view.CPUs(set)
	}
	return "CPUs " + view.CPUs(set)
}
