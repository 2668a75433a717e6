// Package fakekernel provides a kernel for tests. It is a directory with the files of proc, sys and
// cgroups that paddock quiet reads, and a method Write, which changes the files as the kernel does
// when a program writes to them. It follows the kernel's documentation and source; each rule names
// its place in Linux 6.18.
//
// Reads go to the directory. Every other change goes through a method and is one step, so a program
// that is killed leaves a whole change or none. A Kernel is safe for concurrent use.
package fakekernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// Options describe a machine and its kernel.
type Options struct {
	// CPUs is the number of CPUs. Threads 2n and 2n+1 are a core.
	CPUs int
	// WithoutExclusive simulates a kernel before 6.7, without cpuset.cpus.exclusive.
	WithoutExclusive bool
	// WithoutFrequencies simulates a virtual machine, without cpufreq.
	WithoutFrequencies bool
	// Resctrl names the recorded machine whose caches the kernel has: "xeon-cdp", "xeon-mba" or
	// "epyc". If empty, there is no resctrl.
	Resctrl string
}

// Kernel is a simulated kernel.
type Kernel struct {
	dir     string
	options Options

	mu      sync.Mutex
	online  cpuset.Set
	managed map[string]error // the error of each interrupt that the kernel manages
	groups  map[string]*group
	// requested is the last list that was written for unbound workqueues.
	requested cpuset.Set
	reject    map[string]error
	resctrl   *resctrl
	// unprivileged is set if writers have none of CAP_SYS_ADMIN, CAP_NET_ADMIN and
	// CAP_DAC_OVERRIDE.
	unprivileged bool
}

// New makes a kernel in an empty directory.
func New(dir string, o Options) (*Kernel, error) {
	k := &Kernel{dir: dir, options: o, managed: map[string]error{}, groups: map[string]*group{}, reject: map[string]error{}}
	k.online = k.possible()
	k.requested = k.online
	files := map[string]string{
		quiet.NewInterruptsFile:                 quiet.FormatMask(k.online),
		quiet.NewQueuesFile:                     "0",
		"sys/devices/system/cpu/possible":       k.online.String(),
		"sys/devices/system/cpu/isolated":       "",
		"sys/devices/system/cpu/nohz_full":      "(null)",
		"proc/sys/kernel/random/boot_id":        "0d1f6a3e-58a5-4a8f-9c0c-000000000001",
		"proc/sys/kernel/osrelease":             "6.18.0",
		"proc/sys/kernel/numa_balancing":        "1",
		"proc/sys/kernel/timer_migration":       "1",
		"sys/fs/cgroup/cgroup.controllers":      "cpuset cpu memory",
		"sys/fs/cgroup/cpuset.cpus.effective":   k.online.String(),
		"sys/class/net/lo/queues/rx-0/rps_cpus": "0",
		"sys/devices/virtual/workqueue/cpumask": quiet.FormatMask(k.online),
		"proc/irq/prof_cpu_mask":                quiet.FormatMask(k.online),
	}
	for cpu := range k.online.All() {
		at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		files[at+"topology/thread_siblings_list"] = cpuset.Of(cpu&^1, min(cpu|1, o.CPUs-1)).String()
		files[at+"power/pm_qos_resume_latency_us"] = "0"
		if !o.WithoutFrequencies {
			at = fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/", cpu)
			files[at+"related_cpus"] = strconv.Itoa(cpu)
			files[at+"scaling_available_governors"] = "performance powersave schedutil"
			files[at+"scaling_governor"] = "schedutil"
			files[at+"cpuinfo_min_freq"], files[at+"cpuinfo_max_freq"] = "800000", "3600000"
			files[at+"scaling_min_freq"], files[at+"scaling_max_freq"] = "800000", "3600000"
		}
	}
	for name, text := range files {
		if err := k.put(name, text); err != nil {
			return nil, err
		}
	}
	k.groups["/"] = &group{}
	if err := k.mount(o.Resctrl); err != nil {
		return nil, err
	}
	return k, k.settle()
}

// Root returns the directory.
func (k *Kernel) Root() string { return k.dir }

func (k *Kernel) possible() cpuset.Set {
	var all cpuset.Builder
	for cpu := range k.options.CPUs {
		all.Add(cpu)
	}
	return all.Set()
}

// place returns where a file is.
func (k *Kernel) place(name string) string {
	if rest, is := strings.CutPrefix(name, quiet.Cgroups+"/"); is {
		name = "sys/fs/cgroup/" + rest
	}
	if name == quiet.Resctrl || strings.HasPrefix(name, quiet.Resctrl+"/") {
		name = "sys/fs/" + name
	}
	return filepath.Join(k.dir, name)
}

