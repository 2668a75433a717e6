package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// resctrlDirs are the directories of the kernel's resctrl: its mount point on a node, and its
// directory in the pod of an agent. A container's own /sys does not include it, because it is a
// separate mount.
var resctrlDirs = []string{"sys/fs/resctrl", "host/sys/fs/resctrl"}

// resctrlFiles has the content of the files of resctrl that describe a machine, by their names
// below its root: "info/L3/cbm_mask", and "schemata" of the default group.
type resctrlFiles map[string]string

// HasGroup reports whether resctrl has a group below root, which is os.DirFS("/") except in tests.
func HasGroup(root fs.FS, group string) bool {
	return slices.ContainsFunc(resctrlDirs, func(dir string) bool {
		_, err := fs.Stat(root, path.Join(dir, group, "schemata"))
		return err == nil
	})
}

// The files in info that are read for a resource (Documentation/filesystems/resctrl.rst, "Info
// directory").
var infoNames = []string{"num_closids", "cbm_mask", "min_cbm_bits", "shareable_bits", "sparse_masks", "min_bandwidth", "bandwidth_gran"}

// resctrl returns the files of resctrl. It is empty if resctrl is not mounted.
func (t *tree) resctrl() (resctrlFiles, error) {
	for _, dir := range resctrlDirs {
		entries, err := fs.ReadDir(t.root, dir+"/info")
		if err != nil {
			continue
		}
		files := resctrlFiles{}
		read := func(name string) error {
			text, err := t.text(path.Join(dir, name))
			switch {
			case err == nil:
				files[name] = text
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
				return err
			}
			return nil
		}
		for _, e := range entries {
			for _, name := range infoNames {
				if e.IsDir() {
					err = errors.Join(err, read(path.Join("info", e.Name(), name)))
				}
			}
		}
		return files, errors.Join(err, read("schemata"))
	}
	return nil, nil
}

// caches returns the caches that the files describe, and the ids of the caches of the default
// group, which are all caches of the machine.
func (f resctrlFiles) caches() (c machine.Caches, ids []int, err error) {
	r := resctrlReader{files: f}
	for _, resource := range r.resources() {
		if n := r.number(resource, "num_closids", 10); c.Classes == 0 || n < c.Classes {
			c.Classes = n // The kernel uses the smallest number of all (rdtgroup.c, closid_init).
		}
	}
	switch {
	case r.has("L3"):
		r.ways(&c, "L3")
	case r.has("L3CODE") && r.has("L3DATA"): // Each has half of the classes already (schemata_list_add).
		c.CodeAndData = true
		r.ways(&c, "L3DATA")
	}
	values, ids, err := schemataValues(f["schemata"])
	r.err = errors.Join(r.err, err)
	if r.has("MB") {
		least, step := r.number("MB", "min_bandwidth", 10), r.number("MB", "bandwidth_gran", 10)
		// AMD's limits are in 1/8 GB/s, and begin at 0 (core.c, __rdt_get_mem_config_amd). With the
		// mount option mba_MBps, they are in MiB/s. Percents begin above 0 and end at 100.
		if c.AbsoluteBandwidth = least == 0 || slices.ContainsFunc(values["MB"], func(n uint64) bool { return n > 100 }); !c.AbsoluteBandwidth {
			c.LeastBandwidth, c.BandwidthStep = least, step
		}
	}
	if r.err != nil {
		return machine.Caches{}, nil, r.err
	}
	if c.Ways == 0 && !r.has("MB") {
		return machine.Caches{}, nil, nil // Only L2, or only monitoring.
	}
	return c, ids, nil
}

// resctrlReader reads numbers. It keeps the errors.
type resctrlReader struct {
	files resctrlFiles
	err   error
}

// resources returns the resources that can be divided. Resources for monitoring have no classes.
func (r *resctrlReader) resources() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if parts := strings.Split(name, "/"); len(parts) == 3 && !strings.HasSuffix(parts[1], "_MON") && !slices.Contains(all, parts[1]) {
			all = append(all, parts[1])
		}
	}
	return all
}

func (r *resctrlReader) has(resource string) bool { return slices.Contains(r.resources(), resource) }

func (r *resctrlReader) number(resource, file string, base int) int {
	name := "info/" + resource + "/" + file
	text, has := r.files[name]
	n, err := strconv.ParseUint(text, base, 32)
	switch {
	case !has:
		r.err = errors.Join(r.err, fmt.Errorf("/%s/%s: it is missing, and the resource %s is there", resctrlDirs[0], name, resource))
	case err != nil:
		r.err = errors.Join(r.err, fmt.Errorf("/%s/%s: %q is not a number of base %d", resctrlDirs[0], name, text, base))
	}
	return int(n)
}

