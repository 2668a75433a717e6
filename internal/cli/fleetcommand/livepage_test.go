package fleetcommand_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/internal/testing/webuitest"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(webuitest.Main{M: m}) }

var clock = fleetpage.Clock{Now: time.Now, After: time.After}

// start follows a server until the test ends.
func start(t *testing.T, s *objectstest.Server) *fleetcommand.Live {
	t.Helper()
	w, err := fleetwatch.New(s.Config(), clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	live := fleetcommand.NewLive(w, fleetcommand.LiveOptions{Title: "Cluster test", Clock: clock, Read: read})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	for _, run := range []func(context.Context){w.Run, live.Run} {
		go func() {
			run(ctx)
			ended <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		<-ended
		<-ended
	})
	return live
}

// read reads a number of CPUs and returns a pod with them.
func read(_ context.Context, nodes *inputs.FleetNodes, text []byte) ([]fleet.Pod, []string, error) {
	p, err := nodes.FleetPod(clustertest.Pod("pasted", "", string(text)))
	return []fleet.Pod{p}, nil, err
}

// await waits for a fleet with the property.
func await(t *testing.T, live *fleetcommand.Live, is func(fleetpage.Moment) bool) fleetpage.Moment {
	t.Helper()
	limit := clock.After(webuitest.Patience)
	for {
		m, changed := live.Present()
		if is(m) {
			return m
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%+v", m.Fleet)
		}
	}
}

// fill puts a cluster of two nodes into a server, with a pod on one node and two pods that wait.
// One of these is too large.
func fill(t *testing.T, s *objectstest.Server) *clustertest.Kind {
	t.Helper()
	k := clustertest.New(t, 4)
	s.Set(t, "paddockmachines", k.Object)
	for _, name := range []string{"n1", "n2"} {
		o, p := k.Node(name)
		p.Status.Rejections.Counts = []v1alpha1.RejectionCount{{Class: "6 CPUs", Cause: "too large", Count: 2}}
		p.Status.Rejections.Last = []v1alpha1.Rejection{{Time: metav1.Now(), Pod: "default/six", Class: "6 CPUs", Cause: "too large", Message: "6 CPUs do not fit"}}
		s.Set(t, "nodes", o)
		s.Set(t, "paddocknodes", p)
	}
	s.Set(t, "pods", clustertest.Pod("runs", "n1", "2"))
	s.Set(t, "pods", clustertest.Pod("waits", "", "3"))
	s.Set(t, "pods", clustertest.Pod("large", "", "6"))
	return k
}

// TestLive checks that the fleet has what the cluster has and what would happen to the pods that
// wait, and that it follows the cluster. The view of a node that did not change stays the same.
func TestLive(t *testing.T) {
	s := objectstest.New(t)
	k := fill(t, s)
	live := start(t, s)
	m := await(t, live, func(m fleetpage.Moment) bool { return len(m.Fleet.Views) == 2 && len(m.Fleet.Rejected) == 1 })
	f := m.Fleet
	if want := "2 nodes with 1 pod, which request 2 of 14 CPUs (14.3 %); 2 pods without a node, 1 of them rejected by every node"; f.Summary != want {
		t.Errorf("%q, want %q", f.Summary, want)
	}
	if r := f.Rejected[0]; r.Pod != "default/large" || r.Reason != "TopologyAffinityError (cpu)" || len(f.Answer.Causes) != 1 || f.Answer.Causes[0].Detail == "" {
		t.Errorf("%+v, causes %+v", r, f.Answer.Causes)
	}
	if len(f.Counters) != 1 || f.Counters[0].Rejected != 4 || f.Counters[0].Nodes != 2 || len(f.Lately) != 2 || f.Zones["n1"] != "zone-n1" {
		t.Errorf("counters %+v, last %+v, zones %v", f.Counters, f.Lately, f.Zones)
	}
	s.Set(t, "pods", clustertest.Pod("waits", "n2", "3"))
	_, p := k.Node("n9")
	s.Set(t, "paddocknodes", p)
	next := await(t, live, func(m fleetpage.Moment) bool {
		return strings.HasPrefix(m.Fleet.Summary, "2 nodes with 2 pods") && len(m.Fleet.LeftOut) == 1
	}).Fleet
	if next.Views[0] != f.Views[0] || next.Views[1] == f.Views[1] || next.LeftOut[0] != (fleetpage.Note{Node: "n9", Text: "there is no Node of that name"}) {
		t.Errorf("views %p %p, before %p %p; left out %+v", next.Views[0], next.Views[1], f.Views[0], f.Views[1], next.LeftOut)
	}
	if pods, _, err := next.Read(t.Context(), []byte("4")); err != nil || len(pods) != 1 {
		t.Errorf("%v, %v", pods, err)
	}
}
