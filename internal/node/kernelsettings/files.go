// Package kernelsettings reads and writes the files of the kernel that package quiet decides about.
// It compares nothing and decides nothing. The directories are parameters, so that tests have a
// kernel of their own.
//
// It reads the contents as they are, to restore them. internal/node/kernelfiles reads the same
// files as values, for a report. A file that is missing is left out: an interrupt can be released,
// and a cgroup removed, at any time.
package kernelsettings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// mostFiles is how many files of one kind are read. A server with many devices has thousands of
// interrupts.
const mostFiles = 1 << 16

// FS is where the files are.
type FS struct {
	// Root is the directory that has proc and sys of the node: "/", or where a container has them.
	Root string
	// Mount is where cgroups are mounted. If it is empty, it is sys/fs/cgroup below Root.
	Mount string
	// Balancer is the environment file of irqbalance, such as /etc/default/irqbalance. If it is
	// empty, there is none.
	Balancer string
	// Put writes a text to a file, in place of the kernel. If it is nil, the file is opened and
	// written. It is for tests.
	Put func(name, text string) error
	// Dir makes or removes a directory of resctrl, in place of the kernel, as Put writes.
	Dir func(name string, there bool) error
}

// place returns the path of a file of package quiet.
func (f FS) place(name string) string {
	if name == quiet.BalancerFile {
		return f.Balancer
	}
	if rest, is := strings.CutPrefix(name, quiet.Cgroups+"/"); is {
		return filepath.Join(cmp.Or(f.Mount, filepath.Join(cmp.Or(f.Root, "/"), "sys/fs/cgroup")), rest)
	}
	if rest, is := strings.CutPrefix(name, quiet.Resctrl+"/"); is {
		name = "sys/fs/resctrl/" + rest
	}
	return filepath.Join(cmp.Or(f.Root, "/"), name)
}

// text reads a file without the space around it.
func (f FS) text(name string) (string, error) {
	data, err := os.ReadFile(f.place(name))
	return strings.TrimSpace(string(data)), err
}

// set reads a list of CPUs. A file that is missing is an empty list.
func (f FS) set(name string) (cpuset.Set, error) {
	text, err := f.text(name)
	if err != nil || text == "(null)" {
		return cpuset.Set{}, ignoreMissing(err)
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return set, fmt.Errorf("%s: %w", f.place(name), err)
	}
	return set, nil
}

func ignoreMissing(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// gone reports whether an error means that the file or its device does not exist. ENOTDIR is a file
// beside the directories of devices, such as sys/class/net/bonding_masters.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENOTDIR)
}

// Machine reads what a decision needs of the machine. Without online CPUs it returns an error. last
// is what it returned before, or the zero value: while the same CPUs are online, it has the same
// cores and frequency policies.
func (f FS) Machine(last *quiet.Machine) (quiet.Machine, error) {
	m := quiet.Machine{Siblings: last.Siblings, Frequencies: last.Frequencies}
	var boot [2]cpuset.Set
	for name, to := range map[string]*cpuset.Set{
		"sys/devices/system/cpu/online": &m.Online, quiet.Cgroups + "/cpuset.cpus.isolated": &m.Partitions,
		"sys/devices/system/cpu/isolated": &boot[0], "sys/devices/system/cpu/nohz_full": &boot[1],
	} {
		var err error
		if *to, err = f.set(name); err != nil {
			return m, err
		}
	}
	if m.Online.IsEmpty() {
		return m, fmt.Errorf("%s: no CPU is online: expected the directory that has proc and sys of a Linux machine", f.place("sys/devices/system/cpu/online"))
	}
	m.Boot = boot[0].Union(boot[1])
	if m.Online.Equal(last.Online) {
		return m, nil
	}
	return m, f.topology(&m)
}

// topology reads the cores and the frequency policies.
func (f FS) topology(m *quiet.Machine) error {
	m.Siblings, m.Frequencies = map[int]cpuset.Set{}, map[string]cpuset.Set{}
	for cpu := range m.Online.All() {
		siblings, err := f.set("sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/thread_siblings_list")
		if err != nil {
			return err
		}
		m.Siblings[cpu] = siblings
	}
	policies, err := f.names("sys/devices/system/cpu/cpufreq")
	for _, name := range policies {
		if !strings.HasPrefix(name, "policy") {
			continue // boost
		}
		if m.Frequencies[name], err = f.frequencyCPUs(name); err != nil {
			return err
		}
	}
	return err
}

