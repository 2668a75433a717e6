package fakekernel

import (
	"embed"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/tools/txtar"

	"github.com/paddock-project/paddock/internal/node/quiet"
)

// recorded has machines with resctrl: their files in info, and the schemata of the default group.
//
//go:embed recorded/*.txtar
var recorded embed.FS

// resctrl is the file system of resctrl (Documentation/filesystems/resctrl.rst, fs/resctrl). If
// nil, it is not mounted.
type resctrl struct {
	k         *Kernel
	resources []*resource
	// classes is the smallest num_closids of all resources (rdtgroup.c, closid_init), and monitors
	// is num_rmids, or 0 without monitoring.
	classes, monitors int
	groups            map[string]*classGroup
	// status is last_cmd_status. It is empty for "ok".
	status string
	// limbo are the ids of monitoring that are not free yet (resctrl.rst, "max_threshold_occupancy
	// - generic concepts").
	limbo int
}

// resource is one line of schemata.
type resource struct {
	name   string
	caches []int // of the recording, in their order
	ways   bool
	// all, least, shareable and sparse are cbm_mask, min_cbm_bits, shareable_bits and sparse_masks.
	all, shareable uint64
	least          int
	sparse         bool
	// min, max and step limit a bandwidth.
	min, max, step uint64
}

// full is the value that every class has at first (resctrl_get_default_ctrl).
func (r *resource) full() uint64 {
	if r.ways {
		return r.all
	}
	return r.max
}

// classGroup is a group. The default one has an empty name.
type classGroup struct {
	values    map[string]map[int]uint64 // by resource and cache
	exclusive bool
	tasks     map[int]bool
	usage     uint64
}

// mount makes the file system of a recorded machine.
func (k *Kernel) mount(name string) error {
	if name == "" {
		return nil
	}
	data, err := recorded.ReadFile("recorded/" + name + ".txtar")
	if err != nil {
		return err
	}
	files := map[string]string{}
	for _, f := range txtar.Parse(data).Files {
		files[f.Name] = strings.TrimSpace(string(f.Data))
		if strings.HasPrefix(f.Name, "info/") {
			if err := k.put("sys/fs/resctrl/"+f.Name, files[f.Name]); err != nil {
				return err
			}
		}
	}
	r := &resctrl{k: k, classes: 1 << 16, groups: map[string]*classGroup{}}
	number := func(name string, base int) uint64 {
		n, _ := strconv.ParseUint(files["info/"+name], base, 64) // A file that is missing is 0.
		return n
	}
	r.monitors = int(number("L3_MON/num_rmids", 10)) //nolint:gosec // It is small.
	for line := range strings.Lines(files["schemata"]) {
		name, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		s := &resource{
			name: name, ways: name != "MB", all: number(name+"/cbm_mask", 16), shareable: number(name+"/shareable_bits", 16), least: int(number(name+"/min_cbm_bits", 10)), //nolint:gosec // As above.
			sparse: number(name+"/sparse_masks", 10) == 1, min: number(name+"/min_bandwidth", 10), step: number(name+"/bandwidth_gran", 10),
		}
		for _, entry := range strings.Split(list, ";") {
			id, value, _ := strings.Cut(entry, "=")
			cache, err := strconv.Atoi(id)
			if err != nil {
				return err
			}
			s.caches = append(s.caches, cache)
			s.max, _ = strconv.ParseUint(value, 10, 64)
		}
		r.classes = min(r.classes, int(number(name+"/num_closids", 10))) //nolint:gosec // As above.
		r.resources = append(r.resources, s)
	}
	k.resctrl = r
	r.groups[""] = r.newGroup()
	for _, s := range r.resources {
		for _, id := range s.caches {
			r.groups[""].values[s.name][id] = s.full()
		}
	}
	return r.show()
}

func (r *resctrl) newGroup() *classGroup {
	g := &classGroup{values: map[string]map[int]uint64{}, tasks: map[int]bool{}}
	for _, s := range r.resources {
		g.values[s.name] = map[int]uint64{}
	}
	return g
}

