package agent

import (
	"testing"
)

// TestReleaseOnExit checks that with releaseOnExit the agent releases every container from its
// assigned CPUs when it ends, and leaves a state without assignments. Without it, every container
// keeps its CPUs.
func TestReleaseOnExit(t *testing.T) {
	for _, forGood := range []bool{false, true} {
		b := newBench(t)
		b.config.ReleaseOnExit = forGood
		b.write("db.yaml", manifest("db 2"))
		b.write("web.yaml", manifest("web"))
		r := b.run()
		r.until(t, "db/c=")
		r.until(t, "web/c=")
		observed := r.runtime
		r.stop(t)
		for _, pod := range []string{"db", "web"} {
			events := observed.History(pod, "c")
			last := events[len(events)-1].Setting.CPUs
			if all := last.Equal(r.env.Found.Machine.AllCPUs()); all != (forGood || pod == "web" && last.Len() == 8) {
				t.Errorf("for good %t: %s runs on %s at the end", forGood, pod, last)
			}
		}
		if n := len(r.engine.State().Grants()); (n == 0) != forGood {
			t.Errorf("for good %t: %d pods have an assignment", forGood, n)
		}
	}
}
