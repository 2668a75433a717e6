package inputs

import (
	"cmp"
	"fmt"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/shapes"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// made returns the machine that facts describe. Without a file of devices, its devices are the
// GPUs.
func (r Reader) made(files NodeFiles) (*Node, error) {
	facts, err := discover.ParseFacts(files.Make)
	if err != nil {
		return nil, fmt.Errorf("make: %w", err)
	}
	n := &Node{}
	if n.Found, err = discover.Made("made of "+files.Make, facts); err != nil {
		return nil, fmt.Errorf("make: %w", err)
	}
	if files.Devices != "" {
		n.Devices, err = r.Devices(files.Devices, n.Found.Machine)
		return n, err
	}
	var gpus []device.Device
	for i := range facts.GPUs {
		gpus = append(gpus, device.Device{ID: fmt.Sprint("gpu", i), Healthy: true, Nodes: mask.Of(facts.GPUNode(i))})
	}
	resources := map[string][]device.Device{}
	if len(gpus) > 0 {
		resources[cmp.Or(r.GPU, shapes.DefaultGPU)] = gpus
	}
	n.Devices, err = device.NewInventory(n.Found.Machine, resources)
	return n, err
}
