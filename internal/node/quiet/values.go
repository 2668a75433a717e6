package quiet

import (
	"fmt"
	"math/bits"
	"path"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// Kind is what a file sets. Its text is what people read.
type Kind string

// The kinds, with their files. Names of files are relative to the root of the node, and have no
// slash in front.
const (
	// Interrupt is proc/irq/N/smp_affinity_list, and NewInterrupts proc/irq/default_smp_affinity
	// (Documentation/core-api/irq/irq-affinity.rst).
	Interrupt     Kind = "interrupt"
	NewInterrupts Kind = "new interrupts"
	// Workqueues is sys/devices/virtual/workqueue/cpumask (core-api/workqueue.rst).
	Workqueues Kind = "unbound workqueues"
	// Queue is sys/class/net/DEVICE/queues/rx-N/rps_cpus, and NewQueues
	// proc/sys/net/core/rps_default_mask (networking/scaling.rst; admin-guide/sysctl/net.rst).
	Queue     Kind = "receive queue"
	NewQueues Kind = "new receive queues"
	// ExclusiveCPUs is cpuset.cpus.exclusive, and Partition cpuset.cpus.partition of a cgroup
	// (admin-guide/cgroup-v2.rst).
	ExclusiveCPUs Kind = "exclusive CPUs"
	Partition     Kind = "partition"
	// Latency is sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us
	// (Documentation/ABI/testing/sysfs-devices-power).
	Latency Kind = "C-states"
	// Governor, MinFrequency and MaxFrequency are scaling_governor, scaling_min_freq and
	// scaling_max_freq of sys/devices/system/cpu/cpufreq/policyN (admin-guide/pm/cpufreq.rst).
	Governor     Kind = "governor"
	MinFrequency Kind = "lowest frequency"
	MaxFrequency Kind = "highest frequency"
	// DefaultClass is schemata of the root of sys/fs/resctrl, and CacheClass that of a group there
	// (filesystems/resctrl.rst). A group that does not exist is empty.
	DefaultClass Kind = "default cache class"
	CacheClass   Kind = "cache class"
	// Balancer is the variable IRQBALANCE_BANNED_CPULIST in the environment file of irqbalance.
	Balancer Kind = "irqbalance"
)

// Names of single files.
const (
	NewInterruptsFile = "proc/irq/default_smp_affinity"
	WorkqueuesFile    = "sys/devices/virtual/workqueue/cpumask"
	NewQueuesFile     = "proc/sys/net/core/rps_default_mask"
	BalancerFile      = "irqbalance/IRQBALANCE_BANNED_CPULIST"
	// Cgroups is in front of the names of files in cgroups.
	Cgroups = "cgroup"

	exclusiveBase = "cpuset.cpus.exclusive"
	partitionBase = "cpuset.cpus.partition"
)

// ExclusiveFile and PartitionFile return the names of files of a cgroup.
func ExclusiveFile(cgroup string) string { return path.Join(Cgroups, cgroup, exclusiveBase) }

// PartitionFile returns the name of the file with the kind of a cgroup's partition.
func PartitionFile(cgroup string) string { return path.Join(Cgroups, cgroup, partitionBase) }

// LatencyFile returns the name of the file that limits the C-states of a CPU.
func LatencyFile(cpu int) string {
	return "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/power/pm_qos_resume_latency_us"
}

// FrequencyFile returns the name of a file of a frequency policy such as "policy0".
func FrequencyFile(policy string, kind Kind) string {
	base := map[Kind]string{Governor: "scaling_governor", MinFrequency: "scaling_min_freq", MaxFrequency: "scaling_max_freq"}[kind]
	return "sys/devices/system/cpu/cpufreq/" + policy + "/" + base
}

// KindOf returns the kind of a file, or "" for a file that is never written.
func KindOf(name string) Kind {
	switch name {
	case NewInterruptsFile:
		return NewInterrupts
	case WorkqueuesFile:
		return Workqueues
	case NewQueuesFile:
		return NewQueues
	case BalancerFile:
		return Balancer
	}
	if strings.HasPrefix(name, Resctrl+"/") {
		return classKind(name)
	}
	kind := map[string]Kind{
		"smp_affinity_list": Interrupt, "rps_cpus": Queue, exclusiveBase: ExclusiveCPUs, partitionBase: Partition,
		"pm_qos_resume_latency_us": Latency, "scaling_governor": Governor, "scaling_min_freq": MinFrequency, "scaling_max_freq": MaxFrequency,
	}[path.Base(name)]
	return kind
}

// Survives reports whether the content of a file outlives the machine's restart.
func (k Kind) Survives() bool { return k == Balancer }

// isSet reports whether the content of a file is a set of CPUs.
func (k Kind) isSet() bool {
	switch k {
	case Interrupt, NewInterrupts, Workqueues, Queue, NewQueues, ExclusiveCPUs, Balancer:
		return true
	case Partition, Latency, Governor, MinFrequency, MaxFrequency, DefaultClass, CacheClass:
	}
	return false
}

// isMask reports whether a set is written in groups of 32 bits ("00000000,0000000f").
func (k Kind) isMask() bool {
	switch k {
	case NewInterrupts, Workqueues, Queue, NewQueues:
		return true
	case Interrupt, ExclusiveCPUs, Balancer, Partition, Latency, Governor, MinFrequency, MaxFrequency, DefaultClass, CacheClass:
	}
	return false
}

// Value returns the content of a file in the form in which this package compares it: a set of CPUs
// as a list, the kind of a partition without the reason why it is invalid, and schemata in one
// line.
func (k Kind) Value(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case k.isMask():
		set, err := ParseMask(text)
		return set.String(), err
	case k.isSet():
		if text == "(null)" { // The kernel writes it for a list that was never set.
			return "", nil
		}
		set, err := cpuset.Parse(text)
		return set.String(), err
	case k == Partition:
		text, _, _ = strings.Cut(text, " (")
	case k.IsClass():
		s, err := resctrl.Parse(text)
		return s.String(), err
	}
	return text, nil
}