// put writes a file in one step.
func (k *Kernel) put(name, text string) error {
	place := k.place(name)
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(place+".new", []byte(text+"\n"), 0o600); err != nil { //nolint:forbidigo // A kernel has no disk.
		return err
	}
	return os.Rename(place+".new", place) //nolint:forbidigo // As above.
}

func (k *Kernel) get(name string) string {
	text, _ := os.ReadFile(k.place(name)) // A file that is missing is empty.
	return strings.TrimSpace(string(text))
}

// Get returns the content of a file, without the space around it.
func (k *Kernel) Get(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.get(name)
}

// Reject makes every write to a file fail, or succeed again if err is nil.
func (k *Kernel) Reject(name string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reject[name] = err
}

// DropPrivilege takes CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_DAC_OVERRIDE from later writers.
func (k *Kernel) DropPrivilege() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unprivileged = true
}

// AddInterrupt adds an interrupt with the default affinity. managed is the error of writes if the
// kernel manages it: EIO, or EPERM in newer kernels.
func (k *Kernel) AddInterrupt(number int, managed error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := fmt.Sprintf("proc/irq/%d/", number)
	k.managed[name+"smp_affinity_list"] = managed
	// kernel/irq/manage.c, irq_setup_affinity: a new interrupt has the default affinity.
	set, err := quiet.ParseMask(k.get(quiet.NewInterruptsFile))
	if err != nil {
		return err
	}
	return k.affinity(name, set)
}

// RemoveInterrupt removes an interrupt.
func (k *Kernel) RemoveInterrupt(number int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return os.RemoveAll(k.place(fmt.Sprintf("proc/irq/%d", number)))
}

func (k *Kernel) affinity(dir string, set cpuset.Set) error {
	for name, text := range map[string]string{
		"smp_affinity_list": set.String(), "smp_affinity": quiet.FormatMask(set),
		"effective_affinity_list": cpuset.Of(set.Intersection(k.online).Lowest()).String(),
	} {
		if err := k.put(dir+name, text); err != nil {
			return err
		}
	}
	return nil
}

// AddDevice adds a network device with receive queues, which have the default mask.
func (k *Kernel) AddDevice(name string, queues int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range queues {
		// net/core/net-sysfs.c, rx_queue_default_mask: a new queue of the host's namespace.
		if err := k.put(fmt.Sprintf("sys/class/net/%s/queues/rx-%d/rps_cpus", name, i), k.get(quiet.NewQueuesFile)); err != nil {
			return err
		}
	}
	return nil
}

// SetOnline takes CPUs offline, or online again.
func (k *Kernel) SetOnline(cpus cpuset.Set) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.online = cpus
	if k.resctrl != nil {
		if err := k.resctrl.hotplug(); err != nil {
			return err
		}
	}
	return k.settle()
}

// Reboot starts the kernel again: every setting is the kernel's own, and there are no cgroups.
func (k *Kernel) Reboot(boot string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := os.RemoveAll(k.place(quiet.Resctrl)); err != nil {
		return err
	}
	fresh, err := New(k.dir, k.options)
	if err != nil {
		return err
	}
	for name := range k.groups {
		if name != "/" {
			if err := os.RemoveAll(k.place(quiet.Cgroups + name)); err != nil {
				return err
			}
		}
	}
	for name := range k.managed {
		if err := k.affinity(strings.TrimSuffix(name, "smp_affinity_list"), k.possible()); err != nil {
			return err
		}
	}
	k.online, k.groups, k.requested, k.resctrl = fresh.online, fresh.groups, fresh.requested, fresh.resctrl
	if k.resctrl != nil {
		k.resctrl.k = k
	}
	if err := k.put("proc/sys/kernel/random/boot_id", boot); err != nil {
		return err
	}
	return k.settle()
}

