package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/simtest"
)

// TestCRIOCreatesWhileTheAgentReconnects: the connection ends while CRI-O creates the sidecar of a
// pod, before or after Paddock's answer. The next connection is synchronised before CRI-O lists the
// sidecar. The sidecar gets its CPUs when it starts.
func TestCRIOCreatesWhileTheAgentReconnects(t *testing.T) {
	for name, drops := range map[string]func(sim.Step) bool{
		"before the question": func(s sim.Step) bool {
			return s.Point == sim.Asking && s.Hook == "CreateContainer" && s.Container == "log"
		},
		"after the answer": func(s sim.Step) bool {
			return s.Point == sim.Answered && s.Hook == "CreateContainer" && s.Container == "log"
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.follow(exclusive("first", 2))
				drop := once(sim.Fault{Drop: true}, drops)
				slow := once(sim.Fault{Delay: 3 * time.Second}, func(s sim.Step) bool { return s.Point == sim.Storing && s.Container == "log" })
				w.breaks(func(s sim.Step) sim.Fault {
					if f := drop(s); f != (sim.Fault{}) {
						return f
					}
					return slow(s)
				})
				w.follow(exclusive("first", 2), exclusive("second", 2))
				wait(13 * time.Second)
				same(t, "runs", w.running(), "first/app 1-2, first/log 0,5-7, second/app 3-4, second/log 0,5-7")
				if learned := strings.Contains(w.log(), "a container was created without Paddock"); learned != (name == "before the question") {
					t.Errorf("the log names a container that was created without Paddock: %t", learned)
				}
			}, func(c *sim.Config) { *c = simtest.CRIO(*c) })
		})
	}
}