// ways reads the files of an L3 resource. Kernels before about 5.6 lack some of them.
func (r *resctrlReader) ways(c *machine.Caches, resource string) {
	all := uint32(r.number(resource, "cbm_mask", 16)) //nolint:gosec // It has 32 bits.
	if c.Ways = bits.Len32(all); bits.OnesCount32(all) != c.Ways {
		r.err = errors.Join(r.err, fmt.Errorf("/%s/info/%s/cbm_mask: %x: expected ones only, one for each way", resctrlDirs[0], resource, all))
	}
	// AMD allows a class without ways, and reports 0 here. No container can use such a class.
	c.LeastWays = max(1, r.number(resource, "min_cbm_bits", 10))
	if _, has := r.files["info/"+resource+"/shareable_bits"]; has {
		c.HardwareWays = uint32(r.number(resource, "shareable_bits", 16)) //nolint:gosec // It has 32 bits.
	}
	if _, has := r.files["info/"+resource+"/sparse_masks"]; has {
		c.Sparse = r.number(resource, "sparse_masks", 10) == 1
	}
}

// schemataValues returns the values of each resource of a file schemata, and the ids of the caches
// of L3 and MB.
func schemataValues(text string) (values map[string][]uint64, ids []int, err error) {
	values = map[string][]uint64{}
	for line := range strings.Lines(text) {
		resource, list, found := strings.Cut(strings.TrimSpace(line), ":")
		if resource = strings.TrimSpace(resource); !found || resource != "MB" && !strings.HasPrefix(resource, "L3") {
			continue
		}
		base := map[bool]int{true: 10, false: 16}[resource == "MB"]
		for _, entry := range strings.Split(list, ";") {
			cache, value, _ := strings.Cut(entry, "=")
			id, wrong := strconv.ParseUint(strings.TrimSpace(cache), 10, 31)
			n, wrong2 := strconv.ParseUint(strings.TrimSpace(value), base, 64)
			if wrong != nil || wrong2 != nil {
				return nil, nil, fmt.Errorf("/%s/schemata: %q of %s: expected the id of a cache, =, and a number", resctrlDirs[0], entry, resource)
			}
			values[resource] = append(values[resource], n)
			if !slices.Contains(ids, int(id)) {
				ids = append(ids, int(id))
			}
		}
	}
	return values, ids, nil
}

// withCaches adds caches to a description if the L3 cache of every core is known and is one of
// those that the kernel divides. Otherwise it returns the reason why not.
func withCaches(d *machine.Description, info *model.MachineInfo, k kernel) (why string) {
	if k.caches.IsEmpty() {
		return ""
	}
	sets, own := map[int]*cpuset.Builder{}, false
	for i := range info.Topology {
		n := &info.Topology[i]
		for j := range n.Cores {
			core, unit := &n.Cores[j], d.Nodes[i].Cores[j].Uncore
			id, known := unit, unit != machine.NoUncore
			if !known {
				unit = d.Nodes[i].Cores[j].Socket
				id, known = nodeCache(n)
			}
			if k.l3 != nil {
				id, known = cacheOf(k.l3, core.Threads)
			}
			switch {
			case !known:
				return fmt.Sprintf("the L3 cache of core %d on NUMA node %d is not reported", core.Id, n.Id)
			case len(k.ids) > 0 && !slices.Contains(k.ids, id):
				return fmt.Sprintf("the L3 cache of core %d on NUMA node %d has id %d, and the kernel divides caches %s", core.Id, n.Id, id, strings.Trim(fmt.Sprint(k.ids), "[]"))
			}
			own = own || id != unit
			if sets[id] == nil {
				sets[id] = &cpuset.Builder{}
			}
			for _, t := range core.Threads {
				sets[id].Add(t)
			}
		}
	}
	if d.Caches = k.caches; own { // The units of Uncores are others.
		for id, b := range sets {
			d.L3 = append(d.L3, machine.Unit{ID: id, CPUs: b.Set()})
		}
	}
	return ""
}

// cacheOf returns the id of the cache that CPUs use.
func cacheOf(l3 []machine.Unit, cpus []int) (id int, known bool) {
	for _, u := range l3 {
		if len(cpus) > 0 && u.CPUs.Has(cpus[0]) {
			return u.ID, true
		}
	}
	return 0, false
}

