package fakekernel

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// group is a cgroup with the controller cpuset (Documentation/admin-guide/cgroup-v2.rst, "Cpuset
// Interface Files").
type group struct {
	cpus, exclusive cpuset.Set
	// isolated reports whether "isolated" was written to cpuset.cpus.partition. reason is the
	// reason why the partition is not valid.
	isolated bool
	reason   string
	// given are the CPUs of a valid partition.
	given cpuset.Set
}

// AddCgroup makes a cgroup, and those above it.
func (k *Kernel) AddCgroup(name string, cpus cpuset.Set) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for above := name; above != "/"; above = path.Dir(above) {
		if k.groups[above] == nil {
			k.groups[above] = &group{}
		}
	}
	k.groups[name].cpus = cpus
	return k.settle()
}

// RemoveCgroup removes a cgroup. Its partition ends with it.
func (k *Kernel) RemoveCgroup(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.groups, name)
	for word := range strings.FieldsSeq(k.get(quiet.Cgroups + name + "/cgroup.threads")) {
		if err := k.endThread(word); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(k.place(quiet.Cgroups + name)); err != nil {
		return err
	}
	return k.settle()
}

// SetCPUs writes cpuset.cpus, as a runtime does.
func (k *Kernel) SetCPUs(name string, cpus cpuset.Set) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.groups[name]
	if g == nil {
		return syscall.ENOENT
	}
	for other, sibling := range k.siblings(name) {
		// kernel/cgroup/cpuset.c, cpus_excl_conflict: the exclusive CPUs of a sibling cannot be all
		// that a cgroup has.
		if !cpus.IsEmpty() && sibling.exclusive.Contains(cpus) {
			return fmt.Errorf("%s: %w", other, syscall.EINVAL)
		}
	}
	g.cpus = cpus
	return k.settle()
}

func (k *Kernel) siblings(name string) map[string]*group {
	found := maps.Clone(k.groups)
	maps.DeleteFunc(found, func(other string, _ *group) bool {
		return other == name || other == "/" || path.Dir(other) != path.Dir(name)
	})
	return found
}

func cgroupOf(file string) string {
	return "/" + strings.TrimPrefix(path.Dir(file), quiet.Cgroups+"/")
}

// writeExclusive is a write to cpuset.cpus.exclusive. cgroup-v2.rst: "the list of CPUs must be
// exclusive with respect to cpuset.cpus.exclusive and cpuset.cpus.exclusive.effective of its
// siblings. Another constraint is that it cannot be a superset of cpuset.cpus of its sibling". A
// value that violates this is rejected with a write error. The value need not be a part of its
// parent's.
func (k *Kernel) writeExclusive(file, text string) error {
	set, err := k.list(text)
	if err != nil {
		return err
	}
	name := cgroupOf(file)
	for _, sibling := range k.siblings(name) {
		if set.Intersects(sibling.exclusive) || !sibling.cpus.IsEmpty() && set.Contains(sibling.cpus) {
			return syscall.EINVAL
		}
	}
	k.groups[name].exclusive = set
	return k.settle()
}

// writePartition is a write to cpuset.cpus.partition. A partition that cannot be valid is not an
// error of the write (kernel/cgroup/cpuset.c, update_prstate returns 0): the file then has the
// reason.
func (k *Kernel) writePartition(file, text string) error {
	if text != "isolated" && text != "member" {
		return syscall.EINVAL // "root" is not used here.
	}
	g := k.groups[cgroupOf(file)]
	g.isolated, g.reason = text == "isolated", ""
	if g.isolated && k.unprivileged {
		g.reason = "Enable partition not permitted" // remote_partition_enable: CAP_SYS_ADMIN.
	}
	return k.settle()
}

// effective returns the exclusive CPUs of a cgroup that can make up a partition. cgroup-v2.rst:
// "The content of this file will always be a subset of its parent's cpuset.cpus.exclusive.effective
// if its parent is not the root cgroup. It will also be a subset of cpuset.cpus.exclusive if it is
// set".
func (k *Kernel) effective(name string) cpuset.Set {
	set := k.groups[name].exclusive
	if above := path.Dir(name); above != "/" {
		set = set.Intersection(k.effective(above))
	}
	return set
}

