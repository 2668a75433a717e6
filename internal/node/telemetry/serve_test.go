package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

func TestReady(t *testing.T) {
	var lost error
	always := func() error { return nil }
	r := newRig(emptyNode(t, ""), telemetry.Check{Name: "state", Ready: always},
		telemetry.Check{Name: "runtime", Ready: func() error { return lost }})
	answers := []struct {
		err    error
		status int
		text   string
		gauge  float64
	}{
		{nil, http.StatusOK, "state: ready\nruntime: ready\nready\n", 1},
		{errors.New("the connection is closed"), http.StatusServiceUnavailable, "state: ready\nruntime: not ready: the connection is closed\nnot ready\n", 0},
		{nil, http.StatusOK, "state: ready\nruntime: ready\nready\n", 1},
	}
	for _, want := range answers {
		lost = want.err
		if w := get(r.handler, "/readyz"); w.Code != want.status || w.Body.String() != want.text {
			t.Errorf("%v: %d %q, want %d %q", want.err, w.Code, w.Body, want.status, want.text)
		}
		if got := series(scrape(t, r.handler)); got[`paddock_ready{check="runtime"}`] != want.gauge || got[`paddock_ready{check="state"}`] != 1 {
			t.Errorf("%v: gauges differ from the checks", want.err)
		}
		if w := get(r.handler, "/healthz"); w.Code != http.StatusOK {
			t.Errorf("/healthz answers %d: a restart does not help against %v", w.Code, want.err)
		}
	}
}

func TestProfilesOnlyWhenAskedFor(t *testing.T) {
	r := newRig(emptyNode(t, ""))
	for path, status := range map[string]int{"/debug/pprof/": 404, "/debug/pprof/heap": 404, "/debug/pprof/cmdline": 404, "/": 404, "/metrics": 200} {
		if got := get(r.handler, path).Code; got != status {
			t.Errorf("%s answers %d, want %d", path, got, status)
		}
	}
	profiled := r.telemetry.Handler(true)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/metrics"} {
		if got := get(profiled, path).Code; got != http.StatusOK {
			t.Errorf("%s answers %d", path, got)
		}
	}
}

// TestWithoutState checks what a process still reports after it found its state damaged.
func TestWithoutState(t *testing.T) {
	s := emptyNode(t, "")
	tel := telemetry.New(telemetry.Config{
		Policy: s.Policy(), Snapshot: func() *engine.Snapshot { return nil },
		Checks: []telemetry.Check{{Name: "state", Ready: func() error { return errors.New("checksum differs") }}},
	})
	values := series(scrape(t, tel.Handler(false)))
	if got, there := values[`paddock_ready{check="state"}`]; !there || got != 0 {
		t.Error("paddock_ready does not tell")
	}
	if _, there := values["paddock_state_revision"]; there {
		t.Error("there is a revision of a state that is not there")
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	r := newRig(emptyNode(t, ""))
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- telemetry.Serve(ctx, listener, r.handler, slog.New(slog.DiscardHandler)) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), `paddock_build_info{go_version="go1.26",revision="0123abc",version="v1.2.3"} 1`) {
		t.Errorf("error %v, body without build info:\n%s", err, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("error %v for an end that was asked for", err)
	}
	if again, err := net.Listen("tcp", listener.Addr().String()); err != nil {
		t.Errorf("the address is still in use: %v", err)
	} else {
		again.Close()
	}
}

func TestServeSaysWhyItEnded(t *testing.T) {
	listener := listen(t)
	listener.Close()
	err := telemetry.Serve(t.Context(), listener, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("error %v does not name the address %s", err, listener.Addr())
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