// nodeCache returns the id of the L3 cache that all cores of a NUMA node share.
func nodeCache(n *model.Node) (id int, known bool) {
	for _, c := range n.Caches {
		if c.Level == 3 {
			if known {
				return 0, false
			}
			id, known = c.Id, true
		}
	}
	return id, known
}

// cachesText is the recorded form of machine.Caches, with the kernel's names.
type cachesText struct {
	Classes           int    `json:"num_closids"`
	Ways              int    `json:"cbm_bits,omitempty"`
	LeastWays         int    `json:"min_cbm_bits,omitempty"`
	HardwareWays      string `json:"shareable_bits,omitempty"`
	Sparse            bool   `json:"sparse_masks,omitempty"`
	CodeAndData       bool   `json:"cdp,omitempty"`
	LeastBandwidth    int    `json:"min_bandwidth,omitempty"`
	BandwidthStep     int    `json:"bandwidth_gran,omitempty"`
	AbsoluteBandwidth bool   `json:"absolute_bandwidth,omitempty"`
	// L3 has the L3 caches if they differ from the uncore caches, or from the sockets that replace
	// these.
	L3 []l3Text `json:"l3,omitempty"`
}

type l3Text struct {
	ID   int    `json:"id"`
	CPUs string `json:"cpus"`
}

// cachesTextOf returns nil for a machine that divides nothing, so that its recorded form is the
// same as before this member existed.
func cachesTextOf(m *machine.Machine) *cachesText {
	c := m.Caches()
	if c.IsEmpty() {
		return nil
	}
	t := &cachesText{
		Classes: c.Classes, Ways: c.Ways, LeastWays: c.LeastWays, Sparse: c.Sparse, CodeAndData: c.CodeAndData,
		LeastBandwidth: c.LeastBandwidth, BandwidthStep: c.BandwidthStep, AbsoluteBandwidth: c.AbsoluteBandwidth,
	}
	if c.HardwareWays != 0 {
		t.HardwareWays = strconv.FormatUint(uint64(c.HardwareWays), 16)
	}
	if m.HasOwnL3s() {
		for _, u := range m.L3s() {
			t.L3 = append(t.L3, l3Text{u.ID, u.CPUs.String()})
		}
	}
	return t
}

func (x *cachesText) caches() (c machine.Caches, l3 []machine.Unit, err error) {
	if x == nil {
		return c, nil, nil
	}
	for _, u := range x.L3 {
		cpus, err := cpuset.Parse(u.CPUs)
		if err != nil {
			return c, nil, fmt.Errorf("cpus of l3 %d of resctrl: %w", u.ID, err)
		}
		l3 = append(l3, machine.Unit{ID: u.ID, CPUs: cpus})
	}
	c = machine.Caches{
		Classes: x.Classes, Ways: x.Ways, LeastWays: x.LeastWays, Sparse: x.Sparse, CodeAndData: x.CodeAndData,
		LeastBandwidth: x.LeastBandwidth, BandwidthStep: x.BandwidthStep, AbsoluteBandwidth: x.AbsoluteBandwidth,
	}
	if x.HardwareWays != "" {
		ways, err := strconv.ParseUint(x.HardwareWays, 16, 32)
		if err != nil {
			return c, nil, fmt.Errorf("shareable_bits of resctrl: %q: expected ways as the kernel writes them, such as \"c0000\"", x.HardwareWays)
		}
		c.HardwareWays = uint32(ways)
	}
	return c, l3, nil
}

// resctrlLine matches a line of a file of resctrl, after the name of the file: what "grep -rH ."
// writes for /sys/fs/resctrl/info and /sys/fs/resctrl/schemata.
var resctrlLine = regexp.MustCompile(`(?m)^/sys/fs/resctrl/(info/[A-Z0-9_]+/[a-z_]+|schemata):(.*)$`)

// readResctrl reads the lines that resctrlLine matches.
func readResctrl(f File) resctrlFiles {
	files := resctrlFiles{}
	for _, line := range resctrlLine.FindAllStringSubmatch(string(f.Data), -1) {
		name, text := line[1], strings.TrimSpace(line[2])
		switch {
		case name == "schemata":
			files[name] += text + "\n"
		case slices.Contains(infoNames, path.Base(name)):
			files[name] = text
		}
	}
	return files
}
