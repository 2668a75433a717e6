package rejection

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Misfit explains why a container or pod cannot be aligned with its given devices. Paddock did not
// choose these devices, and they stay the same when the pod is tried again.
type Misfit struct {
	// Devices are the given devices with known NUMA nodes, in the order of the request. Nodes are
	// all their NUMA nodes.
	Devices []request.Given
	Nodes   mask.Mask
	// Short lists what does not fit on Nodes. If empty, the devices are near more NUMA nodes than
	// the policy admits.
	Short []Shortage
	// Final is set if the reason remains on this Kubernetes node, whatever other pods return.
	Final bool
}

// Shortage describes how much of a resource the Nodes of a Misfit have.
type Shortage struct {
	Resource request.Resource
	// Wanted is how much the container or pod asks for. Free is how much it could have there now,
	// and Total how much it could have there without any other pod.
	Wanted, Free, Total int64
	// Preferred is the number of NUMA nodes on which the resource is preferred. It matters only if
	// Free is at least Wanted.
	Preferred int
}

// maxNamed is the number of sets of NUMA nodes, and maxDevices the number of devices, that a
// sentence names. It counts the others.
const (
	maxNamed   = 3
	maxDevices = 16
)

// where returns the names of the devices with their NUMA nodes.
func (m *Misfit) where() string {
	byNodes := slices.Clone(m.Devices)
	slices.SortStableFunc(byNodes, func(a, b request.Given) int { return cmp.Compare(a.Nodes, b.Nodes) })
	text, named := "", 0
	for i := range min(len(byNodes), maxDevices) {
		if i > 0 {
			text += ", "
		}
		text += byNodes[i].Name
		last := i == len(byNodes)-1
		if last || i == maxDevices-1 || byNodes[i+1].Nodes != byNodes[i].Nodes {
			text += " on " + byNodes[i].Nodes.Words()
			named++
		}
		if !last && (named == maxNamed || i == maxDevices-1) {
			return text + fmt.Sprintf(" and %d more devices", len(byNodes)-i-1)
		}
	}
	return text
}

// String returns one sentence, e.g. "gpu0 on NUMA node 1; 12 free CPUs there, 16 wanted".
func (m *Misfit) String() string {
	text := m.where()
	if len(m.Short) == 0 {
		return text + ": more NUMA nodes than the topology policy admits for them; a retry on this node gets the same devices"
	}
	for _, s := range m.Short {
		switch {
		case s.Free >= s.Wanted && s.Preferred != m.Nodes.Len():
			text += fmt.Sprintf("; %s fit there, but prefer %s", request.Words(s.Resource, s.Wanted), mask.Count(s.Preferred))
		case s.Free >= s.Wanted:
			text += fmt.Sprintf("; %s fit there, but not on exactly these NUMA nodes", request.Words(s.Resource, s.Wanted))
		case s.Resource == request.CPU:
			text += fmt.Sprintf("; %d free CPUs there, %d wanted", s.Free, s.Wanted)
		case request.IsMemory(s.Resource):
			text += fmt.Sprintf("; %s of %s free there, %s wanted", request.Bytes(s.Free), s.Resource, request.Bytes(s.Wanted))
		default:
			text += fmt.Sprintf("; %d free %s there, %d wanted", s.Free, s.Resource, s.Wanted)
		}
	}
	if m.Final {
		text += ", more than there can ever be"
	}
	return text
}
