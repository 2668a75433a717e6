package node

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Distance is how far a device is from the CPUs and the memory of its container.
type Distance int

// The distances. The distance is unknown if the device has no known NUMA node, or if the container
// has no CPUs and memory of its own or its pod's.
const (
	DistanceUnknown Distance = iota // unknown
	Near                            // near
	OtherNUMANode                   // another NUMA node
	OtherSocket                     // another socket
)

// Device is a device of a container, with its distance and with those of its NUMA nodes that the
// machine has. Chosen is set if the Kubernetes node chose the device from its inventory. Other
// devices are given.
type Device struct {
	request.Given
	Chosen   bool
	Distance Distance
}

// DevicesOf returns the devices of each container of a pod: first the given ones, then those from
// the inventory, each in ascending order. It returns nil if no container has any. Devices that the
// inventory does not have any more have no known NUMA node.
//
// A container is remote from a device, on another NUMA node or socket, in two cases (R-DEV-7): it
// has CPUs or memory on a NUMA node that none of its devices is near (under scope pod, none of the
// pod's devices), or the device is near none of the NUMA nodes of its CPUs, or of its memory.
func (s *State) DevicesOf(g *Grant) [][]Device {
	var all [][]Device
	add := func(i int, d Device) {
		if all == nil {
			all = make([][]Device, len(g.Containers))
		}
		d.Nodes &= s.machine.NodeMask()
		all[i] = append(all[i], d)
	}
	for i := range g.Containers {
		if g.Containers[i].Removed {
			continue
		}
		for _, x := range g.Pod.Containers[i].Given {
			add(i, Device{Given: x})
		}
		for _, h := range g.Containers[i].Devices {
			for _, id := range h.IDs {
				d, _ := s.devices.Inventory().Device(h.Resource, id)
				add(i, Device{Given: request.Given{Resource: h.Resource, Name: id, Nodes: d.Nodes}, Chosen: true})
			}
		}
	}
	var pod mask.Mask
	for _, devices := range all {
		pod |= nearAny(devices)
	}
	for i, devices := range all {
		near := nearAny(devices)
		if s.policy.Scope == PodScope {
			near = pod
		}
		cpus, memory := s.machine.NodesOf(g.Containers[i].CPUs), g.Containers[i].MemoryNodes
		for k := range devices {
			devices[k].Distance = s.distance(cpus, memory, near, devices[k].Nodes)
		}
	}
	return all
}

func nearAny(devices []Device) mask.Mask {
	var near mask.Mask
	for _, d := range devices {
		near |= d.Nodes
	}
	return near
}

// distance returns the distance between a device on the NUMA nodes nodes and a container with CPUs
// and memory on NUMA nodes. near has the NUMA nodes of all devices with which the container is
// aligned.
func (s *State) distance(cpus, memory, near, nodes mask.Mask) Distance {
	at := cpus | memory
	apart := func(m mask.Mask) bool { return !m.IsEmpty() && nodes&m == 0 }
	switch {
	case nodes.IsEmpty() || at.IsEmpty():
		return DistanceUnknown
	case near.Contains(at) && !apart(cpus) && !apart(memory):
		return Near
	case s.onOtherSocket(at, near, nodes), s.onOtherSocket(cpus, near, nodes), s.onOtherSocket(memory, near, nodes):
		return OtherSocket
	}
	return OtherNUMANode
}

// onOtherSocket reports whether a container on the NUMA nodes at has CPUs or memory on a socket
// that has none of its devices, or whether the device on nodes is on none of the container's
// sockets. near has the NUMA nodes of all devices of the container. NUMA nodes without CPUs are on
// no socket.
func (s *State) onOtherSocket(at, near, nodes mask.Mask) bool {
	of, devices, device := s.machine.CPUsOf(at), s.machine.CPUsOf(near), s.machine.CPUsOf(nodes)
	common := false
	for _, socket := range s.machine.Sockets() {
		has := socket.CPUs.Intersects(of)
		if has && !socket.CPUs.Intersects(devices) {
			return !devices.IsEmpty()
		}
		common = common || has && socket.CPUs.Intersects(device)
	}
	return !common && !of.IsEmpty() && !device.IsEmpty()
}