// Write does what the kernel does when a program writes text to a file. Package quiet defines the
// names of files.
func (k *Kernel) Write(name, text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := os.Stat(k.place(name)); err != nil {
		return err
	}
	if err := k.reject[name]; err != nil {
		return err
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(name, quiet.Resctrl+"/") {
		return k.resctrl.write(name, text)
	}
	switch quiet.KindOf(name) {
	case quiet.Interrupt:
		return k.writeInterrupt(name, text)
	case quiet.NewInterrupts:
		return k.writeMask(name, text, func(set cpuset.Set) (cpuset.Set, error) {
			// kernel/irq/proc.c, default_affinity_write: at least one CPU must be online.
			return set, invalid(!set.Intersects(k.online))
		})
	case quiet.Workqueues:
		return k.writeMask(name, text, func(set cpuset.Set) (cpuset.Set, error) {
			// kernel/workqueue.c, workqueue_set_unbound_cpumask: only possible CPUs count, and
			// there must be one. The file shows the list without the isolated CPUs.
			k.requested = set
			return k.unbound(), invalid(set.IsEmpty())
		})
	case quiet.Queue, quiet.NewQueues:
		return k.writeQueue(name, text)
	case quiet.Latency:
		return k.writeLatency(name, text)
	case quiet.Governor:
		// drivers/cpufreq/cpufreq.c, store_scaling_governor.
		if !strings.Contains(" "+k.get(filepath.Dir(name)+"/scaling_available_governors")+" ", " "+text+" ") {
			return syscall.EINVAL
		}
		return k.put(name, text)
	case quiet.MinFrequency, quiet.MaxFrequency:
		return k.writeFrequency(name, text)
	case quiet.ExclusiveCPUs:
		return k.writeExclusive(name, text)
	case quiet.Partition:
		return k.writePartition(name, text)
	case quiet.Balancer, quiet.DefaultClass, quiet.CacheClass:
	}
	return syscall.EPERM
}

func invalid(is bool) error {
	if is {
		return syscall.EINVAL
	}
	return nil
}

// list parses a list of CPUs (lib/bitmap-str.c, bitmap_parselist): what is no list is EINVAL, and a
// CPU that the kernel has no bit for is ERANGE.
func (k *Kernel) list(text string) (cpuset.Set, error) {
	set, err := cpuset.Parse(text)
	switch {
	case err != nil:
		return set, syscall.EINVAL
	case !k.possible().Contains(set):
		return set, syscall.ERANGE
	}
	return set, nil
}

// writeMask parses a mask (lib/bitmap-str.c, bitmap_parse): groups of at most 8 hexadecimal digits,
// which may be fewer than the machine has. Bits that the kernel does not have are EOVERFLOW.
func (k *Kernel) writeMask(name, text string, use func(cpuset.Set) (cpuset.Set, error)) error {
	set, err := quiet.ParseMask(text)
	switch {
	case err != nil || text == "":
		return syscall.EINVAL
	case !k.possible().Contains(set):
		return syscall.EOVERFLOW
	}
	if set, err = use(set); err != nil {
		return err
	}
	return k.put(name, k.wide(set))
}

// wide returns a mask as the kernel prints it: all bits that it has ("%*pb").
func (k *Kernel) wide(set cpuset.Set) string {
	digits := (k.options.CPUs + 3) / 4
	text := strings.ReplaceAll(quiet.FormatMask(set), ",", "")
	text = strings.Repeat("0", max(0, digits-len(text))) + text
	var groups []string
	for len(text) > 8 {
		groups = append([]string{text[len(text)-8:]}, groups...)
		text = text[:len(text)-8]
	}
	return strings.Join(append([]string{text}, groups...), ",")
}

// writeInterrupt is kernel/irq/proc.c, write_irq_affinity.
func (k *Kernel) writeInterrupt(name, text string) error {
	if err := k.managed[name]; err != nil {
		return err // irq_can_set_affinity_usr: managed interrupts.
	}
	set, err := k.list(text)
	switch {
	case err != nil:
		return err
	case !set.Intersects(k.online):
		return syscall.EINVAL // One online CPU must be left.
	}
	return k.affinity(strings.TrimSuffix(name, "smp_affinity_list"), set)
}

// writeQueue is net/core/net-sysfs.c, store_rps_map: it needs CAP_NET_ADMIN, and keeps the online
// CPUs. The default mask is a sysctl (net/core/sysctl_net_core.c, rps_default_mask_sysctl), which
// the owner may write.
func (k *Kernel) writeQueue(name, text string) error {
	if k.unprivileged && name != quiet.NewQueuesFile {
		return syscall.EPERM
	}
	return k.writeMask(name, text, func(set cpuset.Set) (cpuset.Set, error) {
		if name == quiet.NewQueuesFile {
			return set, nil
		}
		return set.Intersection(k.online), nil
	})
}

// writeLatency is drivers/base/power/sysfs.c, pm_qos_resume_latency_us_store.
func (k *Kernel) writeLatency(name, text string) error {
	if value, err := strconv.ParseInt(text, 0, 32); (err != nil || value < 0 || value == 1<<31-1) && text != "n/a" {
		return syscall.EINVAL
	}
	return k.put(name, text)
}

// writeFrequency is drivers/cpufreq/cpufreq.c, store_one: the value is kept within the limits of
// the hardware.
func (k *Kernel) writeFrequency(name, text string) error {
	value, err := strconv.Atoi(text)
	if err != nil {
		return syscall.EINVAL
	}
	low, _ := strconv.Atoi(k.get(filepath.Dir(name) + "/cpuinfo_min_freq"))
	high, _ := strconv.Atoi(k.get(filepath.Dir(name) + "/cpuinfo_max_freq"))
	return k.put(name, strconv.Itoa(min(max(value, low), high)))
}
