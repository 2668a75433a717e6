package cluster_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// TestAgentAway checks that a node is planned on what its agent published last for a minute after
// the agent was lost, beside the pods that are bound since, and that it is unsure then: it takes
// every pod, or none with UnsureIsProblem, and pods that wait are woken once. A managed node takes
// none at once, and an agent that was never ready does not count.
func TestAgentAway(t *testing.T) {
	for _, problem := range []bool{false, true} {
		t.Run(fmt.Sprintf("unsureIsProblem=%t", problem), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { agentAway(t, problem) })
		})
	}
}

func agentAway(t *testing.T, problem bool) {
	const away = time.Minute
	w := &world{pods: map[string]*v1.Pod{}}
	var ready atomic.Bool
	var woken atomic.Int32
	c := cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
		Pods: w.bound, Exists: w.exists, AgentReady: func([]*v1.Pod) bool { return ready.Load() },
		AgentAway: away, Wake: func(string) { woken.Add(1) }, UnsureIsProblem: problem, Report: func(_, _ string, err error) { t.Error(err) },
	})
	generation := int64(0)
	// see compares the node, as the event about its agent does, and returns what a cycle sees.
	see := func() *cluster.At {
		c.After("n")
		return c.At("n", generation, func() (a, b fleet.Amounts) { return })
	}
	want := func(what string, unsure bool, wakes int32) {
		t.Helper()
		at := see()
		if got := at.Unsure + at.Problem; unsure != (got != "") || unsure && (at.Problem != "") != problem {
			t.Errorf("%s: unsure %q, problem %q", what, at.Unsure, at.Problem)
		}
		if woken.Load() != wakes {
			t.Errorf("%s: pods were woken %d times, want %d", what, woken.Load(), wakes)
		}
	}
	// An agent comes and goes with its pod, which is another object each time.
	set := func(is bool) {
		ready.Store(is)
		generation++
		w.set(bound(pod("agent", 0), ""))
	}
	set(false)
	c.Update("n", &cluster.Source{Node: observed(t)})
	want("never ready", true, 0)
	set(true)
	want("ready", false, 0)
	set(false)
	want("away", false, 0)
	for i := range 3 {
		w.set(bound(pod(fmt.Sprint("p", i), 2), ""))
	}
	if at := see(); at.View.State.SharedCPUs().Len() != 16-3*2 {
		t.Errorf("pods that are bound meanwhile: shared CPUs %v", at.View.State.SharedCPUs())
	}
	time.Sleep(away - time.Second)
	want("away for less than a minute", false, 0)
	time.Sleep(2 * time.Second)
	synctest.Wait()
	want("away for a minute", true, 1)
	w.set(bound(pod("p3", 2), ""))
	if at := see(); strings.Contains(at.Problem, "has not decided") {
		t.Errorf("with four pods that wait, an unsure node has the problem %q", at.Problem)
	}
	w.remove("p3")
	set(true)
	want("ready again", false, 1)
	set(false)
	want("away again", false, 1)
	set(true)
	want("back in time", false, 1)
	time.Sleep(2 * away)
	synctest.Wait()
	want("for good", false, 1)

	c.Update("n", &cluster.Source{Node: source(t)})
	set(false)
	if at := see(); at.Problem == "" {
		t.Error("a managed node takes pods without its agent")
	}
}
