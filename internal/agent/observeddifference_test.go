package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestObservingBetweenTwoWrites checks that a kubelet that is slow between the two writes of an
// admission is not compared with a state in which no pod has the CPUs. If the files do not add up
// for settledAtMost, that is how the kubelet leaves them.
func TestObservingBetweenTwoWrites(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	now := time.Now()
	o.world.Now = func() time.Time { return now }
	trust := func() view.TrustCount { return o.session.Load().trust().Admissions }
	half := func(s *doctor.State) { clear(s.CPU.Entries) } // The CPUs of "a" are in no pool already.
	k.admit("a", "2")
	all := k.lists(nil)
	waits := *all[0].DeepCopy()
	waits.Status = v1.PodStatus{Phase: v1.PodPending}
	k.lists([]v1.Pod{waits})
	k.writeChanged(half)
	look(t, o)
	if look(t, o); trust().All != 0 {
		t.Errorf("between the writes: %+v", trust())
	}
	k.lists(all)
	k.write()
	if look(t, o); trust() != (view.TrustCount{All: 1, AsPredicted: 1}) {
		t.Errorf("after the second write: %+v, %+v", trust(), o.session.Load().trust().Differences)
	}

	k.writeChanged(half)
	k.lists(nil)
	look(t, o)
	now = now.Add(settledAtMost)
	look(t, o)
	k.admit("b", "1")
	k.writeChanged(func(s *doctor.State) { delete(s.CPU.Entries, "a") })
	if look(t, o); trust() != (view.TrustCount{All: 2, AsPredicted: 2}) {
		t.Errorf("with CPUs that no pod has: %+v, %+v", trust(), o.session.Load().trust().Differences)
	}
}

// TestObservingBetweenTwoContainers checks that a pod is not shown while its kubelet has written
// only some of its containers: schedulers would take the CPUs of the others for free.
func TestObservingBetweenTwoContainers(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	k.bind("a", "2")
	pod := &k.list[0]
	second := *pod.Spec.Containers[0].DeepCopy()
	second.Name = "d"
	pod.Spec.Containers = append(pod.Spec.Containers, second)
	gates := podspec.GatesOf(k.node.Policy.Policy)
	asked, err := podspec.Request(podspec.Default(pod, gates), gates)
	if err != nil {
		t.Fatal(err)
	}
	if k.state, err = k.state.Apply(k.state.Plan(asked)); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		look(t, o)
		last := o.session.Load().shown.Load()
		return last.certainty.Answer + " " + holds(last.snapshot.State)
	}
	k.writeChanged(func(s *doctor.State) {
		delete(s.CPU.Entries["a"], "d")
		s.CPU.Default = "0,3-7" // The pod gets 1-2 and 4-5.
	})
	if got := shown(); got != "pending " {
		t.Errorf("after the first container: %s", got)
	}
	k.write()
	if got := shown(); !strings.HasSuffix(got, " a=1-2,4-5") {
		t.Errorf("after the second one: %s", got)
	}
}

