package kubeletpods

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/paddock-project/paddock/internal/testing/podsapitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// follow runs a watch until the test ends. Each wait is sent to the returned channel, and lasts
// until it is received.
func follow(t *testing.T, socket string) (*Watch, <-chan time.Duration) {
	t.Helper()
	waits := make(chan time.Duration)
	w := New(socket, func(d time.Duration) <-chan time.Time {
		over := make(chan time.Time, 1)
		go func() {
			select {
			case waits <- d:
				over <- time.Time{}
			case <-t.Context().Done():
			}
		}()
		return over
	})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err == nil {
			t.Error("Run ended without an error")
		}
	})
	return w, waits
}

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); <-time.After(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("after 10 s: not %s", what)
		}
	}
}

func next(t *testing.T, waits <-chan time.Duration) time.Duration {
	t.Helper()
	select {
	case d := <-waits:
		return d
	case <-time.After(10 * time.Second):
		t.Fatal("it does not wait")
		return 0
	}
}

func pod(uid string, phase v1.PodPhase) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Name, p.Namespace, p.Status.Phase = types.UID(uid), uid, "default", phase
	return p
}

// TestWatch checks that a status is known when the kubelet sends it, that changes without a
// decision are not signalled, and that nothing is known after the stream has ended.
func TestWatch(t *testing.T) {
	socket := Socket(t.TempDir())
	k := podsapitest.Serve(t, socket)
	k.Set(pod("a", v1.PodRunning))
	w, waits := follow(t, socket)
	until(t, "complete", func() bool { return w.Err() == nil })
	<-w.Changed()
	if s, known := w.Status("a"); !known || s.Phase != v1.PodRunning {
		t.Errorf("a: %v %s", known, s.Phase)
	}
	rejected := pod("b", v1.PodFailed)
	rejected.Status.Reason, rejected.Status.Message = "TopologyAffinityError", "Pod was rejected: x"
	k.Set(rejected)
	<-w.Changed()
	if s, known := w.Status("b"); !known || s.Reason != "TopologyAffinityError" || s.Message != "Pod was rejected: x" {
		t.Errorf("b: %v %+v", known, s)
	}
	ready := pod("a", v1.PodRunning)
	ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	k.Set(ready)
	until(t, "ready", func() bool { s, _ := w.Status("a"); return len(s.Conditions) == 1 })
	select {
	case <-w.Changed():
		t.Error("a pod that is ready is no decision")
	default:
	}
	k.Delete(ready)
	<-w.Changed()
	if _, known := w.Status("a"); known {
		t.Error("a pod that is gone has a status")
	}
	k.Stop()
	until(t, "ended", func() bool { return w.Err() != nil })
	if _, known := w.Status("b"); known {
		t.Error("a status is known without a stream")
	}
	if d := next(t, waits); d != shortest {
		t.Errorf("it waits %v after a stream that broke", d)
	}
	if next(t, waits); !errors.Is(w.Err(), ErrNone) {
		t.Errorf("without a socket: %v", w.Err())
	}
}

// TestWatchWaits checks that attempts become rarer while the kubelet has no socket or is starting,
// and that a kubelet that was started again is found.
func TestWatchWaits(t *testing.T) {
	socket := Socket(t.TempDir())
	w, waits := follow(t, socket)
	var all []time.Duration
	for range 4 {
		all = append(all, next(t, waits))
	}
	k := podsapitest.Serve(t, socket)
	k.Starting(true)
	for range 4 {
		all = append(all, next(t, waits))
	}
	if got := fmt.Sprint(all); got != "[1s 2s 4s 5s 5s 5s 5s 5s]" {
		t.Errorf("it waits %s", got)
	}
	until(t, "initializing", func() bool { return k.Calls() > 2 && strings.Contains(w.Err().Error(), "Kubelet is initializing") })
	k.Starting(false)
	until(t, "complete", func() bool {
		select {
		case <-waits:
		default:
		}
		return w.Err() == nil
	})
}

// TestWatchABrokenKubelet checks that what is no event ends the stream with a reason, and that the
// memory for a kubelet that sends ever more pods is limited.
func TestWatchABrokenKubelet(t *testing.T) {
	many := func(k *podsapitest.Kubelet) {
		for i := range maxPods + 1 {
			k.Set(pod(fmt.Sprint(i), v1.PodPending))
		}
	}
	for name, c := range map[string]struct {
		sends func(*podsapitest.Kubelet)
		want  string
	}{
		"no pod":    {func(k *podsapitest.Kubelet) { k.Send(podsapi.EventType_ADDED, []byte{0xff}) }, "cannot be read"},
		"no UID":    {func(k *podsapitest.Kubelet) { k.Send(podsapi.EventType_ADDED, nil) }, "without a UID"},
		"large":     {func(k *podsapitest.Kubelet) { k.Send(podsapi.EventType_ADDED, make([]byte, maxEvent+1)) }, "larger than max"},
		"many pods": {many, "more than 10000 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			k := podsapitest.Serve(t, socket)
			if name == "many pods" { // Otherwise the kubelet would drop the watch.
				c.sends(k)
			}
			w, _ := follow(t, socket)
			if name != "many pods" {
				until(t, "complete", func() bool { return w.Err() == nil })
				c.sends(k)
			}
			until(t, c.want, func() bool { err := w.Err(); return err != nil && strings.Contains(err.Error(), c.want) })
			if _, known := w.Status("0"); known {
				t.Error("a status is known without a stream")
			}
		})
	}
	t.Run("later type", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		k := podsapitest.Serve(t, socket)
		w, _ := follow(t, socket)
		until(t, "complete", func() bool { return w.Err() == nil })
		k.Send(99, []byte("\n\x03*\x01x"))
		k.Set(pod("a", v1.PodPending))
		until(t, "known", func() bool { _, known := w.Status("a"); return known })
	})
}
