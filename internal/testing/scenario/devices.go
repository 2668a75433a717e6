package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

const unhealthy = ":unhealthy"

// runDevices replaces the devices of the node, as when device plugins report again. Pods keep their
// devices. There is a line for each resource, with its devices:
//
//	RESOURCE [ID[@NODES][:unhealthy]…]
//
// NODES are the NUMA nodes to which the device is local, as in gpu0@0 or nic0@0-1. If a resource is
// listed without devices, the node has none. Nothing is known, and nothing is decided, about
// resources that are not listed.
func (n *Node) runDevices(c Command) ([]string, error) {
	switch {
	case n.machine == nil:
		return nil, errors.New("give the machine first")
	case len(c.Args) > 0:
		return nil, errors.New("devices: want a line for each resource, and nothing behind the command")
	}
	resources := map[string][]device.Device{}
	for _, line := range c.Input {
		words := strings.Fields(line)
		if len(words) == 0 {
			return nil, errors.New("devices: a line is empty")
		}
		devices, err := parseDevices(words[1:])
		if err != nil {
			return nil, fmt.Errorf("devices: %s: %w", words[0], err)
		}
		resources[words[0]] = append(resources[words[0]], devices...)
	}
	inv, err := device.NewInventory(n.machine, resources)
	if err != nil {
		return nil, err
	}
	if n.state == nil {
		n.devices = inv
		return orNoDevices(describeDevices(device.NewUsage(inv))), nil
	}
	state, err := n.state.WithDevices(inv)
	if err != nil {
		return nil, err
	}
	n.devices, n.state = inv, state
	return append(orNoDevices(describeDevices(state.Devices())), lostDevices(state)...), nil
}

func parseDevices(words []string) ([]device.Device, error) {
	devices := make([]device.Device, len(words))
	for i, word := range words {
		rest, sick := strings.CutSuffix(word, unhealthy)
		d := device.Device{ID: rest, Healthy: !sick}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			nodes, err := mask.Parse(rest[at+1:])
			if err == nil && nodes.IsEmpty() {
				err = errors.New("want NUMA nodes behind @")
			}
			if err != nil {
				return nil, fmt.Errorf("%q: %w", word, err)
			}
			d.ID, d.Nodes = rest[:at], nodes
		}
		devices[i] = d
	}
	return devices, nil
}

func orNoDevices(lines []string) []string {
	if len(lines) == 0 {
		return []string{"no devices"}
	}
	return lines
}

// describeDevices returns a line for each NUMA node with devices, and one for devices without a
// NUMA node. A device on several NUMA nodes counts on each of them.
func describeDevices(u device.Usage) []string {
	names := u.Inventory().Resources()
	t := nodeTable{what: "devices of "}
	var last []string
	cells := map[int][]string{}
	for i, name := range names {
		counts := u.Counts(name)
		for _, c := range counts {
			if cells[c.Node] == nil {
				cells[c.Node] = make([]string, len(names))
			}
			cells[c.Node][i] = fmt.Sprintf("%s %d of %d free", name, c.Free, c.Total)
			if bad := c.Total - c.Free - c.Assigned; bad > 0 {
				cells[c.Node][i] += fmt.Sprintf(", %d unhealthy", bad)
			}
		}
		if len(counts) == 0 {
			last = append(last, name+" none")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(cells)) {
		if id != device.NoNode {
			t.add(mask.Of(id), cells[id]...)
		}
	}
	if without, ok := cells[device.NoNode]; ok {
		t.add(0, without...)
	}
	return append(t.lines(), last...)
}

// lostDevices names the pods with devices that are unhealthy or no longer in the inventory.
func lostDevices(s *node.State) []string {
	var lines []string
	for _, g := range s.Grants() {
		for _, h := range g.Devices() {
			for _, id := range h.IDs {
				switch d, known := s.Devices().Inventory().Device(h.Resource, id); {
				case !known:
					lines = append(lines, fmt.Sprintf("%s keeps %s %s, which is gone", g.Pod.Name, h.Resource, id))
				case !d.Healthy:
					lines = append(lines, fmt.Sprintf("%s keeps %s %s, which is unhealthy", g.Pod.Name, h.Resource, id))
				}
			}
		}
	}
	return lines
}

// assignedText returns a text such as "nvidia.com/gpu=gpu0,gpu1 on {0}", with a part for each
// resource. The NUMA nodes are those to which the devices are local.
func assignedText(inv *device.Inventory, assigned []device.Assigned) string {
	parts := make([]string, len(assigned))
	for i, h := range assigned {
		parts[i] = h.Resource + "=" + strings.Join(h.IDs, ",")
		var nodes mask.Mask
		for _, id := range h.IDs {
			d, _ := inv.Device(h.Resource, id)
			nodes |= d.Nodes
		}
		if !nodes.IsEmpty() {
			parts[i] += " on " + nodes.String()
		}
	}
	return strings.Join(parts, " ")
}

// devicesChange names the devices that are no longer assigned.
func devicesChange(before, next device.Usage) []string {
	now := map[string][]string{}
	for _, h := range next.Assigned() {
		now[h.Resource] = h.IDs
	}
	var lines []string
	for _, h := range before.Assigned() {
		back := slices.DeleteFunc(slices.Clone(h.IDs), func(id string) bool { return slices.Contains(now[h.Resource], id) })
		if len(back) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s go back", h.Resource, strings.Join(back, ",")))
		}
	}
	return lines
}
