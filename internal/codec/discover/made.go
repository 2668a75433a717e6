package discover

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Facts are the few numbers that describe a regular machine. All but Cores are numbers of the whole
// machine or of one core, as lscpu prints them: "Socket(s)", "Core(s) per socket", "Thread(s) per
// core", "NUMA node(s)".
type Facts struct {
	Sockets, Cores, Threads, NUMANodes int
	// Uncore is the number of cores of an uncore cache. If 0, the cores of a socket that are on the
	// same NUMA node share one.
	Uncore int
	// Memory is the memory of the machine in bytes, and GPUs is the number of its GPUs. Both are
	// divided equally between the NUMA nodes.
	Memory int64
	GPUs   int
}

// The limits of facts. Values outside them are most likely mistakes: less memory than a kubelet
// needs is a number of GiB, MiB or KiB without its unit.
const (
	maxMadeCPUs   = 4096
	maxMadeGPUs   = 64
	minMadeMemory = 1 << 30
	maxMadeMemory = 1 << 50
)

// FactNames returns the names of the facts in a text.
func FactNames() []string { return slices.Clone(factNames) }

var factNames = []string{"sockets", "cores", "threads", "numa", "uncore", "memory", "gpus"}

// ParseFacts parses a text such as "sockets=2,cores=48,threads=2,numa=2,memory=1Ti,gpus=8". Cores
// and memory are required. By default, sockets and threads are 1, gpus is 0, and there are as many
// NUMA nodes as sockets. An error names the fact.
func ParseFacts(text string) (Facts, error) {
	values := map[string]string{}
	for _, word := range strings.Split(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case !found || value == "":
			return Facts{}, fmt.Errorf("%q: expected NAME=VALUE, such as cores=48", word)
		case !slices.Contains(factNames, name):
			return Facts{}, fmt.Errorf("%q is unknown: %s", name, spelling.Expected(name, factNames))
		case values[name] != "":
			return Facts{}, fmt.Errorf("%s is given twice", name)
		}
		values[name] = value
	}
	return FactsOf(func(name string) string { return values[name] })
}

// FactsOf reads facts by name. of returns "" for a fact that is not given.
func FactsOf(of func(name string) string) (f Facts, err error) {
	for _, number := range []struct {
		name              string
		to                *int
		missing, low, max int
	}{
		{"sockets", &f.Sockets, 1, 1, maxMadeCPUs},
		{"cores", &f.Cores, 0, 1, maxMadeCPUs},
		{"threads", &f.Threads, 1, 1, maxMadeCPUs},
		{"numa", &f.NUMANodes, 0, 1, maxMadeCPUs},
		{"uncore", &f.Uncore, 0, 1, maxMadeCPUs},
		{"gpus", &f.GPUs, 0, 0, maxMadeGPUs},
	} {
		text := of(number.name)
		if *number.to = number.missing; text == "" {
			continue
		}
		digits, decimals, _ := strings.Cut(text, ".") // Programs that export tables write 8.0.
		n, err := strconv.Atoi(digits)
		if strings.Trim(decimals, "0") != "" {
			err = strconv.ErrSyntax
		}
		if err != nil || n < number.low || n > number.max {
			return f, fmt.Errorf("%s: %q: expected a whole number from %d to %d", number.name, text, number.low, number.max)
		}
		*number.to = n
	}
	if of("cores") == "" {
		return f, errors.New("cores is missing: expected the number of cores of a socket, such as cores=48")
	}
	memory := of("memory")
	if memory == "" {
		return f, errors.New("memory is missing: expected an amount such as memory=512Gi")
	}
	q, err := podspec.ParseQuantity(memory)
	if err != nil || q.Sign() <= 0 || q.CmpInt64(maxMadeMemory) > 0 {
		return f, fmt.Errorf("memory: %q: expected an amount above 0, such as 512Gi", memory)
	}
	f.Memory = q.Value()
	if f.NUMANodes == 0 {
		f.NUMANodes = f.Sockets
	}
	if err := f.check(); err != nil {
		return f, err
	}
	if f.Memory < minMadeMemory {
		return f, tooLittleMemory(memory, f.Memory)
	}
	return f, nil
}

