package noise

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// CPUs is a set of CPUs that a file of the kernel has.
type CPUs struct {
	Set cpuset.Set
	// Known is false if the file is missing or cannot be read.
	Known bool
}

// Affinity is where an interrupt may go, and where the hardware sends it.
type Affinity struct{ May, Effective CPUs }

// Queue is the receive queue of a network device, and the CPUs among which the kernel distributes
// its packets (RPS).
type Queue struct {
	Device, Queue string
	CPUs          cpuset.Set
}

// Settings are the settings of the kernel that decide who may interrupt a CPU. A text is empty if
// its file is missing or cannot be read.
type Settings struct {
	IRQs            map[string]Affinity
	DefaultAffinity CPUs // default_smp_affinity
	NoHZFull        CPUs // CPUs without a tick while one task runs
	Isolated        CPUs // of the boot parameter isolcpus
	Partitions      CPUs // cpuset.cpus.isolated
	Workqueue       CPUs // of unbound workqueues
	NoCallbacks     CPUs // of the boot parameter rcu_nocbs
	RPS             []Queue
	NUMABalancing   string
	TimerMigration  string
	// Latency is pm_qos_resume_latency_us, and Governor is scaling_governor, by CPU.
	Latency, Governor map[int]string
	// Partition is cpuset.cpus.partition, and Cache is the group of resctrl, in the order of the
	// containers.
	Partition, Cache []string
}

// shared is the group of resctrl in which every task begins.
const shared = "/"

// of returns the settings for the CPUs of the container with that index. Settings that are not
// known are left out.
func (s *Settings) of(c *Container, index int) []Setting {
	var all []Setting
	add := func(name, value string, allows bool, means string) {
		all = append(all, Setting{Name: name, Value: value, Allows: allows, Means: means})
	}
	covered := func(name string, list CPUs, means, allowing string) {
		if !list.Known {
			return
		}
		switch in := c.CPUs.Intersection(list.Set); {
		case in.Equal(c.CPUs):
			add(name, "all of CPUs "+c.CPUs.String(), false, means)
		case in.IsEmpty():
			add(name, "none of CPUs "+c.CPUs.String(), true, allowing)
		default:
			add(name, "only CPUs "+in.String(), true, allowing)
		}
	}
	reaching := func(name string, list CPUs, means, allowing string) {
		if !list.Known {
			return
		}
		if in := c.CPUs.Intersection(list.Set); !in.IsEmpty() {
			add(name, listed(list.Set), true, allowing)
			return
		}
		add(name, listed(list.Set), false, means)
	}
	if n, irqs := s.reach(c.CPUs); n > 0 {
		add("/proc/irq/*/smp_affinity_list", fmt.Sprintf("%d of %d interrupts may go to CPUs %s", n, irqs, c.CPUs), true, "devices interrupt these CPUs")
	} else if irqs > 0 {
		add("/proc/irq/*/smp_affinity_list", fmt.Sprintf("none of %d interrupts may go to CPUs %s", irqs, c.CPUs), false, "devices do not interrupt these CPUs")
	}
	reaching("/proc/irq/default_smp_affinity", s.DefaultAffinity, "new interrupts go to other CPUs", "new interrupts may go to these CPUs")
	s.ofCgroup(c, index, add)
	covered("nohz_full", s.NoHZFull, "no tick while one task runs", "the tick interrupts these CPUs while a task runs")
	covered("rcu_nocbs", s.NoCallbacks, "RCU callbacks run on other CPUs", "RCU callbacks of these CPUs run on them")
	reaching("/sys/devices/virtual/workqueue/cpumask", s.Workqueue, "unbound work runs on other CPUs", "unbound work of the kernel may run on these CPUs")
	s.ofNetwork(c, add)
	if s.TimerMigration != "" {
		add("kernel.timer_migration", s.TimerMigration, s.TimerMigration == "0", "1: an idle CPU hands its timers to a busy one")
	}
	if s.NUMABalancing != "" {
		add("kernel.numa_balancing", s.NUMABalancing, s.NUMABalancing != "0", "other than 0: page faults that find out who uses which page, and moved pages")
	}
	s.ofPower(c, add)
	return all
}

