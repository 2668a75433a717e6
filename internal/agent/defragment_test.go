package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/node/podsource/manifests"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// movable returns a manifest of a pod with one CPU that may move anywhere.
func movable(name string, annotations ...string) string {
	all := append([]string{`"paddock-project.github.io/moves": anywhere`}, annotations...)
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s, annotations: {%s}}, spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 1, memory: 64Mi}}}]}}`,
		name, name, strings.Join(all, ", "))
}

// manifestsOf returns a set of manifests.
func manifestsOf(t *testing.T, a *Agent, texts ...string) (set manifests.Set) {
	t.Helper()
	for _, text := range texts {
		sources, _, err := podspec.Read("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sources {
			s.Pod = podspec.Default(s.Pod, podspec.GatesOf(a.env.Policy.Policy))
			set.Pods = append(set.Pods, s)
		}
	}
	return set
}

// cutUp returns an agent on a node with 3 CPUs on one NUMA node and 4 on the other. The pods
// "first" and "second" have two of the four CPUs. The largest pod that fits has 3 CPUs, and 4 after
// both pods have moved. The pods have been running for a while.
func (b *bench) cutUp() *Agent {
	b.t.Helper()
	b.policy(`{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, cpuManagerPolicy: dynamic, topologyManagerPolicy: single-numa-node, reservedSystemCPUs: "0"}`)
	b.config.Moves.OnRequest = true
	a := b.start()
	b.deliver(a, manifestsOf(b.t, a, manifest("filler 3"), movable("first"), movable("second")))
	b.deliver(a, manifestsOf(b.t, a, movable("first"), movable("second")))
	b.tick()
	if got := holds(a.engine.State()); got != "first=4 second=5" {
		b.t.Fatalf("the pods have %s", got)
	}
	return a
}

// call sends a request from a client on the node.
func call(t *testing.T, a *Agent, method, path string, body any) (int, []byte) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, "http://localhost"+path, bytes.NewReader(text))
	w := httptest.NewRecorder()
	here := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9925})
	a.handler(t.Context()).ServeHTTP(w, r.WithContext(here))
	return w.Code, w.Body.Bytes()
}

// defragments sends the request of paddock defragment --agent. It expects the given largest pods
// before and after, in CPUs, and the given number of moves.
func defragments(t *testing.T, a *Agent, before, after, moves int) view.Defragmentation {
	t.Helper()
	code, text := call(t, a, http.MethodGet, "/api/defragment?moves=2", nil)
	var d view.Defragmentation
	if err := json.Unmarshal(text, &d); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	if d.Before.CPUs != before || d.After.CPUs != after || len(d.Moves) != moves {
		t.Fatalf("%+v, want %d → %d after %d moves", d, before, after, moves)
	}
	return d
}

// carryOut sends the request that paddock defragment --agent --carry-out sends after the list.
func carryOut(t *testing.T, a *Agent, d view.Defragmentation) (int, string) {
	t.Helper()
	asked := MovesRequest{CarryOut: true, Moves: []MoveRequest{}, Defragment: &DefragmentRequest{Moves: 2, Bytes: 1 << 62}}
	for _, m := range d.Moves {
		asked.Defragment.Answer = append(asked.Defragment.Answer, m.PodMove)
	}
	code, text := call(t, a, http.MethodPost, movesPath, asked)
	return code, string(text)
}

// progress lets time pass and returns the pods that were moved, in order: "first", then "second",
// one at a time.
func progress(t *testing.T, a *Agent, until time.Duration) (seen string) {
	t.Helper()
	for range until / (100 * time.Millisecond) {
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // The time is that of the bubble.
		now := ""
		for _, m := range a.status().Moving {
			now += m.UID
		}
		if now != "" && !strings.HasSuffix(seen, now) {
			seen += now
		}
		if err := a.engine.State().Check(); err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

// TestDefragmentToItsEnd checks that the control loop makes the moves of the list, one at a time.
// Then the larger pod fits, and the pods are left alone for a while.
func TestDefragmentToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.cutUp()
		d := defragments(t, a, 3, 4, 2)
		if code, text := carryOut(t, a, d); code != http.StatusOK {
			t.Fatal(code, text)
		}
		if code, text := carryOut(t, a, d); code != http.StatusConflict {
			t.Errorf("asked twice: %d %s", code, text)
		}
		if seen := progress(t, a, 20*time.Second); seen != "firstsecond" {
			t.Errorf("%q were moved", seen)
		}
		if got := holds(a.engine.State()); got != "first=2 second=1" {
			t.Errorf("the pods have %s", got)
		}
		if n, _ := a.moved.of("second"); n != 1 {
			t.Errorf("second was moved %d times", n)
		}
		defragments(t, a, 4, 4, 0)
		s := a.engine.State()
		g, _ := s.Grant("first")
		text, err := grantform.Encode(scenario.Elsewhere(s, g).Grant)
		if err != nil {
			t.Fatal(err)
		}
		again := MovesRequest{CarryOut: true, Moves: []MoveRequest{{"first", string(text)}}}
		if code, answer := call(t, a, http.MethodPost, movesPath, again); code != http.StatusConflict || !strings.Contains(string(answer), "moved recently") {
			t.Errorf("before the interval has passed: %d %s", code, answer)
		}
		time.Sleep(time.Duration(b.config.Moves.Interval)) //nolint:forbidigo // The time is that of the bubble.
		if code, answer := call(t, a, http.MethodPost, movesPath, again); code != http.StatusOK {
			t.Errorf("after the interval: %d %s", code, answer)
		}
		progress(t, a, 10*time.Second)
	})
}

// TestDefragmentIsInterrupted kills the agent while the first pod has both places. The next agent
// completes that move and begins no other. The rest of the list can be requested again.
func TestDefragmentIsInterrupted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.cutUp()
		if code, text := carryOut(t, a, defragments(t, a, 3, 4, 2)); code != http.StatusOK {
			t.Fatal(code, text)
		}
		time.Sleep(time.Duration(b.config.Moves.Notice) / 2) //nolint:forbidigo // The time is that of the bubble.
		b.kill(a)
		if err := a.Close(); err != nil {
			t.Log(err)
		}
		a = b.start()
		if g, _ := a.engine.State().Grant("first"); g.Moving == nil {
			t.Error("first does not have both places after the restart")
		}
		b.deliver(a, manifestsOf(t, a, movable("first"), movable("second")))
		progress(t, a, 20*time.Second)
		if got := holds(a.engine.State()); got != "first=2 second=5" {
			t.Errorf("the pods have %s", got)
		}
		if code, text := carryOut(t, a, defragments(t, a, 3, 4, 1)); code != http.StatusOK {
			t.Fatal(code, text)
		}
		if seen := progress(t, a, 20*time.Second); seen != "second" || holds(a.engine.State()) != "first=2 second=1" {
			t.Errorf("%q were moved; the pods have %s", seen, holds(a.engine.State()))
		}
	})
}

// TestDefragmentBeforeThePodsAreListed checks that a restarted agent moves no pods until it knows
// which pods ask to be left alone.
func TestDefragmentBeforeThePodsAreListed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.cutUp()
		b.kill(a)
		if err := a.Close(); err != nil {
			t.Log(err)
		}
		a = b.start()
		b.drive(a)
		b.tick()
		list := defragments(t, a, 3, 4, 2)
		if code, text := carryOut(t, a, list); code != http.StatusConflict || !strings.Contains(text, "it is not known whether it asks to be left alone") {
			t.Errorf("%d %s", code, text)
		}
		b.deliver(a, manifestsOf(t, a, movable("first"), movable("second")))
		b.tick() // Their containers have started again.
		if code, text := carryOut(t, a, list); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		progress(t, a, 20*time.Second)
		if got := holds(a.engine.State()); got != "first=2 second=1" {
			t.Errorf("the pods have %s", got)
		}
	})
}

// TestDefragmentAndAPodThatOptsOut: the second pod asks to be left alone while the first one is
// moving. It stays, and cannot be moved until the time that it asked for.
func TestDefragmentAndAPodThatOptsOut(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.cutUp()
		if code, text := carryOut(t, a, defragments(t, a, 3, 4, 2)); code != http.StatusOK {
			t.Fatal(code, text)
		}
		until := time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339)
		a.follower()(t.Context(), manifestsOf(t, a, movable("first"), movable("second", fmt.Sprintf("%q: %q", podspec.QuietAnnotation, until))))
		if seen := progress(t, a, 20*time.Second); seen != "first" || holds(a.engine.State()) != "first=2 second=5" {
			t.Errorf("%q were moved; the pods have %s", seen, holds(a.engine.State()))
		}
		if !strings.Contains(b.log.take(), "cannot be moved now: the rest of the set is cancelled") {
			t.Error("the log does not say why")
		}
		left := defragments(t, a, 3, 4, 1)
		if code, text := carryOut(t, a, left); code != http.StatusConflict || !strings.Contains(text, "it asks not to be moved until "+until) {
			t.Errorf("%d %s", code, text)
		}
		time.Sleep(5 * time.Minute) //nolint:forbidigo // The time is that of the bubble.
		if code, text := carryOut(t, a, left); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		if seen := progress(t, a, 20*time.Second); seen != "second" || holds(a.engine.State()) != "first=2 second=1" {
			t.Errorf("%q were moved; the pods have %s", seen, holds(a.engine.State()))
		}
	})
}
