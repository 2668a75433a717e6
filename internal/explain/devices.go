package explain

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Device is a device of a container: which one, where it is, and how far.
type Device struct {
	// Resource is the extended resource of a device plugin's device. Driver, Pool and Claim are
	// those of a ResourceClaim's device.
	Resource string `json:"resource,omitempty"`
	Driver   string `json:"driver,omitempty"`
	Pool     string `json:"pool,omitempty"`
	Claim    string `json:"claim,omitempty"`
	Device   string `json:"device"`
	// NUMANodes are those that the device is near; absent: not known.
	NUMANodes []int `json:"numaNodes,omitempty"`
	// Chosen is true for a device that Paddock chose from the inventory. Others chose the rest.
	Chosen bool `json:"chosen,omitempty"`
	// Distance is how far it is from the container's CPUs and memory, as node.Distance has it:
	// "near", "another NUMA node", "another socket", or "unknown".
	Distance string `json:"distance"`
}

// Of is the extended resource or the driver.
func (d Device) Of() string {
	if d.Resource != "" {
		return d.Resource
	}
	return d.Driver
}

// Remote reports whether the device is on another NUMA node or socket.
func (d Device) Remote() bool {
	return d.Distance == node.OtherNUMANode.String() || d.Distance == node.OtherSocket.String()
}

// DevicesOf are the devices of each container of an admitted pod; nil: none has any.
func DevicesOf(s *node.State, g *node.Grant) [][]Device {
	var all [][]Device
	for i, devices := range s.DevicesOf(g) {
		if all == nil {
			all = make([][]Device, len(g.Containers))
		}
		for _, d := range devices {
			all[i] = append(all[i], deviceOf(&d.Given, d.Chosen, d.Distance))
		}
	}
	return all
}

func deviceOf(d *request.Given, chosen bool, far node.Distance) Device {
	out := Device{Resource: d.Resource, Driver: d.Driver, Pool: d.Pool, Claim: d.Claim, Device: d.Name, Chosen: chosen, Distance: far.String()}
	if !d.Nodes.IsEmpty() {
		out.NUMANodes = d.Nodes.Nodes()
	}
	return out
}

// ContainerDevice is a device, and the container that has it, or was to have it.
type ContainerDevice struct {
	Container string `json:"container"`
	Device
}

// ContainerDevices are the devices of an admitted pod, or those that others chose for a pod that is
// not.
func ContainerDevices(s *node.State, p *node.Plan) []ContainerDevice {
	if p.Grant == nil {
		return GivenDevices(&p.Pod)
	}
	var all []ContainerDevice
	for i, devices := range DevicesOf(s, p.Grant) {
		for _, d := range devices {
			all = append(all, ContainerDevice{p.Grant.Pod.Containers[i].Name, d})
		}
	}
	return all
}

// GivenDevices are the devices that others chose for a pod that is not admitted.
func GivenDevices(pod *request.Pod) []ContainerDevice {
	var all []ContainerDevice
	for i := range pod.Containers {
		c := &pod.Containers[i]
		for k := range c.Given {
			all = append(all, ContainerDevice{c.Name, deviceOf(&c.Given[k], false, node.DistanceUnknown)})
		}
	}
	return all
}

// RemoteDevice is a device on another NUMA node or socket than the CPUs or the memory of its
// container.
type RemoteDevice struct {
	Pod string `json:"pod"` // namespace/name
	UID string `json:"uid"`
	// On are the NUMA nodes of the container's CPUs and memory.
	On []int `json:"containerNUMANodes"`
	ContainerDevice
}

// Unknown is a pod with devices of which too little is known to align it with them.
type Unknown struct {
	Pod string `json:"pod"` // namespace/name
	UID string `json:"uid"`
	// Remarks have which devices, what is not known, and what to do.
	Remarks []string `json:"remarks"`
}

// reportDevices adds the remote and the unknown devices of a pod.
func (r *Report) reportDevices(s *node.State, g *node.Grant) {
	for i, devices := range DevicesOf(s, g) {
		c := &g.Containers[i]
		for _, d := range devices {
			if d.Remote() {
				on := s.Machine().NodesOf(c.CPUs) | c.MemoryNodes
				r.Remote = append(r.Remote, RemoteDevice{g.Pod.ID(), g.Pod.UID, on.Nodes(), ContainerDevice{g.Pod.Containers[i].Name, d}})
			}
		}
	}
	if remarks := s.UnknownDevices(g); len(remarks) > 0 {
		r.Unknown = append(r.Unknown, Unknown{g.Pod.ID(), g.Pod.UID, remarks})
	}
}