// TestObservingWhileTheFilesAreReplaced checks that a look is neither compared nor shown while the
// kubelet replaces its files all the time, because it is of no one moment. After settledAtMost, it
// is shown, and its decisions are unsure. Later decisions are predicted again.
func TestObservingWhileTheFilesAreReplaced(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	now := time.Now()
	o.world.Now = func() time.Time { return now }
	trust := func() view.TrustCount { return o.session.Load().trust().Admissions }
	k.admit("a", "2")
	k.onList = k.write // The same content, in a new file.
	for range 3 {
		if look(t, o); trust().All != 0 {
			t.Fatalf("of no one moment: %+v", trust())
		}
		now = now.Add(settledAtMost / 4)
	}
	last := o.session.Load().shown.Load()
	if got := holds(last.snapshot.State); got != "" || last.certainty.Answer != view.Pending {
		t.Errorf("it shows %s, and is %s", got, last.certainty.Answer)
	}
	now = now.Add(settledAtMost)
	if look(t, o); trust() != (view.TrustCount{All: 1, Unsure: 1}) {
		t.Errorf("after settledAtMost: %+v", trust())
	}
	if got := holds(o.session.Load().shown.Load().snapshot.State); got != "a=1-2" {
		t.Errorf("after settledAtMost, it shows %s", got)
	}
	if u := o.session.Load().trust().Unpredicted; len(u) != 1 || !strings.Contains(u[0].Reason, "could not be read") {
		t.Errorf("the reason is %+v", u)
	}
	k.onList = nil
	k.admit("b", "1")
	if look(t, o); trust() != (view.TrustCount{All: 2, AsPredicted: 1, Unsure: 1}) {
		t.Errorf("when the files stay: %+v, %+v", trust(), o.session.Load().trust().Unpredicted)
	}
	// After a moment in which the kubelet was not seen, such a look makes nothing certain.
	certainty := func() string {
		if c := o.session.Load().shown.Load().certainty; c != nil {
			return c.Answer
		}
		return view.Exact
	}
	k.server.CloseClientConnections()
	k.onList = k.write
	if look(t, o); certainty() != view.Unsure {
		t.Errorf("files that change after the kubelet was not seen: %s", certainty())
	}
	k.onList = nil
	if look(t, o); certainty() != view.Exact {
		t.Errorf("when they stay again: %s", certainty())
	}
}

// TestObservingAPatchedKubelet checks that a kubelet that takes other CPUs than its version is
// noticed within five admissions.
func TestObservingAPatchedKubelet(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	for i := range 5 {
		name := fmt.Sprint("p", i)
		k.admit("x", "1") // Takes the first free CPU, and is gone before the observer looks.
		k.admit(name, "1")
		k.end("x")
		look(t, o)
		k.end(name)
		look(t, o)
	}
	trust := o.session.Load().trust()
	if trust.Admissions.Differ != 5 || trust.Certainty.Answer != view.Unsure || !strings.Contains(trust.Certainty.Doubts[0].Reason, "predictions differ") {
		t.Errorf("%+v, %+v", trust.Admissions, trust.Certainty)
	}
	if d := trust.Differences[0]; d.Predicted != "admitted: c CPUs 1" || d.Actual != "admitted: c CPUs 2" {
		t.Errorf("%+v", d)
	}
}

// TestObservedDifferenceReplays checks that a decision that differs is kept as a scenario that has
// nothing but what decides, and that paddock replay shows the same difference.
func TestObservedDifferenceReplays(t *testing.T) {
	k, c := newStockKubelet(t)
	k.admit("runs", "1")
	k.list[0].Spec.Containers[0].Env = []v1.EnvVar{{Name: "TOKEN", Value: "secret"}}
	o := observer(t, c)
	k.admit("x", "1")
	k.admit("p", "1")
	k.end("x")
	look(t, o)
	answer := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, ScenariosPath, nil)
	r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1000"
	o.handler().ServeHTTP(answer, r)
	line := answer.Body.Bytes()
	if strings.Contains(string(line), "secret") || strings.Count(string(line), "\n") != 1 {
		t.Errorf("%s", line)
	}
	recorded, err := replay.Decode(line)
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	player := replay.Player{Now: time.Now, Find: treatment.FromScenario}
	got, err := player.Follow(&recorded.Scenario, recorded.Want)
	if err != nil {
		t.Fatal(err)
	}
	var differ []string
	for _, d := range replay.CompareKubelet(&recorded.Scenario, &got, recorded.Want).Differences {
		differ = append(differ, d.String())
	}
	want := []string{
		`observed-p: event 0: cpu.default: got "0,3-7", expected "0,2,4-7"`,
		`observed-p: event 0: cpu.entries: got {"p":{"c":"2"},"runs":{"c":"1"}}, expected {"p":{"c":"3"},"runs":{"c":"1"}}`,
	}
	if diff := cmp.Diff(want, differ); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if note := recorded.Scenario.Note; note != "predicted admitted: c CPUs 2; the kubelet: admitted: c CPUs 3" {
		t.Errorf("%s", note)
	}
}
