package predict

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// ErrInvalid is wrapped by every error of this package: a value is not usable.
var ErrInvalid = errors.New("not usable")

// MaxCPUs is the largest number of CPUs of a machine that is made of Facts.
const MaxCPUs = 8192

// MaxDescription is the largest size of the text for ParseMachine, in bytes.
const MaxDescription = 1 << 20

// Machine is the hardware of a node: sockets, NUMA nodes, cores, threads, caches, distances, memory
// and huge pages. It is immutable.
type Machine struct{ machine *machine.Machine }

// Facts are the few numbers that describe a regular machine, such as the template of a node group.
// CPUs are numbered as on most servers: the first thread of each core, then the second threads.
type Facts struct {
	// Sockets, CoresPerSocket and ThreadsPerCore are as lscpu prints them. Zero means 1.
	Sockets, CoresPerSocket, ThreadsPerCore int
	// NUMANodes is the number of NUMA nodes of the machine, a multiple or a divisor of Sockets.
	// Zero means one NUMA node for each socket.
	NUMANodes int
	// CoresPerUncoreCache is the number of cores that share a last-level cache. Zero means that all
	// cores of a socket that are on the same NUMA node do.
	CoresPerUncoreCache int
	// Memory is the memory of the machine in bytes, huge pages included. It is divided equally
	// among the NUMA nodes, in whole pages of 4 KiB.
	Memory int64
	// HugePages are bytes of the machine by resource, such as "hugepages-1Gi", divided equally.
	HugePages map[string]int64
}

// Machine returns the machine of the facts.
func (f Facts) Machine() (*Machine, error) {
	f.Sockets, f.CoresPerSocket, f.ThreadsPerCore = orOne(f.Sockets), orOne(f.CoresPerSocket), orOne(f.ThreadsPerCore)
	if f.NUMANodes == 0 {
		f.NUMANodes = f.Sockets
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("facts of a machine: %w: %w", ErrInvalid, err)
	}
	d, err := f.description()
	if err != nil {
		return nil, fmt.Errorf("facts of a machine: %w: %w", ErrInvalid, err)
	}
	return newMachine(d)
}

func orOne(n int) int {
	if n == 0 {
		return 1
	}
	return n
}

func (f *Facts) check() error {
	for _, n := range []int{f.Sockets, f.CoresPerSocket, f.ThreadsPerCore, f.NUMANodes} {
		if n < 1 || n > MaxCPUs {
			return fmt.Errorf("%d is not a number from 1 to %d", n, MaxCPUs)
		}
	}
	large, small := max(f.Sockets, f.NUMANodes), min(f.Sockets, f.NUMANodes)
	cores := f.Sockets * f.CoresPerSocket
	switch {
	case cores > MaxCPUs || cores*f.ThreadsPerCore > MaxCPUs:
		return fmt.Errorf("%d cores with %d threads are more than %d CPUs", cores, f.ThreadsPerCore, MaxCPUs)
	case f.NUMANodes > mask.MaxNode+1:
		return fmt.Errorf("%d NUMA nodes are more than %d", f.NUMANodes, mask.MaxNode+1)
	case large%small != 0 || f.NUMANodes > f.Sockets && f.CoresPerSocket%(f.NUMANodes/f.Sockets) != 0:
		return fmt.Errorf("%d sockets of %d cores cannot be divided equally among %d NUMA nodes", f.Sockets, f.CoresPerSocket, f.NUMANodes)
	case f.Memory < 0:
		return fmt.Errorf("the memory of %d bytes is negative", f.Memory)
	}
	shared := min(f.CoresPerSocket, cores/f.NUMANodes)
	if n := f.CoresPerUncoreCache; n < 0 || n > 0 && shared%n != 0 {
		return fmt.Errorf("the %d cores of a socket on a NUMA node cannot be divided into caches of %d cores", shared, n)
	}
	return nil
}

// Distances as the firmware of most servers reports them, and the size of a page in bytes.
const (
	localDistance, sameSocketDistance, otherSocketDistance = 10, 12, 32
	pageBytes                                              = 4096
)

func (f *Facts) description() (machine.Description, error) {
	cores := f.Sockets * f.CoresPerSocket
	onNode := cores / f.NUMANodes
	uncore := f.CoresPerUncoreCache
	if uncore == 0 {
		uncore = min(onNode, f.CoresPerSocket)
	}
	d := machine.Description{CPUs: cores * f.ThreadsPerCore, Sockets: f.Sockets}
	perSocket := max(1, f.NUMANodes/f.Sockets)
	for id := range f.NUMANodes {
		n := machine.NodeDescription{ID: id, Memory: f.Memory / int64(f.NUMANodes) / pageBytes * pageBytes}
		for _, name := range slices.Sorted(maps.Keys(f.HugePages)) {
			kib, err := pageKiB(name)
			if err != nil {
				return d, err
			}
			n.HugePages = append(n.HugePages, machine.HugePages{SizeKiB: kib, Count: f.HugePages[name] / int64(f.NUMANodes) / (kib * 1024)})
		}
		for core := id * onNode; core < (id+1)*onNode; core++ {
			c := machine.CoreDescription{Socket: core / f.CoresPerSocket, Uncore: core / uncore}
			for thread := range f.ThreadsPerCore {
				c.Threads = append(c.Threads, core+thread*cores)
			}
			n.Cores = append(n.Cores, c)
		}
		for other := range f.NUMANodes {
			switch {
			case other == id:
				n.Distances = append(n.Distances, localDistance)
			case other/perSocket == id/perSocket:
				n.Distances = append(n.Distances, sameSocketDistance)
			default:
				n.Distances = append(n.Distances, otherSocketDistance)
			}
		}
		d.Nodes = append(d.Nodes, n)
	}
	return d, nil
}