// online returns the caches of a resource that have an online CPU. The CPUs are divided evenly.
func (r *resctrl) online(s *resource) (ids []int) {
	per := max(1, r.k.options.CPUs/len(s.caches))
	for i, id := range s.caches {
		for cpu := range r.k.online.All() {
			if min(cpu/per, len(s.caches)-1) == i {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

// hotplug removes the caches whose CPUs are all offline. It adds the caches that have an online CPU
// again, and gives every class all of them (arch/x86/kernel/cpu/resctrl/core.c,
// domain_setup_ctrlval).
func (r *resctrl) hotplug() error {
	for _, g := range r.groups {
		for _, s := range r.resources {
			now := map[int]uint64{}
			for _, id := range r.online(s) {
				value, had := g.values[s.name][id]
				if !had {
					value = s.full()
				}
				now[id] = value
			}
			g.values[s.name] = now
		}
	}
	return r.show()
}

// fail sets last_cmd_status, which every command resets (rdtgroup.c, rdt_last_cmd_clear).
func (r *resctrl) fail(err error, format string, args ...any) error {
	r.status = fmt.Sprintf(format, args...)
	return err
}

// dir makes or removes a group (rdtgroup.c, rdtgroup_mkdir and rdtgroup_rmdir).
func (r *resctrl) dir(name string, there bool) error {
	r.status = ""
	change := r.rmdir
	if there {
		change = r.mkdir
	}
	err := change(name)
	if showing := r.show(); err == nil {
		err = showing
	}
	return err
}

func (r *resctrl) mkdir(name string) error {
	if r.groups[name] != nil || name == "info" || name == "mon_groups" || name == "mon_data" {
		return syscall.EEXIST
	}
	switch {
	case strings.ContainsAny(name, "\n/"):
		return syscall.EINVAL
	case len(r.groups) >= r.classes: // closid_alloc
		return r.fail(syscall.ENOSPC, "Out of CLOSIDs")
	case r.monitors > 0 && len(r.groups)+r.limbo >= r.monitors: // monitor.c, alloc_rmid: EBUSY while some are in limbo
		return r.fail(map[bool]error{true: syscall.EBUSY, false: syscall.ENOSPC}[r.limbo > 0], "Out of RMIDs")
	}
	g := r.newGroup()
	for _, s := range r.resources {
		for id := range r.groups[""].values[s.name] {
			value, ok := r.initial(s, id)
			if !ok {
				return r.fail(syscall.ENOSPC, "No space on %s:%d", s.name, id)
			}
			g.values[s.name][id] = value
		}
	}
	r.groups[name] = g
	return nil
}

// initial is the value of a new group (rdtgroup.c, __init_one_rdt_domain): everything that is not
// exclusive, of which the lowest run where masks are contiguous (cbm_ensure_valid).
func (r *resctrl) initial(s *resource, id int) (value uint64, ok bool) {
	if !s.ways {
		return s.max, true
	}
	value = s.shareable
	used := uint64(0)
	for _, g := range r.groups {
		for _, peer := range r.peers(s) {
			used |= g.values[peer][id]
			if !g.exclusive {
				value |= g.values[peer][id]
			}
		}
	}
	value |= s.all &^ used
	if !s.sparse {
		value = lowestRun(value)
	}
	return value, bits.OnesCount64(value) >= s.least
}

// peers are the resources that use the same ways: those of code and of data.
func (r *resctrl) peers(s *resource) []string {
	if strings.HasPrefix(s.name, "L3") && s.name != "L3" {
		return []string{"L3CODE", "L3DATA"}
	}
	return []string{s.name}
}

func lowestRun(mask uint64) uint64 {
	first := bits.TrailingZeros64(mask)
	n := bits.TrailingZeros64(^(mask >> first))
	return mask & ((1<<n - 1) << first)
}

func (r *resctrl) rmdir(name string) error {
	g := r.groups[name]
	if g == nil {
		return syscall.ENOENT
	}
	if name == "" {
		return syscall.EPERM
	}
	maps.Copy(r.groups[""].tasks, g.tasks) // "Removing a directory will move all tasks and cpus owned by the group it represents to the parent."
	delete(r.groups, name)
	return os.RemoveAll(r.k.place("sys/fs/resctrl/" + name))
}

// write is a write to a file of a group. The name is that of package quiet.
func (r *resctrl) write(name, text string) error {
	g := r.groups[quiet.GroupOf(name)]
	if g == nil {
		return syscall.ENOENT
	}
	r.status = ""
	var err error
	switch path.Base(name) {
	case "schemata":
		err = r.writeSchemata(g, text)
	case "tasks":
		err = r.writeTasks(g, text)
	case "mode":
		err = r.writeMode(g, text)
	default:
		return syscall.EACCES
	}
	if showing := r.show(); err == nil {
		err = showing
	}
	return err
}

// writeTasks is rdtgroup.c, rdtgroup_tasks_write: the tasks before one that fails have moved.
func (r *resctrl) writeTasks(g *classGroup, text string) error {
	for _, word := range strings.Split(text, ",") {
		id, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return r.fail(syscall.EINVAL, "Task list parsing error pid %s", word)
		}
		from := r.groupOf(id)
		if from == nil {
			return r.fail(syscall.ESRCH, "No task %d", id)
		}
		delete(from.tasks, id)
		g.tasks[id] = true
	}
	return nil
}

func (r *resctrl) groupOf(task int) *classGroup {
	for _, g := range r.groups {
		if g.tasks[task] {
			return g
		}
	}
	return nil
}

// writeMode is rdtgroup.c, rdtgroup_mode_write: an exclusive group has no ways that another group
// or hardware has.
func (r *resctrl) writeMode(g *classGroup, text string) error {
	if text != "exclusive" && text != "shareable" {
		return r.fail(syscall.EINVAL, "Unknown or unsupported mode")
	}
	if text == "shareable" {
		g.exclusive = false
		return nil
	}
	for _, s := range r.resources {
		for id, value := range g.values[s.name] {
			if !s.ways {
				continue
			}
			used := s.shareable
			for _, other := range r.groups {
				for _, peer := range r.peers(s) {
					if other != g {
						used |= other.values[peer][id]
					}
				}
			}
			if used&value != 0 {
				return r.fail(syscall.EINVAL, "Schemata overlaps")
			}
		}
	}
	g.exclusive = true
	return nil
}

// show writes the files of all groups.
func (r *resctrl) show() error {
	files := map[string]string{"info/last_cmd_status": r.status}
	if r.status == "" {
		files["info/last_cmd_status"] = "ok"
	}
	for name, g := range r.groups {
		files[path.Join(name, "schemata")] = r.text(g)
		files[path.Join(name, "mode")] = map[bool]string{true: "exclusive", false: "shareable"}[g.exclusive]
		var tasks []string
		for _, id := range slices.Sorted(maps.Keys(g.tasks)) {
			tasks = append(tasks, strconv.Itoa(id))
		}
		files[path.Join(name, "tasks")] = strings.Join(tasks, "\n")
		if r.monitors > 0 {
			for _, id := range r.online(r.resources[0]) {
				at := path.Join(name, fmt.Sprintf("mon_data/mon_L3_%02d", id))
				files[at+"/llc_occupancy"], files[at+"/mbm_total_bytes"], files[at+"/mbm_local_bytes"] = fmt.Sprint(g.usage), fmt.Sprint(10*g.usage), "Unavailable"
			}
		}
	}
	for name, text := range files {
		name = "sys/fs/resctrl/" + name
		if r.k.get(name) == text && exists(r.k.place(name)) {
			continue
		}
		if err := r.k.put(name, text); err != nil {
			return err
		}
	}
	return nil
}

// Dir makes a directory of resctrl, or removes it. The name is that of package quiet.
func (k *Kernel) Dir(name string, there bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.reject[name]; err != nil {
		return err
	}
	switch {
	case k.resctrl == nil:
		return syscall.ENOENT
	case k.unprivileged: // fs/kernfs/dir.c, kernfs_create_root: the root has mode 0555, also for root without CAP_DAC_OVERRIDE.
		return syscall.EACCES
	}
	return k.resctrl.dir(strings.TrimPrefix(name, quiet.Resctrl+"/"), there)
}

// AddThreads starts threads in a cgroup. They are in the default group of resctrl.
func (k *Kernel) AddThreads(cgroup string, ids ...int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := quiet.Cgroups + cgroup + "/cgroup.threads"
	text := k.get(at)
	for _, id := range ids {
		text += "\n" + strconv.Itoa(id)
		if k.resctrl != nil {
			k.resctrl.groups[""].tasks[id] = true
		}
	}
	if err := k.put(at, strings.TrimSpace(text)); err != nil || k.resctrl == nil {
		return err
	}
	return k.resctrl.show()
}

// EndThread ends a thread. Its cgroup still lists the thread, as a program sees it that has read
// the list just before.
func (k *Kernel) EndThread(id int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.endThread(strconv.Itoa(id))
}

func (k *Kernel) endThread(word string) error {
	if k.resctrl == nil {
		return nil
	}
	id, err := strconv.Atoi(word)
	if err != nil {
		return err
	}
	if g := k.resctrl.groupOf(id); g != nil {
		delete(g.tasks, id)
	}
	return k.resctrl.show()
}

// SetLimbo sets the number of monitoring ids that are not free although no group has them.
func (k *Kernel) SetLimbo(ids int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resctrl.limbo = ids
}

// SetUsage sets the bytes that a group has in each cache.
func (k *Kernel) SetUsage(group string, bytes uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resctrl.groups[group].usage = bytes
	return k.resctrl.show()
}
