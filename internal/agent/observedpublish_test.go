package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

// TestObservingPublishes checks that the objects of an observed node show within a second what the
// kubelet wrote, and that they become unsure when it can no longer be read.
func TestObservingPublishes(t *testing.T) {
	k, c := newStockKubelet(t)
	k.admit("old", "1")
	server := objectstest.New(t)
	server.AddNode("n7", "node-uid")
	c.Publish, c.APIServer.URL, c.Listen = true, server.Config().Host, ""
	if _, err := NewObserving(c, Here(), telemetry.Build{}, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "nodeName") {
		t.Errorf("without the name of the node: %v", err)
	}
	c.NodeName = "n7"
	var ahead atomic.Int64 // of the real clock
	w := Here()
	w.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	o, err := NewObserving(c, w, telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	await := func(what string, is func(s *v1alpha1.PaddockNodeStatus) bool) {
		t.Helper()
		var o v1alpha1.PaddockNode
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for begin := time.Now(); !server.Get(t, v1alpha1.PaddockNodes, "n7", &o) || !is(&o.Status); <-tick.C {
			if time.Since(begin) > patience {
				t.Fatalf("%s: it shows %+v", what, o.Status)
			}
		}
	}
	await("the first look", func(s *v1alpha1.PaddockNodeStatus) bool {
		return s.DecidedBy != nil && s.DecidedBy.Version == "1.36.4" && len(s.Grants) == 1 && s.Certainty.Answer == v1alpha1.CertaintyExact
	})
	k.admit("new", "2")
	await("an admission", func(s *v1alpha1.PaddockNodeStatus) bool { return len(s.Grants) == 2 })
	k.bind("waits", "1")
	ahead.Add(int64(lookEvery)) // No file shows it.
	await("a pod that waits", func(s *v1alpha1.PaddockNodeStatus) bool {
		return s.Certainty.Answer == v1alpha1.CertaintyPending && s.Certainty.Pending == 1
	})
	k.admit("large", "9")
	await("a rejection", func(s *v1alpha1.PaddockNodeStatus) bool { return s.Rejections.Total == 1 })
	k.server.Close()
	await("no kubelet", func(s *v1alpha1.PaddockNodeStatus) bool {
		return s.Certainty.Answer == v1alpha1.CertaintyUnsure && len(s.Grants) == 2
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
