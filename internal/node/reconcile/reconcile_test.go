package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/node/reconcile"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

var (
	errAway  = errors.New("the API server does not answer")
	errNever = errors.New("the kind is not installed")
	conflict = apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "n7", errors.New("it is another version"))
)

// keeper is the Object of a Loop in a test. answer gives the result of each try.
type keeper struct {
	*reconcile.Loop
	answer func() (wrote bool, err error)
	start  time.Time
	tries  []time.Duration // since the start
	events []string
	log    strings.Builder
}

func newKeeper(answer func() (bool, error)) *keeper {
	k := &keeper{answer: answer, start: time.Now()}
	k.Loop = reconcile.New(k, reconcile.Config{
		Observe: func(_ time.Duration, err error) { k.events = append(k.events, fmt.Sprint("observe ", err)) },
		Pause: func(err error) time.Duration {
			if errors.Is(err, errNever) {
				return time.Hour
			}
			return 0
		},
		Now: time.Now, After: time.After, Log: slog.New(slog.NewTextHandler(&k.log, nil)),
	})
	return k
}

// Keep implements reconcile.Object.
func (k *keeper) Keep(context.Context) (bool, error) {
	k.tries = append(k.tries, time.Since(k.start))
	return k.answer()
}

// Forget implements reconcile.Object.
func (k *keeper) Forget() { k.events = append(k.events, "forget") }

// Line implements reconcile.Object.
func (k *keeper) Line(err error) string {
	if err != nil {
		return "not written"
	}
	return "written again"
}

// run runs the Loop for the time d, and beside concurrently.
func (k *keeper) run(t *testing.T, d time.Duration, beside func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var other sync.WaitGroup
	defer other.Wait()
	other.Go(func() { beside(ctx) })
	if err := k.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func nothing(context.Context) {}

func wrote() (bool, error) { return true, nil }

func same() (bool, error) { return false, nil }

func written() (bool, error) { return true, nil }

func away() (bool, error) { return false, errAway }

// burst reports a change of the object continuously until the test ends.
func (k *keeper) burst(ctx context.Context) {
	for ctx.Err() == nil {
		k.Changed()
		<-time.After(50 * time.Millisecond)
	}
}

// TestSpacing: without a change there is one try per Poll. Any number of changes leads to at most
// one write per Spacing, or one try per Quiet if nothing is to be written.
func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(same)
		k.run(t, 10*time.Second+1, nothing)
		if want := int(10*time.Second/reconcile.Poll) + 1; len(k.tries) != want || len(k.events) != 0 {
			t.Errorf("%d tries without a change, want %d, and %q", len(k.tries), want, k.events)
		}
		for _, burst := range []struct {
			answer func() (bool, error)
			space  time.Duration
		}{{written, reconcile.Spacing}, {same, reconcile.Quiet}} {
			k = newKeeper(burst.answer)
			k.run(t, 10*time.Second+burst.space/2, k.burst)
			// A change comes every 50 ms, so a try can be that much later.
			if most := int(10*time.Second/burst.space) + 1; len(k.tries) > most || len(k.tries) < most*3/5 {
				t.Errorf("%d tries in a burst, want up to %d", len(k.tries), most)
			}
			for i := 1; i < len(k.tries); i++ {
				if pause := k.tries[i] - k.tries[i-1]; pause < burst.space {
					t.Errorf("try %d is %v after the one before, want at least %v", i, pause, burst.space)
				}
			}
		}
	})
}

// TestBackOff: while the API server does not answer, the time between two tries doubles up to a
// minute, plus at most half of it. A change does not shorten it. One line is logged, and one at the
// end.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(away)
		k.run(t, 10*time.Minute, k.burst)
		least := 2 * reconcile.Spacing
		for i := 1; i < len(k.tries); i++ {
			if pause := k.tries[i] - k.tries[i-1]; pause < least || pause > least*3/2 {
				t.Errorf("try %d is after %v, want %v to %v", i, pause, least, least*3/2)
			}
			least = min(2*least, time.Minute)
		}
		if n := strings.Count(k.log.String(), "\n"); n != 1 || !strings.Contains(k.log.String(), "level=WARN msg=\"not written\"") {
			t.Errorf("the log is %s", k.log.String())
		}
		k.answer, k.tries = wrote, nil
		k.run(t, 10*time.Second+1, nothing)
		if len(k.tries) != 6 || !strings.HasSuffix(k.log.String(), "level=INFO msg=\"written again\"\n") {
			t.Errorf("%d tries after that; the log is %s", len(k.tries), k.log.String())
		}
	})
}

// TestPause: an error can determine the time until the next try.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(func() (bool, error) { return false, fmt.Errorf("things: %w", errNever) })
		if next := k.Round(t.Context()); next < time.Hour || next > time.Hour*3/2 {
			t.Errorf("the next try is after %v", next)
		}
	})
}

// TestRound checks what Round does with each result of Keep.
func TestRound(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func() (bool, error)
		events string
	}{
		{"no change", same, "[]"},
		{"a write", wrote, "[observe <nil>]"},
		{"an error", away, "[observe the API server does not answer forget]"},
		{"another writer", func() (bool, error) { return false, reconcile.Lost(fmt.Errorf("thing n7: %w", conflict)) }, "[forget]"},
		{"a Node that is gone", func() (bool, error) {
			return false, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n7")
		}, `[observe nodes "n7" not found forget]`},
		{"a write that failed", func() (bool, error) { return false, reconcile.Lost(errAway) }, "[observe the API server does not answer forget]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeeper(c.answer)
			k.Round(t.Context())
			if events := fmt.Sprint(k.events); events != c.events {
				t.Errorf("the events are %s, want %s", events, c.events)
			}
		})
	}
}

