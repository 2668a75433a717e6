package kubelet_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

// clock is a clock that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond) // Two requests are never at the same time.
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// node is a source and the kubelet that it asks, which can be restarted.
type node struct {
	*server
	source *kubelet.Source
	clock  *clock
}

func newNode(t *testing.T, first string) *node {
	t.Helper()
	n := &node{server: newServer(t, first), clock: &clock{now: time.Unix(0, 0)}}
	source, err := kubelet.New(kubelet.Address{URL: n.URL}, kubelet.Options{
		Gates: gates, Now: n.clock.Now, After: time.After, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.source = source
	t.Cleanup(func() { kubelet.CloseIdle(source) })
	return n
}

// lists sets the answer of the kubelet from now on.
func (n *node) lists(answer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers, n.asked = []string{answer}, 0
}

// restart ends the kubelet and starts another one at the same address.
func (n *node) restart(t *testing.T) {
	t.Helper()
	address := n.Listener.Addr().String()
	n.Close()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	n.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: n.server, ReadHeaderTimeout: time.Minute}}
	n.Start()
	t.Cleanup(n.Server.Close)
}

func (n *node) list(t *testing.T) {
	t.Helper()
	if _, err := n.source.List(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// after requests three lists over half a minute, beginning after the duration d.
func (n *node) after(t *testing.T, d time.Duration) {
	t.Helper()
	n.clock.add(d)
	for range 3 {
		n.list(t)
		n.clock.add(15 * time.Second)
	}
}

var sandbox = absence.Trace{Sandbox: true}

// TestGone: a pod that the kubelet listed and no longer lists is gone.
func TestGone(t *testing.T) {
	n := newNode(t, list("p 2", "q 1"))
	n.list(t)
	n.lists(list("q 1"))
	n.after(t, time.Second)
	if !n.source.Gone("p", sandbox) || n.source.Gone("q", absence.Trace{}) {
		t.Error("want p to be gone, and q not")
	}
}

// TestStartingKubeletTakesNobody: between two lists the kubelet was restarted, and its first list
// is empty. A crash-looping pod keeps its grant, and so does a pod without a sandbox.
func TestStartingKubeletTakesNobody(t *testing.T) {
	n := newNode(t, list("p 2", "q 1"))
	n.list(t)
	n.clock.add(time.Hour)
	n.list(t)
	n.restart(t)
	n.lists(list())
	n.after(t, 0)
	if n.source.Gone("p", sandbox) || n.source.Gone("p", absence.Trace{}) {
		t.Error("p is gone by the lists of a kubelet that has just started")
	}
	n.lists(list("q 1"))
	n.after(t, absence.Settle)
	if !n.source.Gone("p", sandbox) {
		t.Error("p is not gone by the lists of a kubelet that knows its pods again")
	}
}

// TestAfterAFailedQuestion: a kubelet that could not answer counts as one that restarts, even on
// the same connection.
func TestAfterAFailedQuestion(t *testing.T) {
	n := newNode(t, list("p 2", "q 1"))
	n.list(t)
	n.lists(`{}`)
	if _, err := n.source.List(t.Context()); err == nil {
		t.Fatal("an empty object is a list")
	}
	n.lists(list("q 1"))
	n.after(t, 0)
	if n.source.Gone("p", sandbox) {
		t.Error("p is gone by the lists after a failed question")
	}
	n.after(t, absence.Settle)
	if !n.source.Gone("p", sandbox) {
		t.Error("p is not gone a minute later")
	}
}

// TestOneConnection: simultaneous requests do not look like another kubelet.
func TestOneConnection(t *testing.T) {
	n := newNode(t, list("p 2", "q 1"))
	n.list(t)
	n.lists(list("q 1"))
	for range 3 {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if _, err := n.source.List(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		n.clock.add(15 * time.Second)
	}
	if !n.source.Gone("p", sandbox) {
		t.Error("p is not gone by the lists of one kubelet")
	}
}