// settle computes the consequences of a change, and writes the files.
func (k *Kernel) settle() error {
	names := slices.Sorted(maps.Keys(k.groups))
	isolated := k.partitions(names)
	files := map[string]string{
		"sys/fs/cgroup/cpuset.cpus.isolated":  isolated.String(),
		"sys/fs/cgroup/cpuset.cpus.effective": k.online.Difference(isolated).String(),
		"sys/devices/system/cpu/online":       k.online.String(),
		quiet.WorkqueuesFile:                  k.wide(k.unboundBeside(isolated)),
	}
	for _, name := range names {
		g := k.groups[name]
		if name == "/" {
			continue
		}
		at := path.Join(quiet.Cgroups, name) + "/"
		files[at+"cpuset.cpus"] = g.cpus.String()
		files[at+"cpuset.cpus.effective"] = k.runs(name, isolated).String()
		files[at+"cpuset.cpus.partition"] = g.state()
		if !k.options.WithoutExclusive {
			files[at+"cpuset.cpus.exclusive"] = g.exclusive.String()
			files[at+"cpuset.cpus.exclusive.effective"] = k.effective(name).String()
		}
	}
	for name, text := range files {
		if k.get(name) == text && exists(k.place(name)) {
			continue
		}
		if err := k.put(name, text); err != nil {
			return err
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// state returns the content of cpuset.cpus.partition.
func (g *group) state() string {
	switch {
	case !g.isolated:
		return "member"
	case g.reason != "":
		return "isolated invalid (" + g.reason + ")"
	}
	return "isolated"
}

// partitions decides which partitions are valid, and returns their CPUs. The reasons are those of
// kernel/cgroup/cpuset.c, perr_strings; the rules are those of remote_partition_enable.
func (k *Kernel) partitions(names []string) cpuset.Set {
	var all cpuset.Set
	for _, name := range names {
		g := k.groups[name]
		g.given = cpuset.Set{}
		if !g.isolated || g.reason == "Enable partition not permitted" {
			continue
		}
		wants := k.effective(name)
		switch {
		case g.cpus.IsEmpty() && g.exclusive.IsEmpty():
			g.reason = "cpuset.cpus and cpuset.cpus.exclusive are empty"
		case wants.IsEmpty(), wants.Intersects(all), !wants.Intersects(k.online):
			g.reason = "Invalid cpu list in cpuset.cpus.exclusive"
		case all.Union(wants).Contains(k.online):
			g.reason = "Parent unable to distribute cpu downstream"
		default:
			g.reason, g.given = "", wants
			all = all.Union(wants)
		}
	}
	return all
}

// runs returns the CPUs on which the tasks of a cgroup run.
func (k *Kernel) runs(name string, isolated cpuset.Set) cpuset.Set {
	if name == "/" {
		return k.online.Difference(isolated)
	}
	g := k.groups[name]
	if !g.given.IsEmpty() {
		return g.given.Intersection(k.online)
	}
	above := k.runs(path.Dir(name), isolated)
	if set := g.cpus.Intersection(above); !set.IsEmpty() {
		return set
	}
	return above // cgroup-v2.rst: a list without an available CPU is as an empty one.
}

// unbound returns the CPUs of unbound workqueues.
func (k *Kernel) unbound() cpuset.Set {
	var isolated cpuset.Set
	for _, g := range k.groups {
		isolated = isolated.Union(g.given)
	}
	return k.unboundBeside(isolated)
}

// unboundBeside is kernel/workqueue.c, workqueue_unbound_exclude_cpumask, in Linux 6.8: isolated
// CPUs are taken out of what was requested, unless none would be left.
func (k *Kernel) unboundBeside(isolated cpuset.Set) cpuset.Set {
	if left := k.requested.Difference(isolated); !left.IsEmpty() {
		return left
	}
	return k.requested
}

// Settings returns the content of every file that can be written, by its name in package quiet.
func (k *Kernel) Settings() (map[string]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string]string{}
	err := filepath.WalkDir(k.dir, func(place string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(k.dir, place)
		if rest, is := strings.CutPrefix(name, "sys/fs/cgroup/"); is {
			name = quiet.Cgroups + "/" + rest
		}
		if rest, is := strings.CutPrefix(name, "sys/fs/resctrl/"); is {
			name = quiet.Resctrl + "/" + rest
		}
		if quiet.KindOf(name) != "" && err == nil {
			all[name] = k.get(name)
		}
		return err
	})
	return all, err
}
