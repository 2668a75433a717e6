package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/testing/webuitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(webuitest.Main{M: m}) }

// disk is a store that fails while broken is set.
type disk struct{ broken atomic.Bool }

func (d *disk) Write([]byte) error {
	if d.broken.Load() {
		return errors.New("no space left on device")
	}
	return nil
}

// rig is an engine on a machine of two NUMA nodes, with a web that observes it.
type rig struct {
	t      *testing.T
	disk   disk
	engine *engine.Engine
	config engine.Config
	web    *Web
	server *httptest.Server
	clock  time.Time
}

// newRig returns a rig with 8 CPUs.
func newRig(t *testing.T) *rig { return newRigOf(t, 4) }

// newRigOf returns a rig with that many cores of one thread on each NUMA node.
func newRigOf(t *testing.T, cores int) *rig {
	t.Helper()
	var d machine.Description
	for n := range 2 {
		node := machine.NodeDescription{ID: n, Memory: 8 << 30}
		for i := range cores {
			node.Cores = append(node.Cores, machine.CoreDescription{Threads: []int{cores*n + i}, Uncore: i / 8})
		}
		d.Nodes = append(d.Nodes, node)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true, Topology: node.TopologyRestricted})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	r.web = New(Config{
		Machine: "rig", Policy: "static",
		Snapshot: func() *engine.Snapshot { return r.engine.Snapshot() },
		Now:      time.Now, After: time.After,
	})
	now := func() time.Time { r.clock = r.clock.Add(time.Second); return r.clock }
	r.config = engine.Config{
		Store: &r.disk, Encode: func(*node.State) ([]byte, error) { return nil, nil }, Now: now, Observer: r.web, Log: slog.New(slog.DiscardHandler),
	}
	r.engine = engine.New(s, r.config)
	if err := r.engine.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// serve starts a server on the loopback interface that ends with the test.
func (r *rig) serve() *httptest.Server {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.server = httptest.NewServer(r.web.Handler(ctx, http.NotFoundHandler()))
	r.t.Cleanup(func() {
		cancel()
		r.server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return r.server
}

func pod(name string, cpus int) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: "uid-" + name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS:        request.Guaranteed,
			Containers: []request.Container{{Name: "c", Type: request.App, CPUs: cpus, Equivalent: true}},
		},
	}
}

// admit asks for CPUs and reports whether the pod got them.
func (r *rig) admit(name string, cpus int) bool {
	r.t.Helper()
	plan, err := r.engine.Admit(r.t.Context(), pod(name, cpus))
	return err == nil && plan.Grant != nil
}

// move begins a move of a pod to other CPUs.
func (r *rig) move(name string) {
	r.t.Helper()
	err := r.engine.Move(r.t.Context(), "uid-"+name, func(s *node.State) (*node.State, error) {
		g, _ := s.Grant("uid-" + name)
		return s.BeginMove(scenario.Elsewhere(s, g).Grant)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// moved ends a move.
func (r *rig) moved(name string, done bool) {
	r.t.Helper()
	err := r.engine.Move(r.t.Context(), "uid-"+name, func(s *node.State) (*node.State, error) { return s.EndMove("uid-"+name, done), nil })
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) release(name string) {
	r.t.Helper()
	if err := r.engine.Release(r.t.Context(), "uid-"+name); err != nil {
		r.t.Fatal(err)
	}
}

// fill admits and releases a pod that many times.
func (r *rig) fill(times int) {
	r.t.Helper()
	for i := range times {
		name := fmt.Sprintf("p%d", i)
		if !r.admit(name, 1) {
			r.t.Fatalf("%s is refused", name)
		}
		r.release(name)
	}
}