type adder func(name, value string, allows bool, means string)

func (s *Settings) ofCgroup(c *Container, index int, add adder) {
	if s.Isolated.Known || s.Partitions.Known {
		isolated := c.CPUs.Intersection(s.Isolated.Set.Union(s.Partitions.Set))
		all := isolated.Equal(c.CPUs)
		value := "none of CPUs " + c.CPUs.String()
		if !isolated.IsEmpty() {
			value = "CPUs " + isolated.String()
		}
		add("isolated CPUs", value, !all, "the load balancer leaves isolated CPUs alone: an isolated cpuset partition, or isolcpus")
	}
	if p := s.Partition[index]; p != "" {
		add("cpuset.cpus.partition", p, p != "isolated", "isolated: neither the load balancer nor unbound work of the kernel uses these CPUs")
	}
	if group := s.Cache[index]; group != "" {
		value, means := group, "the container has a cache class of its own, if no other container is in this one"
		if resctrl.IsOurs(group) {
			means = map[bool]string{true: "the container has this cache class for itself", false: "the containers that share the pod's pool have this cache class"}[strings.Contains(group, ".")]
		}
		if group == shared {
			value, means = "the default group", "every task of the node can replace what this container has in the last-level cache"
		}
		add("resctrl", value, group == shared, means)
	}
}

func (s *Settings) ofNetwork(c *Container, add adder) {
	var queues []string
	for _, q := range s.RPS {
		if q.CPUs.Intersects(c.CPUs) {
			queues = append(queues, q.Device+" "+q.Queue)
		}
	}
	switch {
	case len(queues) > 0:
		add("rps_cpus", "queues that use these CPUs: "+few(queues), true, "packets of other containers are received on these CPUs")
	case len(s.RPS) > 0:
		add("rps_cpus", fmt.Sprintf("none of %d queues uses these CPUs", len(s.RPS)), false, "packets are received on other CPUs")
	}
}

func (s *Settings) ofPower(c *Container, add adder) {
	if of := grouped(s.Latency, c.CPUs); len(of) > 0 {
		limited := len(of) == 1 && !of["0"].Equal(c.CPUs)
		add("pm_qos_resume_latency_us", text(of), !limited, `0 is no limit: a CPU that was idle may take long to wake; "n/a" allows no C-state that has a latency`)
	}
	if of := grouped(s.Governor, c.CPUs); len(of) > 0 {
		fast := len(of) == 1 && of["performance"].Equal(c.CPUs)
		add("scaling_governor", text(of), !fast, "other than performance: the frequency follows the load, with a delay")
	}
}

// reach returns how many interrupts may go to CPUs, and how many there are.
func (s *Settings) reach(cpus cpuset.Set) (n, irqs int) {
	for _, a := range s.IRQs {
		if !a.May.Known {
			continue
		}
		irqs++
		goes := a.May.Set
		if a.Effective.Known && !a.Effective.Set.IsEmpty() {
			goes = a.Effective.Set
		}
		if goes.Intersects(cpus) {
			n++
		}
	}
	return n, irqs
}

// grouped returns the CPUs by the value that they have.
func grouped(values map[int]string, cpus cpuset.Set) map[string]cpuset.Set {
	of := map[string]cpuset.Set{}
	for cpu := range cpus.All() {
		if value, known := values[cpu]; known {
			of[value] = of[value].Union(cpuset.Of(cpu))
		}
	}
	return of
}

func text(of map[string]cpuset.Set) string {
	if len(of) == 1 {
		for value := range of {
			return value
		}
	}
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, value+" on CPUs "+of[value].String())
	}
	return strings.Join(parts, "; ")
}

// listed returns a set of CPUs for a sentence.
func listed(set cpuset.Set) string {
	if set.IsEmpty() {
		return "no CPU"
	}
	return "CPUs " + set.String()
}

// mostNamed is how many names a sentence has.
const mostNamed = 3

func few(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:mostNamed], ", ") + " and " + strconv.Itoa(len(names)-mostNamed) + " more"
}