// Farthest returns the largest distance between a device of the pod and its container. It is at
// least Near.
func (s *State) Farthest(g *Grant) Distance {
	worst := Near
	for _, devices := range s.DevicesOf(g) {
		for _, d := range devices {
			worst = max(worst, d.Distance)
		}
	}
	return worst
}

// UnknownDevices returns the sentences of the function UnknownDevices about an admitted pod, if the
// policy aligns it with its devices.
func (s *State) UnknownDevices(g *Grant) []string {
	if s.policy.path(&g.Pod) == Unaligned || s.policy.Behavior.GivenUnaligned {
		return nil
	}
	return UnknownDevices(&g.Pod, s.machine.NodeMask())
}

// UnknownDevices returns sentences about the devices of a pod about which too little is known to
// align CPUs and memory with them: which devices they are, what is not known, and what to do
// (R-DEV-4). nodes are the NUMA nodes of the machine.
func UnknownDevices(pod *request.Pod, nodes mask.Mask) []string {
	var all []string
	if pod.DevicesUnknown != "" {
		all = append(all, "the devices of "+asksForDevices(pod)+" are not known: "+pod.DevicesUnknown+
			". CPUs and memory are not aligned with them. When the cause is gone, create the pod again")
	}
	type group struct{ of, container, claim string }
	var groups []group
	var names map[group][]string // allocated only if needed, because every admission comes here
	var far map[group]mask.Mask
	for i := range pod.Containers {
		c := &pod.Containers[i]
		for _, x := range c.Given {
			if !(x.Nodes & nodes).IsEmpty() {
				continue
			}
			if names == nil {
				names, far = map[group][]string{}, map[group]mask.Mask{}
			}
			of := group{x.Of(), c.Name, x.Claim}
			if names[of] == nil {
				groups = append(groups, of)
			}
			names[of], far[of] = append(names[of], x.Name), far[of]|x.Nodes
		}
	}
	for _, of := range groups {
		one := len(names[of]) == 1
		pick := func(singular, plural string) string {
			if one {
				return singular
			}
			return plural
		}
		by, whose, cure := "", "device plugin", "has to report it"
		if of.claim != "" {
			by, whose, cure = ", claim "+of.claim, "driver", "has to publish it, as resource.kubernetes.io/numaNode in a ResourceSlice that can be read, or in its metadata file"
		}
		what := pick("the NUMA node is", "the NUMA nodes are") + " not known"
		if nodes := far[of]; !nodes.IsEmpty() {
			what, cure = "the machine has no "+nodes.Words(), "and the machine do not agree: compare both with the hardware"
		}
		all = append(all, fmt.Sprintf("%s %s of %s (container %s%s): %s, so CPUs and memory are not aligned with %s. The %s %s",
			pick("device", "devices"), fewOf(names[of], ", "), of.of, of.container, by, what, pick("it", "them"), whose, cure))
	}
	return all
}

// asksForDevices lists the extended resources and the claims of a pod, with their containers.
func asksForDevices(pod *request.Pod) string {
	var parts []string
	for _, c := range pod.Containers {
		var asked []string
		for _, a := range c.Devices {
			asked = append(asked, a.Resource)
		}
		for _, name := range c.Claims {
			asked = append(asked, "claim "+name)
		}
		if len(asked) > 0 {
			parts = append(parts, fewOf(asked, " and ")+" (container "+c.Name+")")
		}
	}
	return fewOf(parts, ", ")
}

// maxNamed is the number of texts that fewOf joins.
const maxNamed = 3

// fewOf joins at most maxNamed texts and counts the others.
func fewOf(texts []string, separator string) string {
	text := strings.Join(texts[:min(len(texts), maxNamed)], separator)
	if more := len(texts) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
