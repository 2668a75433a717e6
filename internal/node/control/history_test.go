package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestScenarios plays the files in testdata. The answer to a command shows where each container
// runs.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, script golden.Script) {
		w := newWorld(t)
		script.Play(func(c scenario.Command) []string { return w.command(c.Name, c.Args) })
		w.rest()
		if wrong := w.atRest(); len(wrong) > 0 {
			t.Errorf("at rest: %s", strings.Join(wrong, "; "))
		}
	})
}

// rest lets everything end that is under way.
func (w *world) rest() {
	w.lose, w.fail, w.holds, w.stalls, w.mayUpdate, w.crio = 0, 0, false, false, true, false
	for _, uid := range slices.Sorted(maps.Keys(w.ending)) {
		w.play("end " + uid)
	}
	if w.connection == 0 {
		w.connect()
	}
	w.goOn()
	w.report()
	w.wait(8 * time.Minute) // Updates that are owed wait 2 minutes for a creation, and a place is kept for 2.
}

// TestHistories checks random histories. Pods come, go, are resized and moved, updates get lost,
// outcomes come late, the agent and its connection end at any moment, and other processes write to
// cgroups. After no message do two containers share CPUs that one of them owns. Every Step leaves
// the loop that it was given unchanged, and in the end every container runs where it should. A
// history that fails is printed as a scenario: put it into a file of testdata.
func TestHistories(t *testing.T) {
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		var script []string
		w := newWorld(t)
		w.looks = 23
		do := func(line string) {
			script = append(script, line)
			words := strings.Fields(line)
			w.command(words[0], words[1:])
			if err := w.checker.Err(); err != nil {
				t.Fatalf("%v\n\n%s\n", err, strings.Join(script, "\n\n"))
			}
		}
		if rapid.Bool().Draw(t, "dynamic") {
			do("dynamic")
			if rapid.Bool().Draw(t, "full") { // The next pod of 3 CPUs needs a move of a.
				for _, line := range []string{"run a 2", "run b 2", "wait 20s", "run c 3"} {
					do(line)
				}
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "commands") {
			do(drawCommand(t))
		}
		w.rest()
		if wrong := w.atRest(); len(wrong) > 0 {
			t.Fatalf("at rest: %s\n\n%s\n", strings.Join(wrong, "; "), strings.Join(script, "\n\n"))
		}
		steps += w.steps
	})
	if steps == 0 {
		t.Error("nothing happened")
	}
}

func drawCommand(t *rapid.T) string {
	pod := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod")
	form := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "2+", "2*", "3*"}).Draw(t, "form")
	cpus := rapid.IntRange(0, 4).Draw(t, "CPUs")
	return rapid.SampledFrom([]string{
		"run " + pod + " " + form, "run " + pod + " " + form, "run " + pod + " " + form, "create " + pod + " " + form,
		"report", "again " + pod, "stop " + pod, "end " + pod, "terminate " + pod, fmt.Sprintf("resize %s %d", pod, cpus), "move " + pod, "carry " + pod,
		"drift " + pod + " " + rapid.SampledFrom([]string{"0-7", "1-2", "4", "2,5-6"}).Draw(t, "list"),
		fmt.Sprintf("lose %d", cpus), fmt.Sprintf("fail %d", cpus), "hold", "stall", "go", "crash", "disconnect", "connect",
		"runtime " + rapid.SampledFrom([]string{"old", "crio", "new", "new"}).Draw(t, "kind"),
		"wait " + rapid.SampledFrom([]string{"100ms", "1s", "3s", "20s", "2m"}).Draw(t, "time"),
	}).Draw(t, "command")
}

// TestMadeBeforeADoubt: a creation is reported after the reply to a later request, whose outcome is
// open. The updates in the reply to the creation were made. The later ones may have been made after
// them.
func TestMadeBeforeADoubt(t *testing.T) {
	creation, later := &operation{number: 1, creates: "other"}, &operation{number: 2}
	c := &container{id: "c"}
	c.send(creation, converge.Setting{CPUs: cpuset.Of(1, 2, 3)}, true)
	c.send(later, converge.Setting{CPUs: cpuset.Of(0, 1, 2, 3, 4, 5)}, false)
	c.doubt(later)
	c.made(creation)
	if may := c.everything().CPUs; c.phase != unknown || !may.IsEmpty() && !may.Contains(cpuset.Of(0, 1, 2, 3, 4, 5)) {
		t.Errorf("%s, on %s: it may run on 0-5", c.phase.known(), may)
	}
	c.see(converge.Setting{CPUs: cpuset.Of(0, 1, 2, 3, 4, 5)}, true)
	if c.phase != settled || !c.everything().CPUs.Equal(cpuset.Of(0, 1, 2, 3, 4, 5)) {
		t.Errorf("%s, on %s: its cgroup has 0-5", c.phase.known(), c.everything().CPUs)
	}
}

// TestEndedContainersAreForgotten checks that ended containers are forgotten, even while another
// manager pins containers.
func TestEndedContainersAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.looks = 1000
	pinned := converge.Setting{CPUs: cpuset.Of(4, 5)}
	w.step(Come{Connection: w.connection, ID: "pinned", Pod: "default/z", Name: "web", Pinned: &pinned})
	if w.status.Unmanaged == nil {
		t.Fatal("another manager is not noticed")
	}
	for i := range 1000 {
		w.step(End{Connection: w.connection, ID: fmt.Sprint("c-", i), Pod: "y"})
		w.wait(time.Second)
	}
	if n := w.loop.gone.len(); n > 200 {
		t.Errorf("%d ended containers are remembered", n)
	}
	w.wait(time.Hour)
	if n := w.loop.pods.len() + w.loop.gone.len(); n > 0 {
		t.Errorf("%d records of pods and containers that ended an hour ago", n)
	}
}
