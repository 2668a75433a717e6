package node_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The resources of a history. No pod has devices of the last one.
var deviceNames = []string{"a.io/gpu", "a.io/nic", "a.io/other"}

// plugIn sets which devices there are: new ones or, if pods have some, perhaps others in their
// place. Pods keep the devices that they have.
func (h *history) plugIn() {
	ids := h.state().Machine().NodeMask().Nodes()
	var lines []string
	for _, name := range deviceNames[:h.intn(0, 2, "resources")] {
		line := name
		for i := range h.intn(0, 6, "devices") {
			if h.chance(8, "missing") {
				continue
			}
			line += fmt.Sprintf(" d%d", i)
			var nodes mask.Mask
			for range []int{1, 1, 1, 2, 3, 0}[h.intn(0, 5, "locality")] {
				nodes = nodes.With(ids[h.intn(0, len(ids)-1, "node")])
			}
			if !nodes.IsEmpty() {
				line += "@" + strings.Trim(nodes.String(), "{}")
			}
			if h.chance(6, "sick") {
				line += ":unhealthy"
			}
		}
		lines = append(lines, line)
	}
	before := h.state()
	h.do("devices", lines...)
	if !slices.Equal(before.Grants(), h.state().Grants()) || !before.SharedCPUs().Equal(h.state().SharedCPUs()) || !before.Memory().Equal(h.state().Memory()) {
		h.fatalf("other devices changed what pods hold")
	}
}

// give sets which devices others can choose for pods.
func (h *history) give() {
	ids := h.state().Machine().NodeMask().Nodes()
	h.given = map[string]int{"c.io/fpga": h.intn(1, 5, "fpgas"), "driver.c.io": h.intn(1, 5, "devices")}
	var lines []string
	for _, of := range []string{"c.io/fpga", "driver.c.io"} {
		line := of
		for i := range h.given[of] {
			line += fmt.Sprintf(" x%d", i)
			if near := h.intn(0, 5, "near"); near > 0 {
				line += fmt.Sprint("@", ids[h.intn(0, len(ids)-1, "node")])
			}
		}
		lines = append(lines, line)
	}
	h.do("given", lines...)
}

// givenLines returns lines with the devices that the containers in the lines of a pod were given.
func (h *history) givenLines(containers []string) []string {
	var lines []string
	for _, line := range containers {
		container := strings.Fields(line)[1]
		for _, of := range []string{"c.io/fpga", "driver.c.io"} {
			if h.given[of] == 0 || !h.chance(4, "given") {
				continue
			}
			claim := ""
			if of == "driver.c.io" {
				claim = " claim=" + h.pick("claim", "a", "b")
			}
			var ids []string
			for i := range h.given[of] {
				if h.chance(2, "device") {
					ids = append(ids, fmt.Sprintf("x%d", i))
				}
			}
			if len(ids) > 0 {
				lines = append(lines, "given "+container+" "+of+"="+strings.Join(ids, ",")+claim)
			}
		}
	}
	return lines
}

// deviceRequests returns words for a container's line.
func (h *history) deviceRequests() string {
	var text string
	for _, name := range deviceNames {
		if h.chance(5, name) {
			text += fmt.Sprintf(" %s=%d", name, h.intn(1, 3, "count"))
		}
	}
	return text
}

// checkDevices checks that a device has at most one pod, and that the devices in use are those of
// the grants.
func (h *history) checkDevices() {
	s := h.state()
	holders := map[string]string{}
	for _, g := range s.Grants() {
		for _, assigned := range g.Devices() {
			for _, id := range assigned.IDs {
				name := assigned.Resource + " " + id
				if other, taken := holders[name]; taken {
					h.fatalf("%s and %s hold %s", other, g.Pod.Name, name)
				}
				if _, known := s.Devices().Inventory().Device(assigned.Resource, id); known {
					holders[name] = g.Pod.Name
				}
			}
		}
	}
	booked := map[string]bool{}
	for _, assigned := range s.Devices().Assigned() {
		for _, id := range assigned.IDs {
			booked[assigned.Resource+" "+id] = true
		}
	}
	if want := slices.Sorted(maps.Keys(holders)); !slices.Equal(want, slices.Sorted(maps.Keys(booked))) {
		h.fatalf("pods hold %v, the books say %v", want, booked)
	}
}

