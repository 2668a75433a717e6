package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// The machines run beside each other, as many as the host has CPUs for: what a machine does most of
// the time needs one of them. The load has a machine of its own, so that it is done no later.

func TestTwoNUMANodes(t *testing.T) {
	m := open(t, "2numa", "2numa")
	m.scenarios(t)
	m.besideKubelet(t, sameSingle, sameBestEffort, restarted)
}

func TestFiveNUMANodes(t *testing.T) {
	m := open(t, "5numa", "5numa")
	m.scenarios(t)
	m.besideKubelet(t, sameRestricted, leftAlone)
}

func TestLoad(t *testing.T) {
	m := open(t, "2numa-load", "2numa")
	m.scenarios(t)
	m.run(t, "killed-during-an-admission", killedDuringAnAdmission)
}

// scenarios plays the files of a machine, one after the other.
func (m *machine) scenarios(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "scenarios", m.name, "*.txt"))
	if err != nil {
		fail(t, "%v", err)
	}
	if len(names) == 0 {
		fail(t, "no scenarios of %s", m.name)
	}
	for _, name := range names {
		m.run(t, strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T, n *node) {
			text, err := os.ReadFile(name)
			if err != nil {
				fail(t, "%v", err)
			}
			blocks, err := scenario.Parse(name, string(text))
			if err != nil {
				fail(t, "%v", err)
			}
			differs := n.play(t, blocks)
			if differs != "" && n.vm.Down() {
				// An emulator of several CPUs loses one now and then. That is no fault of the
				// agent.
				t.Logf("the machine went down: %s\nonce more on a new one", differs)
				differs = m.ready(t).play(t, blocks)
			}
			if differs != "" {
				fail(t, "%s:%s", name, differs)
			}
			if *rewrite {
				writeScenario(t, name, blocks)
			}
		})
	}
}

// play carries out the commands, puts the answers into the blocks, and returns the first
// difference.
func (n *node) play(t *testing.T, blocks []scenario.Block) string {
	t.Helper()
	for i := range blocks {
		b := &blocks[i]
		if b.Command.Name == "" {
			continue
		}
		want := *b
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		begin := time.Now()
		b.Answer = n.answer(ctx, b.Command)
		cancel()
		t.Logf("%5.1f s  line %d: %s %s", time.Since(begin).Seconds(), b.Line, b.Command.Name, strings.Join(b.Command.Args, " "))
		if b.String() != want.String() && !*rewrite {
			have := b.String()
			*b = want // It may be played again.
			return fmt.Sprintf("%d: want\n%s\nhave\n%s", b.Line, want.String(), have)
		}
	}
	return ""
}

func writeScenario(t *testing.T, name string, blocks []scenario.Block) {
	t.Helper()
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.String()
	}
	if err := os.WriteFile(name, []byte(strings.Join(texts, "\n")), 0o644); err != nil {
		fail(t, "%v", err)
	}
}
