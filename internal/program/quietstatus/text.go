// Package quietstatus asks paddock quiet on this node for its status, and formats the status for
// people. It is separate from the command quiet, which links what all commands of paddock share,
// because the program of the image paddock-quiet must use little memory.
package quietstatus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/silencer"
)

// Text formats a status for people.
func Text(s *silencer.Status, style terminal.Style) string {
	var out strings.Builder
	paragraph := func(tone terminal.Tone, format string, args ...any) {
		out.WriteString(style.Paragraph("", "  ", tone.Of(fmt.Sprintf(format, args...))))
	}
	if s.Waiting != "" {
		paragraph(terminal.Bad, "waiting: %s", s.Waiting)
	}
	paragraph(terminal.Plain, "quiet CPUs: %s; irqbalance: %s", cmp.Or(s.QuietCPUs, "none"), s.Irqbalance)
	if len(s.Containers) > 0 {
		t := &terminal.Table{Columns: terminal.Columns("CONTAINER", "CPUS", "RUNS ON")}
		for _, c := range s.Containers {
			t.Row(c.Container, c.CPUs, cmp.Or(c.RunsOn, "no cgroup yet"))
		}
		out.WriteString("\n" + t.Text(style))
	}
	if len(s.Files) > 0 {
		t := &terminal.Table{Columns: terminal.Columns("FILE", "BEFORE", "NOW", "FOR", "SINCE")}
		for i := range s.Files {
			f := &s.Files[i]
			tone, now := terminal.Good, cmp.Or(f.Now, "empty")
			if f.Error != "" || f.ChangedBack > 0 {
				tone = terminal.Warn
			}
			t.Cells(terminal.Plain.Of(f.File), terminal.Plain.Of(cmp.Or(f.Before, "empty")), tone.Of(now), terminal.Plain.Of(strings.Join(f.For, ", ")), terminal.Plain.Of(f.Since))
		}
		out.WriteString("\n" + t.Text(style))
	}
	for i := range s.Files {
		switch f := &s.Files[i]; {
		case f.Error != "":
			paragraph(terminal.Warn, "%s: %s is wanted, and the kernel rejects it: %s", f.File, cmp.Or(f.Wanted, "nothing"), f.Error)
		case !f.Until.IsZero():
			paragraph(terminal.Warn, "%s: %s is wanted; another program changed it back %d times, so that it is left alone until %s",
				f.File, cmp.Or(f.Wanted, "nothing"), f.ChangedBack, f.Until.UTC().Format(time.RFC3339))
		case f.ChangedBack > 0:
			paragraph(terminal.Warn, "%s: another program changed it back %d times", f.File, f.ChangedBack)
		}
	}
	for _, p := range s.Problems {
		paragraph(terminal.Warn, "%s", p.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Reported)) {
		paragraph(terminal.Faint, "%s is %s; it concerns the whole node, and is not changed", name, s.Reported[name])
	}
	return out.String()
}