// pageKiB returns the page size of a resource such as "hugepages-2Mi".
func pageKiB(resource string) (int64, error) {
	for unit, kib := range map[string]int64{"Ki": 1, "Mi": 1 << 10, "Gi": 1 << 20} {
		number, is := strings.CutSuffix(strings.TrimPrefix(resource, "hugepages-"), unit)
		n, err := strconv.ParseUint(number, 10, 20)
		if is && err == nil && n > 0 && machine.HugePageType(int64(n)*kib) == resource {
			return int64(n) * kib, nil
		}
	}
	return 0, fmt.Errorf("%q is not a resource of huge pages: expected a name such as hugepages-2Mi or hugepages-1Gi", resource)
}

// info has the members of cAdvisor's MachineInfo that decide.
type info struct {
	CPUs     int `json:"num_cores"`
	Sockets  int `json:"num_sockets"`
	Topology []struct {
		ID        int    `json:"node_id"`
		Memory    uint64 `json:"memory"`
		HugePages []struct {
			SizeKiB uint64 `json:"page_size"`
			Count   uint64 `json:"num_pages"`
		} `json:"hugepages"`
		Cores []struct {
			Threads []int `json:"thread_ids"`
			Uncore  []struct {
				ID int `json:"id"`
			} `json:"uncore_caches"`
			Socket int `json:"socket_id"`
		} `json:"cores"`
		Distances []int `json:"distances"`
	} `json:"topology"`
	Isolation *struct {
		Isolated   string `json:"isolated"`
		NoHzFull   string `json:"nohz_full"`
		ManagedIRQ string `json:"managed_irq"`
	} `json:"isolation"`
}

// ParseMachine reads a machine from the JSON that `paddock topology -o json` writes on a node and
// that a PaddockMachine has as its description: the MachineInfo of cAdvisor, which a kubelet uses.
// It does not read how caches can be divided (resctrl), on which only the option cache-allocation
// depends: NewPolicy rejects a policy with it.
func ParseMachine(description []byte) (*Machine, error) {
	if len(description) > MaxDescription {
		return nil, fmt.Errorf("machine: %w: the description has %d bytes, more than %d", ErrInvalid, len(description), MaxDescription)
	}
	var in info
	if err := json.Unmarshal(description, &in); err != nil {
		return nil, fmt.Errorf("machine: %w: expected the JSON of paddock topology -o json: %w", ErrInvalid, err)
	}
	d := machine.Description{CPUs: in.CPUs, Sockets: in.Sockets}
	for i := range in.Topology {
		from := &in.Topology[i]
		n := machine.NodeDescription{ID: from.ID, Memory: bounded(from.Memory), Distances: from.Distances}
		for _, p := range from.HugePages {
			n.HugePages = append(n.HugePages, machine.HugePages{SizeKiB: bounded(p.SizeKiB), Count: bounded(p.Count)})
		}
		for j := range from.Cores {
			c := machine.CoreDescription{Socket: from.Cores[j].Socket, Threads: from.Cores[j].Threads, Uncore: machine.NoUncore}
			if len(from.Cores[j].Uncore) > 0 {
				c.Uncore = from.Cores[j].Uncore[0].ID
			}
			n.Cores = append(n.Cores, c)
		}
		d.Nodes = append(d.Nodes, n)
	}
	if i := in.Isolation; i != nil {
		for _, set := range []struct {
			to   *cpuset.Set
			text string
		}{{&d.Isolation.Isolated, i.Isolated}, {&d.Isolation.NoHzFull, i.NoHzFull}, {&d.Isolation.ManagedIRQ, i.ManagedIRQ}} {
			var err error
			if *set.to, err = cpuset.Parse(set.text); err != nil {
				return nil, fmt.Errorf("machine: isolation: %w: %w", ErrInvalid, err)
			}
		}
	}
	return newMachine(d)
}

// bounded returns n, or a negative number that machine.New rejects if n is too large.
func bounded(n uint64) int64 {
	if n > math.MaxInt64 {
		return -1
	}
	return int64(n)
}

func newMachine(d machine.Description) (*Machine, error) {
	m, err := machine.New(d)
	if err != nil {
		return nil, fmt.Errorf("machine: %w: %w", ErrInvalid, err)
	}
	return &Machine{m}, nil
}

// CPUs returns all CPUs as a list such as "0-63".
func (m *Machine) CPUs() string { return m.machine.AllCPUs().String() }

// NUMANode is a NUMA node of a machine.
type NUMANode struct {
	ID int
	// CPUs is a list such as "0-15,32-47". It is empty on a NUMA node that has only memory.
	CPUs string
	// Memory is in bytes, huge pages included.
	Memory int64
}

// NUMANodes returns the NUMA nodes, ascending by id.
func (m *Machine) NUMANodes() []NUMANode {
	var out []NUMANode
	for _, n := range m.machine.Nodes() {
		out = append(out, NUMANode{n.ID, n.CPUs.String(), n.Memory})
	}
	return out
}
