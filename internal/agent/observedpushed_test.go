package agent

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/node/observe"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletpods"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/podsapitest"
)

// TestObservingPushes checks that a rejection is compared when the kubelet pushes it, although its
// list does not have it yet and no state file was replaced, and that without the socket /readyz has
// the consequence.
func TestObservingPushes(t *testing.T) {
	k, c := newStockKubelet(t)
	k.set("/metrics", k.answers["/metrics"]+"\n"+`kubernetes_feature_enabled{name="PodsAPI",stage="BETA"} 1`)
	api := podsapitest.Serve(t, kubeletpods.Socket(k.dir))
	w := Here()
	var looks int
	k.onList = func() { looks++ }
	o, err := NewObserving(c, w, telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	wait := func(what string, holds func() bool) {
		t.Helper()
		for begin := time.Now(); !holds(); <-time.After(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("after 10 s: not %s", what)
			}
		}
	}
	wait("ready", func() bool { return o.ready() == nil && o.pushed.Err() == nil && len(o.limits()) == 1 })

	k.bind("big", "99")
	pending := k.lists(nil)
	k.lists(pending)
	big := pending[0].DeepCopy()
	api.Set(big) // It is bound, and the kubelet has not decided.
	wait("pending", func() bool { return o.session.Load().trust().Certainty.Answer == "pending" })
	start := metav1.Now()
	big.Status = v1.PodStatus{Phase: v1.PodFailed, StartTime: &start, Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated with Topology locality"}
	api.Set(big)
	wait("rejected as predicted", func() bool {
		s := o.session.Load()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ledger.Rejections()[observe.AsPredicted] == 1
	})

	api.Stop()
	wait("without the socket", func() bool {
		for _, l := range o.limits() {
			if strings.HasPrefix(l, "without the kubelet's PodsAPI socket") || strings.HasPrefix(l, "the kubelet's PodsAPI socket does not answer") {
				return true
			}
		}
		return false
	})
}
