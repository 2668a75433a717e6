package agent

import (
	"os"
	"strings"
	"testing"
)

// TestRestartWithOtherIsolatedCPUs checks that the agent reports other isolated CPUs than before
// once, at its first start with them, and that pods keep what they have.
func TestRestartWithOtherIsolatedCPUs(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		isolate := func(cpus string) {
			b.machine(0, 1, 2, 3, 4, 5, 6, 7)
			text, err := os.ReadFile(b.config.Machine)
			if err != nil {
				t.Fatal(err)
			}
			b.config.Machine = b.file("machine.json", `{"isolation": {"isolated": "`+cpus+`"}, `+strings.TrimPrefix(string(text), "{"))
		}
		isolate("4-7")
		b.policy(usualPolicy + "cpuManagerPolicyOptions: {isolated-cpus: only}\n")
		a := b.start()
		b.follow(a, "a 4")
		b.kill(a)
		isolate("2-5")
		const line = "isolated CPUs (boot parameter isolcpus): was 4-7, now 2-5"
		for start := range 2 {
			b.log.take()
			a = b.start()
			same(t, "held", holds(a.engine.State()), "a=4-7")
			log := b.log.take()
			contains(t, "log", log, `CPUs 6-7 are exclusive and not isolated, and isolated-cpus is only now`)
			if reported := strings.Contains(log, line); reported != (start == 0) || strings.Count(log, "the node has changed") != 1-start {
				t.Errorf("start %d:\n%s", start, log)
			}
			_ = a.Close()
		}
	})
}
