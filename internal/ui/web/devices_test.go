package web

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

// admitWith admits a pod with devices that others chose for it.
func (r *rig) admitWith(name string, cpus int, devices ...request.Given) {
	r.t.Helper()
	p := pod(name, cpus)
	p.Containers[0].Given = devices
	plan, err := r.engine.Admit(r.t.Context(), p)
	if err != nil || plan.Grant == nil {
		r.t.Fatal(err, plan)
	}
}

// bestEffort returns a rig that admits pods away from their devices.
func bestEffort(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	s, err := node.New(r.engine.State().Machine(), node.Policy{StaticCPU: true, Topology: node.TopologyBestEffort})
	if err != nil {
		t.Fatal(err)
	}
	r.engine = engine.New(s, r.config)
	if err := r.engine.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	gpu0 = request.Given{Resource: "example.com/gpu", Name: "gpu-0", Nodes: mask.Of(0)}
	gpu1 = request.Given{Resource: "example.com/gpu", Name: "gpu-1", Nodes: mask.Of(1)}
	nic  = request.Given{Driver: "nic.example.com", Pool: "node", Claim: "fast", Name: `nic <b>"0"`, Nodes: mask.Of(1)}
)

// TestDevicesForPrograms checks that the JSON of the map has the devices too.
func TestDevicesForPrograms(t *testing.T) {
	r := bestEffort(t)
	r.admitWith("far", 3, gpu1, gpu0)
	state := read[State](r, "/api/state")
	if len(state.Devices) != 2 || state.Pods[0].Remote == "" || len(state.Devices[1].Owners) != 1 || state.Devices[1].Owners[0].UID != "uid-far" {
		t.Errorf("devices %+v, pod %+v", state.Devices, state.Pods[0])
	}
	text := r.get("/api/map?form=term").Body.String()
	for _, want := range []string{"A1@0 gpu-0", "A1≠1 gpu-1", "remote from a device"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the map:\n%s", want, text)
		}
	}
}
