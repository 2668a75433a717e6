package discover

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/google/cadvisor/lib/utils/sysinfo"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// LiveName is the name of a machine that Live found.
const LiveName = "live"

// Live reads the machine from sysfs and procfs below root, which is os.DirFS("/") except in tests.
// It leaves out offline CPUs, as the kubelet does.
//
// Info has only the data that decisions need. Data that identifies an individual machine (ids,
// addresses, disks, the time) is left empty, so that recordings can be shared and compared.
func Live(root fs.FS) (*Found, error) {
	t := &tree{SysFs: sysfs.NewRealSysFs(), root: root}
	online, ok, err := t.list(cpuDir + "/online")
	if err != nil {
		return nil, fmt.Errorf("reading the topology: %w", err)
	}
	if ok {
		t.online = &online
	}
	info, remarks, err := t.info()
	if err != nil {
		return nil, fmt.Errorf("reading the topology: %w", err)
	}
	var k kernel
	if k.isolation, err = t.isolation(); err != nil {
		return nil, fmt.Errorf("reading the topology: %w", err)
	}
	files, wrong := t.resctrl()
	if wrong == nil {
		k.caches, k.ids, wrong = files.caches()
	}
	f, err := found(LiveName, info, k)
	if err != nil {
		return nil, fmt.Errorf("the topology below /sys/devices/system: %w", err)
	}
	if err := f.look(t); err != nil {
		return nil, fmt.Errorf("reading the topology: %w", err)
	}
	f.Remarks = append(f.Remarks, remarks...)
	if f.CachesError = wrong; wrong != nil {
		f.add("Paddock does not divide the L3 caches, because it cannot read how the kernel does: %v.", wrong)
	}
	f.PCI, remarks = t.pci()
	f.Remarks = append(f.Remarks, remarks...)
	return f, nil
}

// Online returns the CPUs that are online now (Documentation/admin-guide/cputopology.rst,
// "online"). It reads one small file and is cheap enough to be called every second. The error wraps
// fs.ErrNotExist if the kernel does not have the file.
func Online(root fs.FS) (cpuset.Set, error) {
	t := &tree{root: root}
	const file = cpuDir + "/online"
	text, err := t.text(file)
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(text)
	if err == nil && set.IsEmpty() {
		err = errors.New("it lists no CPU")
	}
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("%s: %w", absolute(file), err)
	}
	return set, nil
}

func (t *tree) info() (*model.MachineInfo, []string, error) {
	if len(t.numbered(cpuDir, "cpu")) == 0 {
		return nil, nil, fmt.Errorf("/%s lists no CPU; where there is no sysfs, name a recorded file", cpuDir)
	}
	nodes, _, err := sysinfo.GetNodesInfo(t)
	if err != nil {
		return nil, nil, fmt.Errorf("NUMA nodes: %w", err)
	}
	pages, err := sysinfo.GetHugePagesInfo(t, "/"+hugePagesDir+"/")
	if err != nil {
		return nil, nil, fmt.Errorf("huge pages: %w", err)
	}
	memory, err := t.memoryCapacity()
	if err != nil {
		return nil, nil, err
	}
	vendor := ""
	if text, err := t.text("proc/cpuinfo"); err == nil { // Some architectures do not have vendor_id.
		if match := vendorID.FindStringSubmatch(text); match != nil {
			vendor = match[1]
		}
	}
	info := &model.MachineInfo{CPUVendorID: vendor, MemoryCapacity: memory, HugePages: pages, Topology: nodes}
	var remarks []string
	if len(t.numbered(nodeDir, "node")) == 0 {
		info.Topology = oneNode(info)
		remarks = []string{"The kernel reports no NUMA nodes: the machine is taken as one."}
	}
	// The library takes the sockets from /proc/cpuinfo, which lists the same CPUs. Its number of
	// physical cores counts equal ids on two sockets only once.
	sockets := map[int]bool{}
	for _, n := range info.Topology {
		for _, core := range n.Cores {
			sockets[core.SocketID] = true
			info.NumCores += len(core.Threads)
			info.NumPhysicalCores++
		}
	}
	info.NumSockets = len(sockets)
	if info.NumCores == 0 {
		return nil, nil, errors.New("no CPU that is online has a topology/core_id and a topology/physical_package_id below /" + cpuDir)
	}
	return info, remarks, nil
}

// oneNode merges the NUMA nodes that the library found on a kernel without NUMA support. There the
// library returns a NUMA node for each socket, in no order and without memory. Such a kernel has
// only memory node 0.
func oneNode(info *model.MachineInfo) []model.Node {
	one := model.Node{Memory: info.MemoryCapacity, HugePages: info.HugePages}
	slices.SortFunc(info.Topology, func(a, b model.Node) int { return cmp.Compare(a.Id, b.Id) })
	for _, n := range info.Topology {
		one.Cores = append(one.Cores, n.Cores...)
		if len(info.Topology) == 1 {
			one.Caches = n.Caches
		}
	}
	return []model.Node{one}
}

var (
	memTotal = regexp.MustCompile(`(?m)^MemTotal:\s*(\d+) kB$`)
	vendorID = regexp.MustCompile(`(?m)^vendor_id\s*:\s*(\S+)`)
)

// memoryCapacity returns the memory that the kernel manages, in bytes, from /proc/meminfo.
func (t *tree) memoryCapacity() (uint64, error) {
	text, err := t.text("proc/meminfo")
	if err != nil {
		return 0, err
	}
	match := memTotal.FindStringSubmatch(text)
	if match == nil {
		return 0, errors.New("/proc/meminfo has no MemTotal in kB")
	}
	kib, err := strconv.ParseUint(match[1], 10, 53)
	if err != nil {
		return 0, fmt.Errorf("/proc/meminfo: MemTotal: %w", err)
	}
	return kib * 1024, nil
}

// look adds what a MachineInfo cannot represent: the offline CPUs and, on hybrid x86 machines, the
// kind of each core.
func (f *Found) look(t *tree) error {
	present, ok, err := t.list(cpuDir + "/present")
	if err != nil {
		return err
	}
	if ok && t.online != nil {
		f.Offline = present.Difference(*t.online)
	}
	if !f.Offline.IsEmpty() {
		f.add("Offline CPUs are left out: %s.", f.Offline)
	}
	var kinds [2]cpuset.Set
	for i, kind := range []string{"cpu_core", "cpu_atom"} {
		if kinds[i], _, err = t.list("sys/devices/" + kind + "/cpus"); err != nil {
			return err
		}
	}
	if !kinds[0].IsEmpty() && !kinds[1].IsEmpty() {
		f.add("Cores are of two kinds: performance cores have CPUs %s, efficiency cores %s.", kinds[0], kinds[1])
	}
	return nil
}
