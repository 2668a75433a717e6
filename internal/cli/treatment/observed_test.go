package treatment_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/observe"
)

// TestObservedAsRecorded observes each recorded kubelet through its own files, as an observing
// agent does that looks after one to three decisions, with restarts in between.
func TestObservedAsRecorded(t *testing.T) {
	for _, version := range behavior.Recorded() {
		for _, path := range recordings(t, version, "ordinary", "pools") {
			t.Run(version.String()+"/"+strings.TrimSuffix(filepath.Base(path), ".jsonl.gz"), func(t *testing.T) {
				o := &observed{version: version, results: map[observe.Result]int{}, why: map[string]int{}}
				for n, line := range sampled[recorded](t, path, 2) {
					o.line(t, line, n%3+1)
				}
				all := 0
				for _, r := range observe.Results() {
					all += o.results[observe.Result(r)]
				}
				t.Logf("%d decisions: %v; unsure: %v; %d pods have memory", all, o.results, o.why, o.torn)
				if differ := o.results[observe.Differs]; differ > 0 {
					t.Errorf("%d of %d decisions differ, expected none", differ, all)
				}
			})
		}
	}
}

type observed struct {
	version behavior.Version
	results map[observe.Result]int
	why     map[string]int
	torn    int // pods without whose memory a grant was incomplete
}

// line observes one scenario. The observer looks after so many decisions.
func (o *observed) line(t *testing.T, line *recorded, every int) {
	t.Helper()
	if line.Result.Start == nil {
		return
	}
	w := &watcher{observed: o, node: nodeOf(t, line, o.version), alive: inputs.Roster{}}
	w.node.Policy.Policy.PodLevelResources = true // The recorder asks the managers alone.
	pods, seen := map[string]*v1.Pod{}, map[string]bool{}
	for _, p := range line.Scenario.Pods {
		pods[string(p.UID)] = p
	}
	before := line.Result.Start.Checkpoints
	if w.shown = o.state(before, w.alive, w.node); w.shown == nil {
		return
	}
	w.ledger.Begin(observe.Sight{State: w.shown.State})
	for i := range line.Result.Events {
		e, name := &line.Result.Events[i], fmt.Sprintf("%s event %d", line.Scenario.Name, i)
		if e.StartError != "" || e.Panic != "" || e.Endless {
			return
		}
		fresh := e.Op == "admit" && !seen[e.Pod]
		if !fresh && len(w.decided) > 0 && !w.look(t, before, name) { // No pod comes and goes unseen.
			return
		}
		switch seen[e.Pod] = true; {
		case e.Op == "admit" && *e.Admitted:
			w.alive[e.Pod] = pods[e.Pod]
		case e.Op == "admit", e.Op == "removePod":
			delete(w.alive, e.Pod)
		}
		if fresh {
			w.decide(t, pods[e.Pod], e.Reason)
			w.complete(t, e.Checkpoints, e.Pod, name)
		}
		if before = e.Checkpoints; fresh && len(w.decided) < every {
			continue // Two events without a look between them.
		}
		if !w.look(t, before, name) {
			return
		}
		if !fresh { // A restart or an end of a pod: what follows is predicted from there.
			w.ledger.Begin(observe.Sight{State: w.shown.State})
		}
	}
}

// watcher observes one node.
type watcher struct {
	*observed

	node    *inputs.Node
	alive   inputs.Roster
	ledger  observe.Ledger
	shown   *treatment.Shown
	decided []observe.Decision
}

// decide adds a decision that the next look shows.
func (w *watcher) decide(t *testing.T, pod *v1.Pod, reason string) {
	t.Helper()
	asked, err := podspec.Request(pod, podspec.GatesOf(w.node.Policy.Policy))
	if err != nil {
		t.Fatal(err)
	}
	d := observe.Decision{Pod: asked, Reason: reason}
	for _, doubt := range w.shown.Doubts(&asked) {
		d.Doubts = append(d.Doubts, doubt.Reason)
	}
	w.decided = append(w.decided, d)
}

// complete checks that a pod that was admitted has a complete grant, and an incomplete one without
// its memory, as between the kubelet's two writes.
func (w *watcher) complete(t *testing.T, files map[string]string, uid, name string) {
	t.Helper()
	shown := w.state(files, w.alive, w.node)
	if shown == nil {
		return
	}
	g, has := shown.State.Grant(uid)
	if !has {
		return
	}
	if treatment.Incomplete(shown.State, g) {
		t.Errorf("%s: what the kubelet gave to pod %s counts as incomplete: %+v", name, uid, g)
	}
	torn := *g
	torn.PoolMemory, torn.Containers = nil, slices.Clone(g.Containers)
	lost := false
	for i := range torn.Containers {
		c := &torn.Containers[i]
		lost = lost || len(c.Memory) > 0 && g.Pod.Containers[i].Type != request.Init
		c.Memory = nil
	}
	if lost && !treatment.Incomplete(shown.State, &torn) {
		t.Errorf("%s: without its memory, pod %s counts as complete: %+v", name, uid, g)
	}
	if lost {
		w.torn++
	}
}

// look compares what was decided. It reports false if the files show no state.
func (w *watcher) look(t *testing.T, files map[string]string, name string) bool {
	t.Helper()
	if w.shown = w.state(files, w.alive, w.node); w.shown == nil {
		return false
	}
	for _, c := range w.ledger.Look(time.Unix(1<<40, 0), observe.Sight{State: w.shown.State}, w.decided) {
		w.add(t, name, &c)
	}
	w.decided = nil
	return true
}

func (o *observed) add(t *testing.T, name string, c *observe.Comparison) {
	t.Helper()
	o.results[c.Result]++
	switch c.Result {
	case observe.Differs:
		t.Logf("%s: %s: predicted %s; the kubelet: %s", name, c.Pod, c.Predicted, c.Actual)
	case observe.Unsure:
		o.why[c.Why]++
	case observe.AsPredicted, observe.Reordered:
	}
}

// state returns what the files show, or nil if that is nothing.
func (o *observed) state(files map[string]string, alive inputs.Roster, n *inputs.Node) *treatment.Shown {
	shown, err := treatment.Found{Version: o.version, Pods: alive}.Of(textsOf(files), n)
	if err != nil {
		return nil
	}
	return shown
}