var errForbidden = fmt.Errorf("node n7: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n7", errors.New("no right")))

// TestForbidden: an API server that forbids requests after a restart is starting. Only if it still
// does after authorizer.Grace, a permission is missing, which is then logged once. Answers that
// alternate without a pause are neither, and make few lines.
func TestForbidden(t *testing.T) {
	restart := func(forbids time.Duration) func(*keeper) (bool, error) {
		return func(k *keeper) (bool, error) {
			switch since := time.Since(k.start); {
			case since < 10*time.Second:
				return false, errAway
			case since < 10*time.Second+forbids:
				return false, errForbidden
			}
			return true, nil
		}
	}
	const away, starts, missing, again = `level=WARN msg="not written" error="the API server does not answer"`, `level=INFO msg="the API server is starting`, `level=WARN msg="not written" error="node n7: nodes \"n7\" is forbidden: no right"`, `level=INFO msg="written again"`
	for _, c := range []struct {
		name   string
		answer func(*keeper) (bool, error)
		lines  []string
	}{
		{"for a while after a restart", restart(15 * time.Second), []string{away, starts, again}},
		{"for ever after a restart", restart(time.Hour), []string{away, starts, missing}},
		{"for ever", func(*keeper) (bool, error) { return false, errForbidden }, []string{starts, missing}},
		{"at first, for a while", func(k *keeper) (bool, error) {
			if time.Since(k.start) < 20*time.Second {
				return false, errForbidden
			}
			return true, nil
		}, []string{starts, again}},
		{"alternately", func(k *keeper) (bool, error) {
			if len(k.tries)%2 == 1 {
				return false, errForbidden
			}
			return true, nil
		}, []string{starts, again, starts, again}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k *keeper
				k = newKeeper(func() (bool, error) { return c.answer(k) })
				k.run(t, authorizer.Longest+authorizer.Longest/2, k.burst)
				lines := strings.Split(strings.TrimSpace(k.log.String()), "\n")
				for i, line := range lines {
					if i >= len(c.lines) || !strings.Contains(line, c.lines[i]) {
						t.Fatalf("the log is\n%s\nwant %q", k.log.String(), c.lines)
					}
				}
				if len(lines) != len(c.lines) {
					t.Errorf("the log is\n%s\nwant %q", k.log.String(), c.lines)
				}
			})
		})
	}
}

// TestLost: if another writer was faster, the next try is soon.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *keeper
		k = newKeeper(func() (bool, error) {
			if len(k.tries) == 1 {
				return false, reconcile.Lost(conflict)
			}
			return false, nil
		})
		k.run(t, 2*reconcile.Spacing, nothing)
		if len(k.tries) != 2 || k.tries[1] != reconcile.Spacing || k.log.Len() != 0 {
			t.Errorf("tries at %v; the log is %s", k.tries, k.log.String())
		}
	})
}

// TestEnd: a failure that is caused by the end of the agent is neither observed nor logged.
func TestEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	k := newKeeper(func() (bool, error) {
		cancel()
		return false, errAway
	})
	if err := k.Run(ctx); !errors.Is(err, context.Canceled) || len(k.events) != 0 || k.log.Len() != 0 {
		t.Errorf("%v, %q, the log is %s", err, k.events, k.log.String())
	}
}

// TestObjects: an object that was written can be read. A missing object is not an error.
func TestObjects(t *testing.T) {
	server := objectstest.New(t)
	client, err := reconcile.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/example.com/v1/things"
	get := func() *rest.Request { return client.Get().AbsPath(path, "n7") }
	var read metav1.PartialObjectMetadata
	if there, err := reconcile.Read(t.Context(), get(), &read); there || err != nil {
		t.Errorf("before it is there: %v, %v", there, err)
	}
	thing := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Thing"}, ObjectMeta: metav1.ObjectMeta{Name: "n7"}}
	made, err := reconcile.Send(t.Context(), client.Post().AbsPath(path), thing)
	if err != nil || made.ResourceVersion == "" {
		t.Fatalf("created: %+v, %v", made, err)
	}
	made.Labels = map[string]string{"a": "b"}
	changed, err := reconcile.Send(t.Context(), client.Put().AbsPath(path, "n7"), made)
	if err != nil || changed.ResourceVersion == made.ResourceVersion {
		t.Fatalf("changed: %+v, %v", changed, err)
	}
	if there, err := reconcile.Read(t.Context(), get(), &read); !there || err != nil || read.Labels["a"] != "b" {
		t.Errorf("read: %+v, %v, %v", read, there, err)
	}
	if _, err := reconcile.Send(t.Context(), client.Put().AbsPath(path, "n7"), made); !apierrors.IsConflict(err) {
		t.Errorf("another version is written: %v", err)
	}
}

// TestOwner: the owner is the present Node.
func TestOwner(t *testing.T) {
	server := objectstest.New(t)
	client, err := reconcile.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reconcile.Owner(t.Context(), client, "n7"); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "node n7") {
		t.Errorf("without a Node: %v", err)
	}
	server.AddNode("n7", "node-uid")
	want := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n7", UID: "node-uid"}
	if owner, err := reconcile.Owner(t.Context(), client, "n7"); err != nil || owner != want {
		t.Errorf("%+v, %v; want %+v", owner, err, want)
	}
	server.Fail(func(*http.Request) int { return http.StatusForbidden })
	if _, err := reconcile.Owner(t.Context(), client, "n7"); !apierrors.IsForbidden(err) {
		t.Errorf("without permission: %v", err)
	}
}