// frequencyCPUs reads the CPUs of a frequency policy, which the kernel separates with spaces
// (admin-guide/pm/cpufreq.rst).
func (f FS) frequencyCPUs(policy string) (cpuset.Set, error) {
	text, err := f.text("sys/devices/system/cpu/cpufreq/" + policy + "/related_cpus")
	if errors.Is(err, syscall.EBUSY) {
		return cpuset.Set{}, nil // Its CPUs are offline; see Look.
	}
	if err != nil {
		return cpuset.Set{}, ignoreMissing(err)
	}
	set, err := cpuset.Parse(strings.Join(strings.Fields(text), ","))
	if err != nil {
		return set, fmt.Errorf("frequency policy %s: %w", policy, err)
	}
	return set, nil
}

// names returns the names in a directory, in their order. A directory that is missing is empty.
func (f FS) names(dir string) ([]string, error) {
	d, err := os.Open(f.place(dir))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(mostFiles)
	slices.Sort(names)
	if len(names) == 0 {
		return nil, nil // Readdirnames returns io.EOF.
	}
	return names, err
}

// Scope is which files a look reads.
type Scope struct {
	Interrupts, Workqueues, Queues bool
	// CPUs are those whose C-states may be limited, and Frequencies the frequency policies that may
	// be set.
	CPUs        cpuset.Set
	Frequencies []string
	// Groups are the cgroups that may become partitions.
	Groups []string
	// Classes is whether the groups of resctrl are read that are Paddock's, and Wished are those
	// that must exist.
	Classes bool
	Wished  []string
	// Also are the names of files that were changed before.
	Also []string
}

// Look returns the content of each file of a scope that exists, in the form of quiet.Kind.Value,
// and why a file that exists cannot be read: those of a frequency policy answer EBUSY while its
// CPUs are offline (drivers/cpufreq/cpufreq.c, show). A directory that cannot be listed is in
// unread, too. If it is that of resctrl, so is the file of the default class, because it is not
// known which groups there are.
func (f FS) Look(s *Scope) (found map[string]string, unread map[string]error) {
	unread = map[string]error{}
	names := f.within(s, unread)
	found = make(map[string]string, len(names))
	for _, name := range names {
		if _, done := found[name]; done || unread[name] != nil {
			continue
		}
		switch value, _, err := f.read(name); {
		case name == quiet.BalancerFile && f.Balancer == "":
			unread[name] = errors.New("irqbalance.environment is empty, and the file that it named has a line of Paddock: set it again, at least until paddock quiet --release")
		case err == nil:
			found[name] = value
		case !gone(err):
			unread[name] = err
		}
	}
	return found, unread
}

// within returns the names of the files of a scope, which need not exist. It adds the directories
// that cannot be listed to unread.
func (f FS) within(s *Scope, unread map[string]error) []string {
	names := slices.Clone(s.Also)
	if s.Interrupts {
		for _, number := range f.list("proc/irq", unread) {
			if _, err := strconv.ParseUint(number, 10, 32); err == nil {
				names = append(names, "proc/irq/"+number+"/smp_affinity_list")
			}
		}
		names = append(names, quiet.NewInterruptsFile)
		if f.Balancer != "" {
			names = append(names, quiet.BalancerFile)
		}
	}
	if s.Workqueues {
		names = append(names, quiet.WorkqueuesFile)
	}
	if s.Queues {
		names = append(append(names, f.queues(unread)...), quiet.NewQueuesFile)
	}
	for cpu := range s.CPUs.All() {
		names = append(names, quiet.LatencyFile(cpu))
	}
	for _, policy := range s.Frequencies {
		names = append(names, quiet.FrequencyFile(policy, quiet.Governor), quiet.FrequencyFile(policy, quiet.MinFrequency), quiet.FrequencyFile(policy, quiet.MaxFrequency))
	}
	for _, group := range s.Groups {
		names = append(names, quiet.PartitionFile(group))
		for ; group != "/" && group != "."; group = filepath.Dir(group) {
			names = append(names, quiet.ExclusiveFile(group))
		}
	}
	if s.Classes {
		groups, err := f.groups()
		if err != nil {
			unread[quiet.Resctrl], unread[quiet.DefaultClassFile] = err, err
		}
		names = append(names, quiet.DefaultClassFile)
		for _, group := range slices.Concat(groups, s.Wished) {
			if resctrl.IsOurs(group) {
				names = append(names, quiet.ClassFile(group))
			}
		}
	}
	return names
}

