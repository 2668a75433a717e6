// Package discover describes machines. Live reads sysfs, Read reads a recorded file, and Assemble
// combines the files that a node without Paddock has. All three read cAdvisor's MachineInfo, which
// is what the kubelet sees, and return a validated machine.Machine.
//
// Unusable data is an error that names the file and what was expected. Usable but surprising data
// leads to a remark. The package does not panic on bad input, and does not change anything on the
// machine.
package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Found is a machine and its source.
type Found struct {
	// Name is "live", or the name of the recorded file or of the directory.
	Name string
	// Info is the MachineInfo that was read. It is shared and must not be modified.
	Info    *model.MachineInfo
	Machine *machine.Machine
	// Offline are the CPUs that are present but offline. It is empty for a recorded MachineInfo,
	// which does not list them.
	Offline cpuset.Set
	// PCI are the GPUs, NICs, NVMe disks and accelerators, sorted by address. It is empty for a
	// file of an older version.
	PCI []PCIDevice
	// Remarks are whole sentences for people about data that is legal but surprising.
	Remarks []string
	// Notes describe what is unknown about the machine, and what is assumed. Only Assemble sets
	// them. They name the file, and what to add.
	Notes []string
	// CachesError is the reason why Live could not read how the kernel divides caches. The machine
	// then divides none, because most nodes do not need that.
	CachesError error

	// recorded is the content of the file from which Info was read. It is nil for a live machine.
	recorded []byte
}

// kernel has properties of a machine that the kernel determines and a MachineInfo lacks.
type kernel struct {
	isolation machine.Isolation
	caches    machine.Caches
	// ids are the caches that the kernel divides. It is nil if they are unknown.
	ids []int
	// l3 has the L3 caches of a recorded machine, if they are in the file.
	l3 []machine.Unit
}

// found checks info and returns the machine that it describes.
func found(name string, info *model.MachineInfo, k kernel) (*Found, error) {
	description, err := FromInfo(info)
	if err != nil {
		return nil, err
	}
	description.Isolation = k.isolation
	why := withCaches(&description, info, k)
	m, err := machine.New(description)
	if err != nil {
		return nil, err
	}
	f := &Found{Name: name, Info: info, Machine: m}
	f.remark()
	if why != "" {
		f.add("The kernel can divide the L3 caches, and Paddock does not: %s.", why)
	}
	return f, nil
}

// remark adds remarks about reported values that the managers use although the rest of the file
// contradicts them.
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

// FromInfo describes the machine as the CPU and Memory Managers see it. The uncore cache of a core
// is the first one that is listed for it (R-CPU-1). The numbers of CPUs and sockets are the
// reported ones (R-CPU-2). Every listed size of huge pages counts, even if it has no pages
// (R-MEM-12). FromInfo does not check the description further; machine.New does.
func FromInfo(info *model.MachineInfo) (machine.Description, error) {
	if info.NumCores <= 0 {
		return machine.Description{}, fmt.Errorf("num_cores is %d, expected the number of CPUs", info.NumCores)
	}
	if info.NumSockets < 0 {
		return machine.Description{}, fmt.Errorf("num_sockets is %d, expected the number of sockets", info.NumSockets)
	}
	if len(info.Topology) == 0 {
		return machine.Description{}, fmt.Errorf("topology lists no NUMA node")
	}
	d := machine.Description{CPUs: info.NumCores, Sockets: info.NumSockets}
	// If the firmware has no socket ids, the kernel reports socket -1 for every core. The machine
	// then counts as one socket.
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
