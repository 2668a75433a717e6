package kernelfiles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// settings reads the settings that concern the CPUs of containers.
func (f FS) settings(containers []noise.Container, n *notes) *noise.Settings {
	s := &noise.Settings{
		IRQs: map[string]noise.Affinity{}, Latency: map[int]string{}, Governor: map[int]string{},
		Partition: make([]string, len(containers)), Cache: make([]string, len(containers)),
	}
	read := func(what, name string, parse func(string) (cpuset.Set, error), absent string) noise.CPUs {
		set, err := parse(f.path(name))
		n.missing(what, err, absent)
		return noise.CPUs{Set: set, Known: err == nil}
	}
	f.affinities(s, n)
	s.DefaultAffinity = read("the CPUs of new interrupts", "proc/irq/default_smp_affinity", mask, "there is no /proc/irq/default_smp_affinity")
	s.NoHZFull = read("CPUs without a tick", "sys/devices/system/cpu/nohz_full", list, "this kernel is built without CONFIG_NO_HZ_FULL: every CPU has a tick")
	s.Isolated = read("isolated CPUs", "sys/devices/system/cpu/isolated", list, "there is no /sys/devices/system/cpu/isolated")
	s.Workqueue = read("the CPUs of unbound workqueues", "sys/devices/virtual/workqueue/cpumask", mask, "there is no /sys/devices/virtual/workqueue/cpumask")
	isolated, err := list(filepath.Join(f.CgroupRoot(), "cpuset.cpus.isolated"))
	n.missing("CPUs of isolated partitions", err, "there is no cpuset.cpus.isolated: it needs cgroup v2 and Linux 6.7")
	s.Partitions = noise.CPUs{Set: isolated, Known: err == nil}
	s.NoCallbacks = f.noCallbacks()
	s.RPS = f.queues()
	s.TimerMigration, _ = text(f.path("proc/sys/kernel/timer_migration"))
	s.NUMABalancing, _ = text(f.path("proc/sys/kernel/numa_balancing")) // Without it, there is no NUMA balancing.
	for i := range containers {
		c := &containers[i]
		if c.Cgroup != "" && f.v2() {
			s.Partition[i], _ = text(f.file(c.Cgroup, "cpuset", "cpuset.cpus.partition"))
		}
		for cpu := range c.CPUs.All() {
			dir := f.path("sys/devices/system/cpu/cpu" + strconv.Itoa(cpu))
			if value, err := text(filepath.Join(dir, "power/pm_qos_resume_latency_us")); err == nil {
				s.Latency[cpu] = value
			}
			if value, err := text(filepath.Join(dir, "cpufreq/scaling_governor")); err == nil {
				s.Governor[cpu] = value
			}
		}
	}
	if len(s.Governor) == 0 {
		n.add("the frequency governor", "there is no cpufreq/scaling_governor: the hardware or the hypervisor decides about frequencies")
	}
	f.cacheClasses(containers, s, n)
	return s
}

// affinities reads where interrupts may go.
func (f FS) affinities(s *noise.Settings, n *notes) {
	dir := f.path("proc/irq")
	numbers, err := names(dir)
	n.missing("the affinity of interrupts", err, "there is no /proc/irq")
	for _, number := range numbers[:min(len(numbers), mostRows)] {
		if !isNumber(number) {
			continue
		}
		may, err := list(filepath.Join(dir, number, "smp_affinity_list"))
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				n.missing("the affinity of interrupts", err, "")
			}
			continue
		}
		effective, err := list(filepath.Join(dir, number, "effective_affinity_list"))
		s.IRQs[number] = noise.Affinity{May: noise.CPUs{Set: may, Known: true}, Effective: noise.CPUs{Set: effective, Known: err == nil}}
	}
}

// noCallbacks returns the CPUs of the boot parameter rcu_nocbs. With nohz_full and without
// rcu_nocbs, the kernel uses those of nohz_full (admin-guide/kernel-parameters.txt).
func (f FS) noCallbacks() noise.CPUs {
	line, err := text(f.path("proc/cmdline"))
	if err != nil {
		return noise.CPUs{}
	}
	var both [2]cpuset.Set
	for _, word := range strings.Fields(line) {
		for i, name := range []string{"nohz_full=", "rcu_nocbs="} {
			value, is := strings.CutPrefix(word, name)
			if !is {
				continue
			}
			if value == "all" {
				value = "0-" + strconv.Itoa(cpuset.MaxID)
			}
			if set, err := cpuset.Parse(value); err == nil {
				both[i] = set
			}
		}
	}
	return noise.CPUs{Set: both[0].Union(both[1]), Known: true}
}

// queues returns the receive queues of network devices with RPS settings.
func (f FS) queues() []noise.Queue {
	files, err := filepath.Glob(f.path("sys/class/net/*/queues/rx-*/rps_cpus"))
	if err != nil {
		return nil
	}
	var all []noise.Queue
	for _, name := range files[:min(len(files), mostRows)] {
		if cpus, err := mask(name); err == nil {
			queue := filepath.Dir(name)
			all = append(all, noise.Queue{Device: filepath.Base(filepath.Dir(filepath.Dir(queue))), Queue: filepath.Base(queue), CPUs: cpus})
		}
	}
	return all
}

// cacheClasses finds the group of resctrl that has the tasks of each container
// (filesystems/resctrl.rst).
func (f FS) cacheClasses(containers []noise.Container, s *noise.Settings, n *notes) {
	root := f.path("sys/fs/resctrl")
	if _, err := os.Stat(filepath.Join(root, "schemata")); err != nil {
		n.missing("the cache class", err, "resctrl is not mounted at /sys/fs/resctrl: the CPU or the kernel has no cache allocation, or it is not used")
		return
	}
	groups := []string{"/"}
	entries, err := os.ReadDir(root)
	n.missing("the cache class", err, "")
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(root, e.Name(), "schemata")); e.IsDir() && err == nil {
			groups = append(groups, e.Name())
		}
	}
	first := make([]string, len(containers))
	for i := range containers {
		if c := &containers[i]; c.Cgroup != "" {
			pids, _ := text(f.file(c.Cgroup, "cpuset", "cgroup.procs"))
			first[i], _, _ = strings.Cut(pids, "\n")
		}
	}
	for _, group := range groups {
		tasks, err := text(filepath.Join(root, group, "tasks"))
		if err != nil {
			continue
		}
		ids := strings.Split(tasks, "\n")
		for i := range first {
			if first[i] != "" && first[i] != "0" && slices.Contains(ids, first[i]) {
				s.Cache[i] = group
			}
		}
	}
}