// list is names for a directory of a scope. If it cannot be listed, list adds it to unread.
func (f FS) list(dir string, unread map[string]error) []string {
	names, err := f.names(dir)
	if err != nil {
		unread[dir] = err
	}
	return names
}

// queues returns the names of the files of receive queues.
func (f FS) queues(unread map[string]error) (found []string) {
	for _, device := range f.list("sys/class/net", unread) {
		dir := "sys/class/net/" + device + "/queues"
		for _, queue := range f.list(dir, unread) {
			if strings.HasPrefix(queue, "rx-") {
				found = append(found, dir+"/"+queue+"/rps_cpus")
			}
		}
	}
	return found
}

// read returns the value and the text of a file.
func (f FS) read(name string) (value, text string, err error) {
	if name == quiet.BalancerFile {
		text, err = f.balancer()
	} else {
		text, err = f.text(name)
	}
	if gone(err) && quiet.KindOf(name) == quiet.CacheClass && f.hasResctrl() {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	if value, err = quiet.KindOf(name).Value(text); err != nil {
		return "", text, fmt.Errorf("%s: %w", f.place(name), err)
	}
	return value, text, nil
}

// Write carries out a write, and reads the file again.
func (f FS) Write(w *quiet.Write) quiet.Result {
	err := f.put(w.File, w.Text)
	if quiet.KindOf(w.File) == quiet.CacheClass || w.File == quiet.DefaultClassFile {
		err = f.explain(err)
	}
	value, text, reading := f.read(w.File)
	r := quiet.Result{Now: value, Text: text, Err: err, Gone: gone(err) || gone(reading)}
	if r.Err == nil {
		r.Err = reading
	}
	r.Managed = quiet.KindOf(w.File) == quiet.Interrupt && f.managed(w.File, err)
	return r
}

// managed reports whether the error of a write means that the kernel manages the interrupt: EIO,
// EPERM, or a file that is read-only in newer kernels (kernel/irq/proc.c, write_irq_affinity and
// register_irq_proc). EACCES for a file with a mode for writing has another cause: a user that is
// not root, or AppArmor.
func (f FS) managed(name string, err error) bool {
	if !errors.Is(err, syscall.EACCES) {
		return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPERM)
	}
	info, err := os.Stat(f.place(name))
	return err == nil && info.Mode().Perm()&0o222 == 0
}

func (f FS) put(name, text string) error {
	if name == quiet.BalancerFile {
		return f.putBalancer(text)
	}
	if quiet.KindOf(name) == quiet.CacheClass {
		return f.putGroup(name, text)
	}
	return f.write(name, text)
}

func (f FS) write(name, text string) error {
	if f.Put != nil {
		return f.Put(name, text)
	}
	file, err := os.OpenFile(f.place(name), os.O_WRONLY|os.O_TRUNC, 0) //nolint:forbidigo // A file of the kernel, which is written in place.
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	return errors.Join(err, file.Close())
}

// BootID returns the identity of the kernel's present start.
func (f FS) BootID() (string, error) {
	text, err := f.text("proc/sys/kernel/random/boot_id")
	if err == nil && text == "" {
		err = fmt.Errorf("%s: it is empty", f.place("proc/sys/kernel/random/boot_id"))
	}
	if err != nil {
		err = fmt.Errorf("root %s: expected the directory that has proc and sys of a Linux machine: %w", cmp.Or(f.Root, "/"), err)
	}
	return text, err
}

// Reported returns the settings that are only shown, by their names. They concern the whole node.
func (f FS) Reported() map[string]string {
	found := map[string]string{}
	for _, name := range []string{"kernel.numa_balancing", "kernel.timer_migration"} {
		if text, err := f.text("proc/sys/" + strings.ReplaceAll(name, ".", "/")); err == nil {
			found[name] = text
		}
	}
	return found
}
