package view

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// mostSources is how many sources of a container are printed, unless the caller requests all of
// them.
const mostSources = 15

// NoiseText formats for people what interrupted containers. If all is set, it has every source and
// every setting. Otherwise it has the sources that cost most, and the settings that allow an
// interruption.
func NoiseText(r *noise.Report, style terminal.Style, all bool) string {
	var out strings.Builder
	out.WriteString(style.Paragraph("", "  ", terminal.Faint.Of(fmt.Sprintf(
		"Measured for %s s. Containers: %s. COST is CPU time in microseconds a second; how often is always counted by the kernel.", digits(r.Seconds), r.From))))
	for i := range r.Containers {
		writeNoise(&out, &r.Containers[i], style, all)
	}
	for i, n := range r.NotSeen {
		if i == 0 {
			out.WriteString("\n")
		}
		out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("not seen:"), terminal.Plain.Of(n.What+", because "+n.Why)))
	}
	return out.String()
}

func writeNoise(out *strings.Builder, n *noise.Noise, style terminal.Style, all bool) {
	out.WriteString("\n")
	out.WriteString(style.Paragraph("", "  ", terminal.Strong.Of(noiseTitle(n))))
	sum := fmt.Sprintf("a CPU was interrupted %s times a second, by interrupts and softirqs, and all sources took about %s of its time", digits(n.PerSecond), percent(n.Cost))
	if n.OwnTasks > 0 {
		sum += "; " + Count(n.OwnTasks, "task") + " of its own ran there"
	}
	out.WriteString(style.Paragraph("  ", "  ", terminal.Plain.Of(sum)))
	if n.OfflineCPUs != "" {
		out.WriteString(style.Paragraph("  ", "  ", terminal.Warn.Of("not counted: CPUs "+n.OfflineCPUs+", which were offline")))
	}
	shown := n.Sources
	if !all {
		shown = shown[:min(len(shown), mostSources)]
	}
	if len(shown) > 0 {
		out.WriteString("\n" + sourceTable(shown).Text(style))
	}
	if rest := n.Sources[len(shown):]; len(rest) > 0 {
		cost := 0.0
		for _, s := range rest {
			cost += s.Cost
		}
		out.WriteString(style.Paragraph("  ", "  ", terminal.Faint.Of(fmt.Sprintf("and %s that cost %s together: -v prints them", Count(len(rest), "more source"), digits(cost)))))
	}
	t := &terminal.Table{Columns: terminal.Columns("SETTING", "IS", "WHAT IT DOES")}
	rows := 0
	for _, s := range n.Settings {
		if !s.Allows && !all {
			continue
		}
		tone := terminal.Good
		if s.Allows {
			tone = terminal.Warn
		}
		t.Cells(terminal.Plain.Of(s.Name), tone.Of(s.Value), terminal.Plain.Of(s.Means))
		rows++
	}
	if rows > 0 {
		out.WriteString("\n" + t.Text(style))
	}
}

// noiseTitle returns the owner of the CPUs.
func noiseTitle(n *noise.Noise) string {
	switch {
	case n.Pod != "":
		return fmt.Sprintf("%s container %s: CPUs %s", n.Pod, n.Container, n.CPUs)
	case n.UID != "":
		return fmt.Sprintf("pod with UID %s container %s: CPUs %s", n.UID, n.Container, n.CPUs)
	}
	return "CPUs " + n.CPUs
}

func sourceTable(sources []noise.Source) *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns(">COST", "BASIS", "SOURCE", ">TIMES/S", "CPUS", "STOPPED BY")}
	for i := range sources {
		s := &sources[i]
		t.Cells(terminal.Strong.Of(digits(s.Cost)), terminal.Faint.Of(s.Basis), terminal.Plain.Of(sourceName(s)), terminal.Plain.Of(digits(s.PerSecond)),
			terminal.Plain.Of(s.CPUs), terminal.Plain.Of(s.Stop))
	}
	return t
}

// sourceName returns the name under which a user finds a source on the node.
func sourceName(s *noise.Source) string {
	var name string
	switch s.Class {
	case noise.Device:
		name = "interrupt " + s.ID + " " + s.Name
	case noise.KernelThread:
		name = "kernel thread " + s.Name
		if s.Tasks > 1 {
			name = fmt.Sprintf("%d kernel threads %s", s.Tasks, s.Name)
		}
	case noise.OtherTask:
		name = "task " + s.Name + " (" + s.ID + ")"
		if s.Tasks > 1 {
			name = fmt.Sprintf("%d tasks %s", s.Tasks, s.Name)
		}
		name += ", cgroup " + cmp.Or(s.Cgroup, "not known")
	case noise.Softirq:
		name = "softirq " + s.ID + ": " + s.Name
	case noise.Timer, noise.IPI, noise.OtherClass:
		name = s.ID + ": " + s.Name
	case noise.Throttled, noise.Involuntary, noise.Migrated:
		name = s.Name
	}
	if len(s.WokenBy) > 0 {
		name += "; from " + strings.Join(s.WokenBy, ", ")
	}
	return name
}

// digits formats a number with three digits.
func digits(x float64) string {
	if x >= 1000 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// percent formats microseconds for each second as a share of the time of a CPU.
func percent(micros float64) string {
	return digits(min(100, math.Round(micros/10)/1000)) + " %"
}
