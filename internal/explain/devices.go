package explain

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Device describes a device of a container, its NUMA nodes and its distance.
type Device struct {
	// Resource is set for a device of a device plugin and is its extended resource. Driver, Pool
	// and Claim are set for a device of a ResourceClaim.
	Resource string `json:"resource,omitempty"`
	Driver   string `json:"driver,omitempty"`
	Pool     string `json:"pool,omitempty"`
	Claim    string `json:"claim,omitempty"`
	Device   string `json:"device"`
	// NUMANodes are the NUMA nodes that the device is near. If empty, they are not known.
	NUMANodes []int `json:"numaNodes,omitempty"`
	// Chosen is true for a device that Paddock chose from the inventory. All other devices are
	// chosen elsewhere.
	Chosen bool `json:"chosen,omitempty"`
	// Distance is the distance from the container's CPUs and memory, as in node.Distance: "near",
	// "another NUMA node", "another socket", or "unknown".
	Distance string `json:"distance"`
}

// Of returns the extended resource or the driver.
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

// DevicesOf returns the devices of each container of an admitted pod, or nil if no container has
// any.
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

// ContainerDevice is a device and the container that has it, or would have had it if the pod had
// been admitted.
type ContainerDevice struct {
	Container string `json:"container"`
	Device
}

// ContainerDevices returns the devices of an admitted pod. For a pod that is not admitted, it
// returns the devices that were chosen for it elsewhere.
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

// GivenDevices returns the devices that were chosen elsewhere for a pod that is not admitted.
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

// RemoteDevice is a device that is on another NUMA node or socket than the CPUs or the memory of
// its container.
type RemoteDevice struct {
	Pod string `json:"pod"` // namespace/name
	UID string `json:"uid"`
	// On has the NUMA nodes of the container's CPUs and memory.
	On []int `json:"containerNUMANodes"`
	ContainerDevice
}

// Unknown is a pod that cannot be aligned with its devices because too little is known about them.
type Unknown struct {
	Pod string `json:"pod"` // namespace/name
	UID string `json:"uid"`
	// Remarks name the devices and describe what is not known and what to do.
	Remarks []string `json:"remarks"`
}

// reportDevices adds the remote devices of a pod, and the pod itself if some of its devices are
// unknown.
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