// checkDeviceShape checks that a new grant has as many healthy devices as were asked for, and in
// total as many as it needs at the moment of the pod's highest demand.
func (h *history) checkDeviceShape(g *node.Grant) {
	inv := h.state().Devices().Inventory()
	for i, c := range g.Containers {
		got := map[string]int{}
		for _, assigned := range c.Devices {
			got[assigned.Resource] = len(assigned.IDs)
			for _, id := range assigned.IDs {
				if d, known := inv.Device(assigned.Resource, id); !known || !d.Healthy {
					h.fatalf("%s/%s has device %s, which is not there or unhealthy", g.Pod.Name, g.Pod.Containers[i].Name, id)
				}
			}
		}
		for _, a := range g.Pod.Containers[i].Devices {
			if inv.Has(a.Resource) && int64(got[a.Resource]) != a.Value {
				h.fatalf("%s/%s has %v, want %s", g.Pod.Name, g.Pod.Containers[i].Name, got, a)
			}
		}
	}
	for _, assigned := range g.Devices() {
		if want := devicesTogether(g.Pod, assigned.Resource); len(assigned.IDs) != want {
			h.fatalf("%s holds %v, and needs %d at its worst moment", g.Pod.Name, assigned, want)
		}
	}
}

// devicesTogether returns what the containers need at the moment of the highest demand, if devices
// that a standard init container left are used before others.
func devicesTogether(p request.Pod, resource string) int {
	claims := make([]layout.Claim, len(p.Containers))
	for i, c := range p.Containers {
		n, _ := c.Devices.Get(resource)
		claims[i] = layout.Claim{Type: c.Type, Amount: n, Exclusive: true}
	}
	return int(layout.Budget(claims))
}

// checkDevicesAligned checks that a pod that restricted or single-numa-node admits has its devices
// on the chosen NUMA nodes, if they report any, and that no fewer NUMA nodes could ever have so
// many devices.
func (h *history) checkDevicesAligned(g *node.Grant, i int, choice hint.Choice) {
	inv := h.state().Devices().Inventory()
	name := g.Pod.Name + "/" + g.Pod.Containers[i].Name
	for _, assigned := range g.Containers[i].Devices {
		for _, id := range assigned.IDs {
			d, _ := inv.Device(assigned.Resource, id)
			if !d.Nodes.IsEmpty() && choice.Mask&d.Nodes == 0 {
				h.fatalf("%s is aligned to %s and has %s on %s", name, choice.Mask, id, d.Nodes)
			}
		}
		wanted := len(assigned.IDs)
		if h.state().Policy().Scope == node.PodScope {
			wanted = devicesTogether(g.Pod, assigned.Resource)
		}
		if want := fewestNodesWith(inv.Devices(assigned.Resource), wanted); want > 0 && choice.Mask.Len() != want {
			h.fatalf("%s is aligned to %s, and %d NUMA nodes could have %d of %s", name, choice.Mask, want, wanted, assigned.Resource)
		}
	}
}

// fewestNodesWith tries every set of NUMA nodes, and returns the size of the smallest one that has
// enough devices. It returns 0 if no device reports any NUMA node.
func fewestNodesWith(devices []device.Device, wanted int) int {
	var universe mask.Mask
	for _, d := range devices {
		universe |= d.Nodes
	}
	best := universe.Len()
	for m := universe; m != 0; m = (m - 1) & universe {
		n := 0
		for _, d := range devices {
			if d.Nodes&m != 0 {
				n++
			}
		}
		if n >= wanted {
			best = min(best, m.Len())
		}
	}
	return best
}

// checkDeviceAccount checks that each device of a NUMA node is free, assigned or unhealthy.
func (h *history) checkDeviceAccount(r *rejection.Rejection) {
	inv := h.state().Devices().Inventory()
	if !inv.Has(r.Resource) {
		return
	}
	for _, n := range r.Nodes {
		sum, unhealthy := n.Free, int64(0)
		for _, holder := range n.Holders {
			sum += holder.Amount
		}
		for _, d := range inv.Devices(r.Resource) {
			if d.Nodes.Has(n.Node) && !d.Healthy && !slices.ContainsFunc(h.state().Devices().Assigned(), func(x device.Assigned) bool {
				return x.Resource == r.Resource && slices.Contains(x.IDs, d.ID)
			}) {
				unhealthy++
			}
		}
		if sum+unhealthy != n.Total || n.Unhealthy != unhealthy {
			h.fatalf("NUMA node %d has %d of %s, and the account says %+v", n.Node, n.Total, r.Resource, n)
		}
	}
}
