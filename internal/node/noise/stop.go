package noise

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// stopRow returns the setting that would stop a row of /proc/interrupts or /proc/softirqs on CPUs.
func (s *Settings) stopRow(class Class, id string, cpus cpuset.Set) string {
	switch class {
	case Device:
		return s.stopDevice(id, cpus)
	case Timer:
		return s.stopTimer(cpus)
	case IPI:
		return stopIPI(id)
	case Softirq:
		return s.stopSoftirq(id, cpus)
	case OtherClass, KernelThread, OtherTask, Throttled, Involuntary, Migrated:
	}
	switch id {
	case "NMI", "PMI":
		return "kernel.nmi_watchdog=0, and no profiler that uses hardware counters (perf record)"
	case "MCE", "MCP", "THR", "TRM", "DFR":
		return "no setting: the hardware reports errors or its temperature; see the kernel's log"
	}
	return "no setting is known"
}

func (s *Settings) stopDevice(id string, cpus cpuset.Set) string {
	file := "/proc/irq/" + id + "/smp_affinity_list"
	a := s.IRQs[id]
	switch {
	case !a.May.Known:
		return file + " without CPUs " + cpus.String()
	case !a.May.Set.Intersects(cpus):
		return fmt.Sprintf("nothing to do: %s is %s by now", file, a.May.Set)
	case cpus.Contains(a.May.Set):
		return fmt.Sprintf("%s, which is %s: write other CPUs; if this answers EIO, the kernel manages the interrupt: fewer queues of the device, or isolcpus=managed_irq,%s at boot", file, a.May.Set, cpus)
	}
	return fmt.Sprintf("%s without CPUs %s; it is %s", file, cpus, a.May.Set)
}

func (s *Settings) stopTimer(cpus cpuset.Set) string {
	if s.NoHZFull.Known && s.NoHZFull.Set.Contains(cpus) {
		return "nohz_full is set: the tick stays while two tasks can run on a CPU, or while the program uses timers or CPU-time limits"
	}
	return fmt.Sprintf("nohz_full=%s at boot, and one running task on each CPU", cpus)
}

func stopIPI(id string) string {
	switch id {
	case "RES":
		return "no other tasks on these CPUs: cpuset.cpus.partition=isolated; between the container's own tasks, no setting"
	case "TLB":
		return "no setting: a thread of the same program on another CPU has unmapped or protected memory; avoid munmap, fork and madvise there"
	case "CAL":
		return "cpuset.cpus.partition=isolated and nohz_full keep many of them away; tracefs shows who sends them"
	case "IWI", "IWI0":
		return "nohz_full=… at boot, and no profiler"
	}
	return "cpuset.cpus.partition=isolated and nohz_full keep many of them away"
}

func (s *Settings) stopSoftirq(id string, cpus cpuset.Set) string {
	switch id {
	case "TIMER", "HRTIMER":
		return "it follows the timer ticks; timers of drivers: unbound workqueues and interrupts away from these CPUs"
	case "NET_RX", "NET_TX":
		return "it follows the interrupts of the network device (smp_affinity_list), rps_cpus, and packets that the container sends"
	case "BLOCK", "IRQ_POLL":
		return "it follows the interrupts of the disk: smp_affinity_list; for the container's own I/O, queue/rq_affinity of the disk"
	case "SCHED":
		return "cpuset.cpus.partition=isolated, or isolcpus=domain at boot: no load balancing"
	case "RCU":
		if s.NoCallbacks.Known && s.NoCallbacks.Set.Contains(cpus) {
			return "rcu_nocbs is set: what is left follows the timer ticks"
		}
		return fmt.Sprintf("rcu_nocbs=%s at boot; nohz_full implies it", cpus)
	case "TASKLET", "HI":
		return "it follows the interrupts of its driver: smp_affinity_list"
	}
	return "no setting is known"
}

// stopThread returns what would keep a kernel thread away from CPUs.
func (s *Settings) stopThread(t *Seen, cpus cpuset.Set) string {
	name := t.Name
	bound := cpus.Contains(t.Allowed) && !t.Allowed.IsEmpty()
	switch {
	case strings.HasPrefix(name, "kworker/u"):
		if s.Workqueue.Known {
			return fmt.Sprintf("/sys/devices/virtual/workqueue/cpumask without CPUs %s (it is %s), or cpuset.cpus.partition=isolated from Linux 6.8", cpus, s.Workqueue.Set)
		}
		return "/sys/devices/virtual/workqueue/cpumask without these CPUs, or cpuset.cpus.partition=isolated from Linux 6.8"
	case strings.HasPrefix(name, "kworker/"):
		return "work that is queued on this CPU stays there: stop what queues it; nohz_full and fewer interrupts help, and tracefs shows the function"
	case strings.HasPrefix(name, "ksoftirqd/"):
		return "it runs softirqs that were too many for the interrupt: see the softirqs"
	case strings.HasPrefix(name, "rcu"):
		return "rcu_nocbs=… at boot, and the affinity of the thread: taskset"
	case strings.HasPrefix(name, "migration/"):
		return "it moves tasks and stops CPUs: no load balancing (an isolated partition), and no changes of cpusets"
	case strings.HasPrefix(name, "irq/"):
		return "it follows its interrupt: smp_affinity_list"
	case strings.HasPrefix(name, "ktimers/"), strings.HasPrefix(name, "cpuhp/"), strings.HasPrefix(name, "idle_inject/"), strings.HasPrefix(name, "watchdog/"):
		return "no setting: the kernel needs it on each CPU"
	case bound:
		return fmt.Sprintf("no setting is known: it can run only on CPUs %s", t.Allowed)
	}
	return "its affinity: taskset; an isolated partition from Linux 7.0"
}

// stopTask returns what would keep a task of another program away from CPUs.
func (s *Settings) stopTask(t *Seen, cpus cpuset.Set) string {
	where := "its cgroup"
	if t.Cgroup != "" && t.Cgroup != "/" {
		where = "cgroup " + t.Cgroup
	}
	if !t.Allowed.IsEmpty() && cpus.Contains(t.Allowed) {
		return fmt.Sprintf("it can run only on CPUs %s: its affinity (taskset), or cpuset.cpus of %s", t.Allowed, where)
	}
	return fmt.Sprintf("cpuset.cpus of %s without CPUs %s (systemd: AllowedCPUs=)", where, cpus)
}