// Text returns the text to write for a value. An empty set of a cgroup is a line without CPUs.
func (k Kind) Text(value string) string {
	switch {
	case k.isMask():
		return FormatMask(setOf(value))
	case k.IsClass():
		return strings.ReplaceAll(value, " ", "\n")
	}
	return value
}

// setOf returns the set that a value of Value describes.
func setOf(value string) cpuset.Set {
	set, _ := cpuset.Parse(value) // Value has checked it.
	return set
}

// ParseMask reads a mask of CPUs in groups of 32 bits (lib/bitmap.c, bitmap_parse). A mask may be
// shorter than the machine, and so may each group.
func ParseMask(text string) (cpuset.Set, error) {
	var cpus cpuset.Builder
	if text == "" {
		return cpus.Set(), nil
	}
	groups := strings.Split(text, ",")
	for i, group := range groups {
		word, err := strconv.ParseUint(group, 16, 32)
		if err != nil || 32*len(groups) > cpuset.MaxID {
			return cpuset.Set{}, fmt.Errorf("%q is not a mask of CPUs in groups of 32 bits", text)
		}
		for ; word != 0; word &= word - 1 {
			cpus.Add(32*(len(groups)-1-i) + bits.TrailingZeros64(word))
		}
	}
	return cpus.Set(), nil
}

// FormatMask returns the shortest text that ParseMask reads as the set.
func FormatMask(set cpuset.Set) string {
	if set.IsEmpty() {
		return "0"
	}
	groups := make([]uint32, set.Highest()/32+1)
	for id := range set.All() {
		groups[len(groups)-1-id/32] |= 1 << (id % 32)
	}
	text := strconv.FormatUint(uint64(groups[0]), 16)
	for _, group := range groups[1:] {
		text += fmt.Sprintf(",%08x", group)
	}
	return text
}
