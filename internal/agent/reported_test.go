package agent

import (
	"errors"
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// TestReported checks that assignments which are not in force are not reported: while another
// manager is there, and before a pod that was adopted late has its CPUs.
func TestReported(t *testing.T) {
	b := newBench(t)
	a := b.start()
	for _, uid := range []string{"a", "b"} {
		pod := request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 1, Equivalent: true}}}}
		if _, err := a.engine.Admit(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	status := &nri.Status{}
	r := &reported{engine: a.engine, status: func() *nri.Status { return status }}
	all := a.engine.Snapshot()
	if len(all.State.Grants()) != 2 || r.Snapshot() != all {
		t.Fatalf("%d pods are reported, want both", len(r.State().Grants()))
	}
	uid := all.State.Grants()[0].Pod.UID
	status = &nri.Status{Unenforced: map[string]bool{uid: true}}
	first := r.State()
	if _, there := first.Grant(uid); there || len(first.Grants()) != 1 {
		t.Error("a pod without its CPUs is reported")
	}
	if r.State() != first {
		t.Error("the same is computed twice")
	}
	status = &nri.Status{Unmanaged: errors.New("the kubelet's static policy")}
	if r.State() != nil || r.Snapshot() != nil || r.Unmanaged() == nil {
		t.Error("something is reported while another manager is there")
	}
}
