package absence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/internal/node/absence"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestScenarios runs the files in testdata. The input of a command has lines of these forms:
//
//	kubelet                 a kubelet process starts now, or one that may have started now
//	TIME                    the time of the following lines, since the beginning: "10s"
//	list PODS…              the kubelet lists pods: "uid", "uid@file", or "uid!" for an ended pod
//	list PODS… unreadable   as list, with an item that cannot be read
//	gone UID [sandbox] [since=TIME]
//
// The answer has a line for each gone. After a change, run go test -rewrite and read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p := &play{now: epoch}
			for line := range strings.Lines(d.Input) {
				p.line(t, strings.TrimSpace(line))
			}
			return p.said.String()
		})
	})
}

type play struct {
	tracker absence.Tracker
	now     time.Time
	process absence.Process
	said    strings.Builder
}

func (p *play) line(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	switch words[0] {
	case "kubelet":
		p.process = absence.Process{Number: p.process.Number + 1, Since: p.now}
	case "list":
		p.tracker.Observe(p.list(words[1:]))
	case "gone":
		trace := absence.Trace{Since: epoch.Add(-time.Hour)}
		for _, w := range words[2:] {
			if since, ok := strings.CutPrefix(w, "since="); ok {
				trace.Since = at(t, since)
			}
			trace.Sandbox = trace.Sandbox || w == "sandbox"
		}
		fmt.Fprintf(&p.said, "%s: %s: %v\n", p.now.Sub(epoch), line, p.tracker.Gone(words[1], trace))
	default:
		p.now = at(t, words[0])
	}
}

func (p *play) list(words []string) absence.List {
	l := absence.List{Asked: p.now, Process: p.process, Pods: map[string]absence.Source{}, Ended: map[string]absence.Source{}}
	for _, w := range words {
		uid, source, _ := strings.Cut(w, "@")
		uid, ended := strings.CutSuffix(uid, "!")
		switch {
		case w == "unreadable":
			l.Unreadable++
		case ended:
			l.Ended[uid] = absence.ParseSource(source)
		default:
			l.Pods[uid] = absence.ParseSource(source)
		}
	}
	return l
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return epoch.Add(d)
}
