package agent

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

// nearTime is how long a look waits for the kubelet's list of devices. The agent asks for the list
// once in lookEvery, and after the kubelet has written its file about devices.
const nearTime = time.Second

// near has the NUMA nodes of the devices of device plugins, including devices that no pod has. The
// kubelet's files do not have these. Without them, answers about pods that ask for such devices are
// unsure. Other answers do not change.
type near struct {
	// ask is nil before the first call. client is the connection that it uses, unless ask is
	// World.Allocatable.
	ask    func(context.Context) ([]kubeletdevices.Device, error)
	client *kubeletdevices.Client
	// known is keyed by resource and device id. It is replaced, but never modified. revision counts
	// the replacements.
	known    map[string]map[string]mask.Mask
	revision int
	// asked is the time of the last question, and written the modification time of the kubelet's
	// file at that time.
	asked, written time.Time
	failed         bool
}

// open prepares the first call. A node without device plugins needs no connection.
func (n *near) open(c Config, w World) (err error) {
	if n.ask = w.Allocatable; n.ask != nil {
		return nil
	}
	if n.client, err = kubeletdevices.New(c.Kubelet.PodResources, w.After); err == nil {
		n.ask = n.client.Allocatable
	}
	return err
}

func (n *near) close() {
	if n.client != nil {
		_ = n.client.Close() // It has nothing left to say.
	}
}

// placesOfDevices returns the NUMA nodes of devices according to the kubelet's last list.
func (o *Observing) placesOfDevices(ctx context.Context) map[string]map[string]mask.Mask {
	n := &o.near
	var written time.Time
	if info, err := os.Stat(filepath.Join(o.config.Kubelet.Dir, deviceFile())); err == nil {
		written = info.ModTime()
	}
	now := o.world.Now()
	if o.config.Kubelet.PodResources == "" || written.IsZero() || written.Equal(n.written) && now.Sub(n.asked) < lookEvery {
		return n.known // Without the file, the kubelet has no device plugin.
	}
	n.asked, n.written = now, written
	devices, err := o.listDevices(ctx)
	if failed := err != nil; failed != n.failed && ctx.Err() == nil {
		if n.failed = failed; failed {
			o.log.WarnContext(ctx, "the NUMA nodes of devices that no pod has are not known: answers about pods that ask for them are unsure", "error", err)
		} else {
			o.log.InfoContext(ctx, "the kubelet lists its devices again")
		}
	}
	if err != nil {
		return n.known // A device does not move.
	}
	known := kubeletdevices.Places(devices)
	if !maps.EqualFunc(n.known, known, maps.Equal) {
		n.known = known
		n.revision++
	}
	return n.known
}

// listDevices asks the kubelet.
func (o *Observing) listDevices(ctx context.Context) ([]kubeletdevices.Device, error) {
	if o.near.ask == nil {
		if err := o.near.open(o.config, o.world); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, nearTime)
	defer cancel()
	return o.near.ask(ctx)
}
