package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/scenario"
)

func TestTwoNUMANodes(t *testing.T)  { play(t, "2numa") }
func TestFiveNUMANodes(t *testing.T) { play(t, "5numa") }

// play runs the scenarios of a machine, one after the other.
func play(t *testing.T, machine string) {
	names, err := filepath.Glob(filepath.Join("testdata", "scenarios", machine, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("no scenarios of %s", machine)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) { playFile(t, machine, name) })
	}
}

func playFile(t *testing.T, machine, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := scenario.Parse(name, string(text))
	if err != nil {
		t.Fatal(err)
	}
	n := boot(t, machine)
	answers := make([]string, len(blocks))
	for i, b := range blocks {
		want := b.String()
		if b.Command.Name != "" {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			begin := time.Now()
			b.Answer = n.answer(ctx, b.Command)
			t.Logf("%5.1f s  line %d: %s %s", time.Since(begin).Seconds(), b.Line, b.Command.Name, strings.Join(b.Command.Args, " "))
			cancel()
		}
		answers[i] = b.String()
		if answers[i] != want && !*rewrite {
			t.Fatalf("%s:%d: want\n%s\nhave\n%s", name, b.Line, want, answers[i])
		}
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(strings.Join(answers, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
