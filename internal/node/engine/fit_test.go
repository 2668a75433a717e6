package engine_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// TestPodThatPassesTheBoundIsRejected: the state of a pod with 17 MB of names could not be read
// again. The pod is rejected with the reason, and nothing is written or changed for it. The other
// pods of the same round are admitted, and so are smaller pods later.
func TestPodThatPassesTheBoundIsRejected(t *testing.T) {
	empty, _, _ := newEngine(t)
	kept, book := &disk{}, &book{}
	var encoder statefile.Encoder
	var meter statefile.Meter
	e := engine.New(empty.State(), engine.Config{
		Store: kept, Encode: encoder.Encode, Fits: meter.Fits, Now: time.Now, Observer: book, Log: slog.New(slog.DiscardHandler),
	})
	huge, unreadable := pod("huge", 1), pod("unreadable\xff", 1)
	for i := range 1000 {
		huge.Containers = append(huge.Containers, request.Container{Name: fmt.Sprint(strings.Repeat("x", 17_000), i), Type: request.App, Sharing: request.FractionalCPU})
	}
	decisions := e.AdmitAll(t.Context(), []engine.Candidate{{Pod: pod("before", 1)}, {Pod: huge}, {Pod: unreadable}, {Pod: pod("after", 1)}})
	for i, rejected := range []bool{false, true, true, false} {
		if d := decisions[i]; d.Err != nil || (d.Plan.Rejection != nil) != rejected || (d.Plan.Grant == nil) != rejected {
			t.Errorf("pod %.20s: rejected %t, error %v", d.Plan.Pod.Name, d.Plan.Rejection != nil, d.Err)
		}
	}
	r := decisions[1].Plan.Rejection
	for _, want := range []string{
		string(rejection.UnexpectedAdmissionError) + ": ", "1002 containers", "a state file has at most 16777216",
		"the largest pod is default/huge with 1001 containers", "run it with fewer containers, or on another node",
	} {
		if r == nil || !strings.Contains(r.Error(), want) {
			t.Fatalf("%v does not say %q", r, want)
		}
	}
	if kept.writes != 1 || len(e.State().Grants()) != 2 || e.State().SharedCPUs().Len() != 6 {
		t.Errorf("%d writes, %d pods, shared CPUs %s", kept.writes, len(e.State().Grants()), e.State().SharedCPUs())
	}
	admit(t, e, pod("smaller", 2))
	if err := e.Release(t.Context(), "before"); err != nil {
		t.Error(err)
	}
	if err := e.State().Check(); err != nil {
		t.Error(err)
	}
}
