package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// mostNames is how many devices of one kind in one place are listed by name, unless the caller
// requests all of them.
const mostNames = 8

// DevicesText formats devices with the NUMA nodes near them, such as "nvidia.com/gpu gpu0,gpu1
// (NUMA 0); example.com/nic nic1 (NUMA 1, remote)". It marks devices that are on another NUMA node
// than their container. If exact is set, it names all devices with their pools and claims.
func DevicesText(devices []explain.Device, exact bool) string {
	same := func(d, e explain.Device) bool {
		return d.Of() == e.Of() && d.Distance == e.Distance && slices.Equal(d.NUMANodes, e.NUMANodes)
	}
	var parts []string
	for begin := 0; begin < len(devices); {
		end := begin + 1
		for end < len(devices) && (!exact || devices[begin].Claim == "") && same(devices[begin], devices[end]) {
			end++
		}
		d, names := devices[begin], make([]string, 0, end-begin)
		for _, one := range devices[begin:end] {
			names = append(names, one.Device)
		}
		more := ""
		if n := len(names) - mostNames; n > 0 && !exact {
			names, more = names[:mostNames], fmt.Sprintf(" and %d more", n)
		}
		text := d.Of() + " " + strings.Join(names, ",") + more
		if exact && d.Claim != "" {
			text = fmt.Sprintf("%s %s/%s by claim %s", d.Driver, d.Pool, d.Device, d.Claim)
		}
		at := "NUMA unknown"
		if len(d.NUMANodes) > 0 {
			at = "NUMA " + nodeList(d.NUMANodes)
		}
		if d.Remote() {
			at += ", remote"
		}
		parts = append(parts, text+" ("+at+")")
		begin = end
	}
	return strings.Join(parts, "; ")
}

// devicesCell returns a table cell for devices. The cell is highlighted if a device is remote.
func devicesCell(devices []explain.Device, exact bool) terminal.Cell {
	text := DevicesText(devices, exact)
	if slices.ContainsFunc(devices, explain.Device.Remote) {
		return terminal.Bad.Of(text)
	}
	return terminal.Plain.Of(text)
}

// devices prints the devices of a pod, which containers have them, and where they are.
func (w *explanation) devices(admitted bool, all []explain.ContainerDevice) {
	if len(all) == 0 {
		return
	}
	about := "which container has which one, and how far it is from its CPUs and memory"
	if !admitted {
		about = "what others chose for the pod"
	}
	w.heading("Devices", about)
	var rows [][]terminal.Cell
	for _, d := range all {
		by := "the kubelet chose it"
		switch {
		case d.Chosen:
			by = "chosen from the inventory"
		case d.Claim != "":
			by = "by claim " + d.Claim
		}
		at, tone := "NUMA unknown", terminal.Warn
		if len(d.NUMANodes) > 0 {
			at, tone = "NUMA "+nodeList(d.NUMANodes), terminal.Plain
		}
		far := terminal.Faint.Of("")
		switch {
		case d.Remote():
			far = terminal.Bad.Of("remote: " + d.Distance)
		case d.Distance == node.Near.String():
			far = terminal.Good.Of(d.Distance)
		}
		rows = append(rows, []terminal.Cell{{Text: d.Container}, {Text: d.Of()}, terminal.Strong.Of(d.Device.Device), terminal.Faint.Of(by), tone.Of(at), far})
	}
	w.table(rows)
}

// remote lists the devices on other NUMA nodes than their containers.
func (r Report) remote() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns("POD / CONTAINER", "NUMA", "DEVICE", "CLAIM", "DEVICE NUMA", "REMOTE")}
	last := ""
	for _, d := range r.Usage.Remote {
		if d.UID != last {
			t.Cells(terminal.Strong.Of(d.Pod))
			last = d.UID
		}
		t.Cells(terminal.Plain.Of("  "+d.Container), terminal.Plain.Of(nodeList(d.On)), terminal.Plain.Of(d.Of()+" "+d.Device.Device),
			terminal.Faint.Of(d.Claim), terminal.Plain.Of(nodeList(d.NUMANodes)), terminal.Bad.Of(d.Distance))
	}
	return t
}

// freeDevices prints the places of the devices that a rejected pod asks for, except for those in
// the account of the rejection.
func (w *explanation) freeDevices(r *PlanRejection, all []explain.DeviceCount) {
	for _, c := range all {
		if c.Resource == r.Resource && len(r.Nodes) > 0 {
			continue
		}
		var parts []string
		for _, p := range c.Places {
			on := "on unknown NUMA nodes"
			if len(p.NUMANodes) > 0 {
				on = "on " + mask.Of(p.NUMANodes...).Text()
			}
			parts = append(parts, fmt.Sprintf("%d of %d %s", p.Free, p.Total, on))
		}
		w.sentence(terminal.Faint.Of(c.Resource+" free:"), terminal.Plain.Of(strings.Join(parts, ", ")))
	}
}

// apartNotes returns notes about containers that have devices and run on the node shared pool
// although the policy aligns devices with exclusive CPUs.
func apartNotes(s *node.State, g *node.Grant, demand *node.Demand, devices [][]explain.Device) (notes []string) {
	policy := s.Policy()
	if !policy.StaticCPU || policy.Topology == node.TopologyNone {
		return nil
	}
	for i, has := range devices {
		c := &g.Pod.Containers[i]
		if len(has) == 0 || c.Type == request.Init || g.Isolation(i) != node.HostIsolation {
			continue
		}
		notes = append(notes, fmt.Sprintf("container %s has %s and no exclusive CPUs, so its CPUs are not aligned with it: %s; "+
			"it gets exclusive CPUs in a Guaranteed pod, where the requests of every container equal its limits, if its cpu is a whole number",
			c.Name, has[0].Of(), demand.Containers[i].WhyCPUs().Text))
	}
	return notes
}
