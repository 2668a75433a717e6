package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/mask"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// registers writes the kubelet's file about devices, with devices that no pod has.
func (k *stockKubelet) registers(at time.Time, ids ...string) {
	k.t.Helper()
	file := &kubeletstate.DeviceFile{Manager: kubeletstate.DeviceManager, Registered: map[string][]string{"example.com/gpu": ids}}
	data, err := file.Encode()
	name := filepath.Join(k.dir, deviceFile())
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, data, 0o600), os.Chtimes(name, at, at)); err != nil {
		k.t.Fatal(err)
	}
}

// TestObservingDevices checks that the NUMA nodes of devices that no pod has come from the
// kubelet's list, that they stay while it does not answer, and that without them a device is on no
// NUMA node.
func TestObservingDevices(t *testing.T) {
	k, c := newStockKubelet(t)
	now := time.Now()
	k.registers(now, "gpu0", "gpu1")
	var listed []kubeletdevices.Device
	fails, calls := errors.New("no such socket"), 0
	w := Here()
	w.Now = func() time.Time { return now }
	w.Allocatable = func(context.Context) ([]kubeletdevices.Device, error) {
		calls++
		return listed, fails
	}
	o, err := NewObserving(c, w, telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	places := func() string {
		look(t, o)
		var all []string
		for _, d := range o.session.Load().shown.Load().snapshot.State.Devices().Inventory().Devices("example.com/gpu") {
			all = append(all, d.ID+"="+d.Nodes.String())
		}
		return strings.Join(all, " ")
	}
	none := mask.Mask(0).String()
	if got, want := places(), "gpu0="+none+" gpu1="+none; got != want {
		t.Errorf("without a list: %s, want %s", got, want)
	}
	fails, listed = nil, []kubeletdevices.Device{{Resource: "example.com/gpu", ID: "gpu0", Nodes: mask.Of(0)}, {Resource: "example.com/gpu", ID: "gpu1", Nodes: mask.Of(1)}}
	if places(); calls != 1 {
		t.Errorf("the kubelet was asked %d times, and nothing has changed", calls)
	}
	now = now.Add(lookEvery)
	if got := places(); got != "gpu0={0} gpu1={1}" || calls != 2 {
		t.Errorf("with a list: %s, after %d calls", got, calls)
	}
	fails = errors.New("no such socket")
	k.registers(now, "gpu0", "gpu1", "gpu2")
	if got, want := places(), "gpu0={0} gpu1={1} gpu2="+none; got != want || calls != 3 {
		t.Errorf("after a restart of a plugin: %s, want %s, after %d calls", got, want, calls)
	}
}
