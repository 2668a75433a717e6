package kernelfiles

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// Cgroup is the cgroup of a container in that of its pod.
type Cgroup struct {
	Path string
	// UID is the UID of the pod, and ID the name of the cgroup without what runtimes add.
	UID, ID string
	CPUs    cpuset.Set
}

// mostCgroups is how many cgroups are read.
const mostCgroups = 100_000

var errTooMany = errors.New("there are more cgroups than this program reads")

// podName matches the cgroup of a pod below kubepods, and its UID, which can be any text. In the
// names of systemd's slices, "_" replaces "-".
var podName = regexp.MustCompile(`^(?:kubepods(?:-[a-z]+)?-)?pod([^/]+?)(?:\.slice)?$`)

// v2 reports whether cgroups are of version 2.
func (f FS) v2() bool {
	_, err := text(filepath.Join(f.CgroupRoot(), "cgroup.controllers"))
	return err == nil
}

// file returns the path of a file of a controller in a cgroup.
func (f FS) file(cgroup, controller, name string) string {
	if f.v2() {
		return filepath.Join(f.CgroupRoot(), filepath.Clean("/"+cgroup), name)
	}
	return filepath.Join(f.CgroupRoot(), controller, filepath.Clean("/"+cgroup), name)
}

// Cgroups returns the cgroups of containers that have CPUs written, in order of their path.
// Sandboxes have none with cgroup v2. Processes that watch a container (conmon) are left out.
func (f FS) Cgroups() ([]Cgroup, error) {
	root := f.CgroupRoot()
	if !f.v2() {
		root = filepath.Join(root, "cpuset")
	}
	var all []Cgroup
	count := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != root {
			return nil // It has ended in the meantime.
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		if count++; count > mostCgroups {
			return errTooMany
		}
		parent := podName.FindStringSubmatch(path.Base(path.Dir(name)))
		if parent == nil || !strings.Contains(strings.TrimPrefix(name, root), "/kubepods") {
			return nil
		}
		if cpus, err := list(filepath.Join(name, "cpuset.cpus")); err == nil && !cpus.IsEmpty() && !strings.Contains(entry.Name(), "conmon") {
			all = append(all, Cgroup{Path: strings.TrimPrefix(name, root), UID: uid(parent[1]), ID: id(entry.Name()), CPUs: cpus})
		}
		return fs.SkipDir // Nothing in a container is a container.
	})
	return all, err
}

// uid returns the UID of a pod as the API has it.
func uid(name string) string { return strings.ReplaceAll(name, "_", "-") }

// id returns the ID in the name of a cgroup: "cri-containerd-ID.scope", "crio-ID", "ID".
func id(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	return name[strings.LastIndexAny(name, "-:")+1:]
}

// Exclusive returns the cgroups whose CPUs no other container can use. Containers that can use all
// online CPUs are not limited, and do not count as others. Neither does the sandbox of cgroup v1,
// which has the same CPUs as an unlimited container.
func Exclusive(all []Cgroup, online cpuset.Set) []Cgroup {
	var limited []Cgroup
	users := map[int]int{}
	for _, c := range all {
		if c.CPUs.Contains(online) {
			continue
		}
		limited = append(limited, c)
		for cpu := range c.CPUs.All() {
			users[cpu]++
		}
	}
	return slices.DeleteFunc(limited, func(c Cgroup) bool {
		return slices.ContainsFunc(c.CPUs.IDs(), func(cpu int) bool { return users[cpu] > 1 })
	})
}

// counters reads the counts of a container's cgroup.
func (f FS) counters(c *noise.Container) noise.Counters {
	var n noise.Counters
	if c.Cgroup == "" {
		return n
	}
	if values, err := f.keyed(f.file(c.Cgroup, "cpu", "cpu.stat")); err == nil {
		_, n.Quota = values["nr_periods"]
		n.Periods, n.Throttled = values["nr_periods"], values["nr_throttled"]
		n.ThrottledTime = time.Duration(values["throttled_usec"]) * time.Microsecond
		if n.ThrottledTime == 0 {
			n.ThrottledTime = time.Duration(values["throttled_time"]) // cgroup v1, in nanoseconds
		}
	}
	if values, err := f.keyed(f.file(c.Cgroup, "memory", "memory.stat")); err == nil {
		n.Migrated, n.HasMigrated = values["numa_pages_migrated"]
	}
	return n
}

// keyed reads a file of lines "name number".
func (FS) keyed(name string) (map[string]uint64, error) {
	data, err := readInto(nil, name)
	if err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 62); err == nil {
			values[key] = n
		}
	}
	return values, nil
}