// tooLittleMemory returns an error for an amount of memory that is too small for a machine. A
// number below 1 Mi without a unit most likely means GiB.
func tooLittleMemory(text string, bytes int64) error {
	if _, err := strconv.Atoi(text); err == nil && bytes<<30 <= maxMadeMemory {
		return fmt.Errorf("memory: %q is %d bytes: expected an amount with a unit (did you mean %sGi?)", text, bytes, text)
	}
	return fmt.Errorf("memory: %q: expected at least 1Gi, such as 512Gi", text)
}

// check returns an error if the facts contradict each other.
func (f *Facts) check() error {
	if f.Sockets*f.Cores > maxMadeCPUs || f.Sockets*f.Cores*f.Threads > maxMadeCPUs {
		return fmt.Errorf("%d sockets of %d cores with %d threads are more than %d CPUs", f.Sockets, f.Cores, f.Threads, maxMadeCPUs)
	}
	small, large := min(f.Sockets, f.NUMANodes), max(f.Sockets, f.NUMANodes)
	switch {
	case large%small != 0:
		return fmt.Errorf("numa: %d NUMA nodes cannot be divided equally among %d sockets: expected a multiple or a divisor of the sockets", f.NUMANodes, f.Sockets)
	case f.NUMANodes > f.Sockets && f.Cores%(f.NUMANodes/f.Sockets) != 0:
		return fmt.Errorf("cores: %d cores of a socket cannot be divided equally among %d NUMA nodes", f.Cores, f.NUMANodes/f.Sockets)
	}
	if n := min(f.Cores, f.Sockets*f.Cores/f.NUMANodes); f.Uncore > 0 && n%f.Uncore != 0 {
		return fmt.Errorf("uncore: the %d cores of a socket on a NUMA node cannot be divided into uncore caches of %d", n, f.Uncore)
	}
	return nil
}

// Made returns a regular machine. Its CPUs are numbered as on most servers: the first thread of
// each core, then the second threads. Its PCI devices are the GPUs.
func Made(name string, f Facts) (*Found, error) {
	cores := f.Sockets * f.Cores
	onNode := cores / f.NUMANodes
	uncore := f.Uncore
	if uncore == 0 {
		uncore = min(onNode, f.Cores)
	}
	info := &model.MachineInfo{
		NumCores: cores * f.Threads, NumPhysicalCores: cores, NumSockets: f.Sockets, MemoryCapacity: uint64(f.Memory),
	}
	for id := range f.NUMANodes {
		n := model.Node{Id: id, Memory: uint64(f.Memory) / uint64(f.NUMANodes) / pageBytes * pageBytes}
		for core := id * onNode; core < (id+1)*onNode; core++ {
			c := model.Core{Id: core % f.Cores, SocketID: core / f.Cores, UncoreCaches: []model.Cache{{Id: core / uncore, Type: "Unified", Level: 3}}}
			for thread := range f.Threads {
				c.Threads = append(c.Threads, core+thread*cores)
			}
			n.Cores = append(n.Cores, c)
		}
		perSocket := max(1, f.NUMANodes/f.Sockets)
		for other := range f.NUMANodes {
			distance := otherSocketDistance
			switch {
			case other == id:
				distance = localDistance
			case other/perSocket == id/perSocket:
				distance = sameSocketDistance
			}
			n.Distances = append(n.Distances, uint64(distance))
		}
		info.Topology = append(info.Topology, n)
	}
	out, err := found(name, info, kernel{})
	if err != nil {
		return nil, err
	}
	for i := range f.GPUs {
		at := f.GPUNode(i)
		out.PCI = append(out.PCI, PCIDevice{
			Address: fmt.Sprintf("0000:%02x:00.0", i+1), Class: "0x030200", Vendor: "0x10de", Device: "0x0000",
			NUMANode: &at, Root: fmt.Sprintf("pci0000:%02x", i+1),
		})
	}
	return out, nil
}

// GPUNode returns the NUMA node of the i-th GPU: the first GPUs are near NUMA node 0, and so on.
func (f *Facts) GPUNode(i int) int { return i * f.NUMANodes / f.GPUs }
