package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/scenario"
)

// TestAgentIsKilledDuringAnAdmission kills the agent at another moment of every admission, while a
// neighbour runs on all CPUs. Whatever containerd made of it, when the agent is back the pod runs
// where it should, or can be run now; no rule is broken then, and nothing is left in the end.
func TestAgentIsKilledDuringAnAdmission(t *testing.T) {
	n := boot(t, "2numa")
	ctx := t.Context()
	n.must(t, "agent topology=restricted scope=pod")
	n.must(t, "run best", "app a")
	for i := range 4 {
		name := fmt.Sprintf("kill%d", i)
		answer := make(chan []string, 1)
		go func() {
			lines, err := n.cmdRun(ctx, command("run "+name+" cpu=1 memory=64Mi", "app own cpu=1 memory=64Mi"))
			if err != nil {
				lines = append(lines, "error: "+err.Error())
			}
			answer <- lines
		}()
		if err := pause(ctx, time.Duration(i)*400*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		n.must(t, "agent-stop KILL")
		n.must(t, "agent-start")
		lines := <-answer
		t.Logf("killed after %d ms: %q", i*400, lines)
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "refused") || strings.HasPrefix(l, "error") }) {
			n.must(t, "stop-pod "+name)
			n.must(t, "run "+name)
		}
		n.must(t, "settle")
	}
	n.must(t, "remove kill0 kill1 kill2 kill3 best")
	n.must(t, "settle")
	n.nothingHeld(t)
}

// nothingHeld waits until the agent holds nothing any more.
func (n *node) nothingHeld(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		held, err := n.assigned(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(held) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still held: %+v", held)
		}
		if err := pause(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

// command is a command of a scenario.
func command(first string, input ...string) scenario.Command {
	words := strings.Fields(first)
	return scenario.Command{Name: words[0], Args: words[1:], Input: input}
}

// must carries out a command that may not fail, and looks for what may not be.
func (n *node) must(t *testing.T, first string, input ...string) []string {
	t.Helper()
	lines := n.answer(t.Context(), command(first, input...))
	for _, line := range lines {
		if strings.HasPrefix(line, "error") || strings.HasPrefix(line, "refused") {
			t.Fatalf("%s: %s", first, strings.Join(lines, "\n"))
		}
	}
	return lines
}
