// Package discover finds out what machine there is: from sysfs, with Live, or from a
// recorded file, with Read. Both speak cAdvisor's MachineInfo, which is what the
// kubelet sees, and make a checked machine.Machine of it.
//
// Whatever is not usable is an error that names the file and what was expected of it.
// What is usable but worth knowing is a remark. Nothing here panics on bad input, and
// nothing is changed on the machine.
package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Found is a machine and where it was found.
type Found struct {
	// Name is "live" or the name of the recorded file.
	Name string
	// Info is what was read. It is shared: do not change it.
	Info    *model.MachineInfo
	Machine *machine.Machine
	// Offline are the CPUs that are present but offline. A recorded file does not
	// know them.
	Offline cpuset.Set
	// PCI are the GPUs, NICs, NVMe disks and accelerators, by address. A file of an older version
	// has none.
	PCI []PCIDevice
	// Remarks are whole sentences for people, about things that are legal but
	// surprising.
	Remarks []string

	// recorded is the file that Info was read from; nil if there is none.
	recorded []byte
}

// found checks info and makes the machine of it.
func found(name string, info *model.MachineInfo) (*Found, error) {
	description, err := FromInfo(info)
	if err != nil {
		return nil, err
	}
	m, err := machine.New(description)
	if err != nil {
		return nil, err
	}
	f := &Found{Name: name, Info: info, Machine: m}
	f.remark()
	return f, nil
}

// remark looks for what the managers take as reported although the rest of the file
// disagrees.
func (f *Found) remark() {
	m := f.Machine
	if listed := len(m.CPUs()); listed != f.Info.NumCores {
		f.add("It reports %d CPUs and lists %d: averages are taken over the reported number.", f.Info.NumCores, listed)
	}
	if listed := len(m.Sockets()); f.Info.NumSockets != 0 && listed != f.Info.NumSockets {
		f.add("It reports %d sockets and lists %d: averages are taken over the reported number.", f.Info.NumSockets, listed)
	}
	for _, core := range m.Cores() {
		if core.Size != m.Cores()[0].Size {
			f.add("Cores have different numbers of threads: where whole cores are counted, each is taken for %d, the average rounded down.", m.CPUsPerCore())
			break
		}
	}
	var memory int64
	for _, n := range m.Nodes() {
		memory += n.Memory
	}
	if memory == 0 {
		f.add("No NUMA node reports memory: memory cannot be pinned.")
	}
}

func (f *Found) add(format string, args ...any) {
	f.Remarks = append(f.Remarks, fmt.Sprintf(format, args...))
}

// FromInfo describes the machine as the CPU and Memory Managers see it: a core's
// uncore cache is the first that is listed for it (R-CPU-1), CPUs and sockets count
// as reported (R-CPU-2), every listed size of huge pages is one, with pages or
// without (R-MEM-12). The description is not checked further; machine.New does that.
func FromInfo(info *model.MachineInfo) (machine.Description, error) {
	if info.NumCores <= 0 {
		return machine.Description{}, fmt.Errorf("num_cores is %d, want the number of CPUs", info.NumCores)
	}
	if info.NumSockets < 0 {
		return machine.Description{}, fmt.Errorf("num_sockets is %d, want the number of sockets", info.NumSockets)
	}
	if len(info.Topology) == 0 {
		return machine.Description{}, fmt.Errorf("topology lists no NUMA node")
	}
	d := machine.Description{CPUs: info.NumCores, Sockets: info.NumSockets}
	// The kernel reports socket -1 for every core where firmware has no socket ids: it is then one
	// socket.
	unknown := true
	for _, n := range info.Topology {
		unknown = unknown && !slices.ContainsFunc(n.Cores, func(c model.Core) bool { return c.SocketID != -1 })
	}
	for i := range info.Topology {
		n, err := fromNode(&info.Topology[i])
		if err != nil {
			return machine.Description{}, fmt.Errorf("NUMA node %d: %w", info.Topology[i].Id, err)
		}
		for c := range n.Cores {
			if unknown {
				n.Cores[c].Socket = 0
			}
		}
		d.Nodes = append(d.Nodes, n)
	}
	return d, nil
}

func fromNode(n *model.Node) (machine.NodeDescription, error) {
	d := machine.NodeDescription{ID: n.Id, Memory: int64(n.Memory)}
	if n.Memory > math.MaxInt64 {
		return d, fmt.Errorf("memory of %d bytes is out of range", n.Memory)
	}
	for _, p := range n.HugePages {
		if p.PageSize > math.MaxInt64 || p.NumPages > math.MaxInt64 {
			return d, fmt.Errorf("%d huge pages of %d KiB are out of range", p.NumPages, p.PageSize)
		}
		d.HugePages = append(d.HugePages, machine.HugePages{SizeKiB: int64(p.PageSize), Count: int64(p.NumPages)})
	}
	for i := range n.Cores {
		core := &n.Cores[i]
		uncore := machine.NoUncore
		if len(core.UncoreCaches) > 0 {
			if uncore = core.UncoreCaches[0].Id; uncore < 0 {
				return d, fmt.Errorf("core %d has an uncore cache with id %d", core.Id, uncore)
			}
		}
		d.Cores = append(d.Cores, machine.CoreDescription{Socket: core.SocketID, Threads: core.Threads, Uncore: uncore})
	}
	for _, distance := range n.Distances {
		if distance > math.MaxInt32 {
			return d, fmt.Errorf("a distance of %d is out of range", distance)
		}
		d.Distances = append(d.Distances, int(distance))
	}
	return d, nil
}
