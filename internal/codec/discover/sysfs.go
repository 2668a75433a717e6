package discover

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cadvisor/lib/utils/sysfs"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

const (
	cpuDir       = "sys/devices/system/cpu"
	nodeDir      = "sys/devices/system/node"
	hugePagesDir = "sys/kernel/mm/hugepages"
)

// tree lets cAdvisor's library read an arbitrary file system. The embedded SysFs reads the machine
// on which this process runs; none of its methods is used for the topology. The files are
// documented in the kernel's Documentation/ABI/stable/sysfs-devices-node and
// Documentation/ABI/testing/sysfs-devices-system-cpu.
type tree struct {
	sysfs.SysFs
	root fs.FS
	// online are the online CPUs. It is nil if the kernel cannot take CPUs offline.
	online *cpuset.Set
}

// text returns the content of a file without surrounding white space. The library uses absolute
// paths; an fs.FS needs paths without the leading slash.
func (t *tree) text(file string) (string, error) {
	data, err := fs.ReadFile(t.root, strings.Trim(file, "/"))
	return strings.TrimSpace(string(data)), err
}

func (t *tree) number(file string) (int, error) {
	text, err := t.text(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", absolute(file), text)
	}
	return n, nil
}

// id returns the number in a file as text, as the library expects it. Unlike the library's own
// errors, its errors name the file. The error for a missing file must satisfy os.IsNotExist.
func (t *tree) id(file string) (string, error) {
	n, err := t.number(file)
	return strconv.Itoa(n), err
}

func absolute(file string) string { return "/" + strings.Trim(file, "/") }

// list reads a file with a list of CPUs. It reports whether the file exists.
func (t *tree) list(file string) (cpuset.Set, bool, error) {
	text, err := t.text(file)
	if err != nil {
		return cpuset.Set{}, false, nil //nolint:nilerr // The file is optional.
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.Set{}, false, fmt.Errorf("%s: %w", absolute(file), err)
	}
	return set, true, nil
}

// numbered returns the entries of dir whose names are prefix and a number, in ascending order of
// the numbers, so that the topology does not depend on how names sort.
func (t *tree) numbered(dir, prefix string) []string {
	entries, err := fs.ReadDir(t.root, strings.Trim(dir, "/"))
	if err != nil {
		return nil
	}
	var ids []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if id, err := strconv.Atoi(digits); ok && err == nil && strconv.Itoa(id) == digits {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var paths []string
	for _, id := range ids {
		paths = append(paths, path.Join(dir, prefix+strconv.Itoa(id)))
	}
	return paths
}

func (t *tree) GetNodesPaths() ([]string, error) { return t.numbered("/"+nodeDir, "node"), nil }

func (t *tree) GetCPUsPaths(dir string) ([]string, error) { return t.numbered(dir, "cpu"), nil }

func (t *tree) GetCoreID(cpu string) (string, error) { return t.id(cpu + "/topology/core_id") }

func (t *tree) GetCPUPhysicalPackageID(cpu string) (string, error) {
	return t.id(cpu + "/topology/physical_package_id")
}

func (t *tree) GetBookID(cpu string) (string, error) { return t.text(cpu + "/topology/book_id") }

func (t *tree) GetDrawerID(cpu string) (string, error) { return t.text(cpu + "/topology/drawer_id") }

func (t *tree) GetMemInfo(node string) (string, error) { return t.text(node + "/meminfo") }

func (t *tree) GetDistances(node string) (string, error) {
	text, err := t.text(node + "/distance")
	return strings.Join(strings.Fields(text), " "), err
}

// GetHugePagesInfo returns only the entries whose names have the form that the library expects.
func (t *tree) GetHugePagesInfo(dir string) ([]os.FileInfo, error) {
	entries, err := fs.ReadDir(t.root, strings.Trim(dir, "/"))
	if err != nil {
		return nil, err
	}
	return infos(entries, func(name string) bool {
		size, prefixed := strings.CutPrefix(name, "hugepages-")
		size, suffixed := strings.CutSuffix(size, "kB")
		_, err := strconv.ParseUint(size, 10, 64)
		return prefixed && suffixed && err == nil
	})
}

func (t *tree) GetHugePagesNr(dir, name string) (string, error) {
	return t.text(path.Join(dir, name, sysfs.HugePagesNrFile))
}

func (t *tree) GetCaches(cpu int) ([]os.FileInfo, error) {
	entries, err := fs.ReadDir(t.root, cacheDir(cpu))
	if err != nil {
		return nil, err
	}
	return infos(entries, func(name string) bool { return strings.HasPrefix(name, "index") })
}

func (t *tree) GetCacheInfo(cpu int, name string) (sysfs.CacheInfo, error) {
	dir := path.Join(cacheDir(cpu), name)
	level, err := t.number(dir + "/level")
	if err != nil {
		return sysfs.CacheInfo{}, err
	}
	id, err := t.number(dir + "/id")
	if err != nil {
		return sysfs.CacheInfo{}, err
	}
	shared, _, err := t.list(dir + "/shared_cpu_list")
	if err != nil {
		return sysfs.CacheInfo{}, err
	}
	cacheType, err := t.text(dir + "/type")
	if err != nil {
		return sysfs.CacheInfo{}, err
	}
	size, err := t.text(dir + "/size")
	if err != nil {
		return sysfs.CacheInfo{}, err
	}
	kib, err := strconv.ParseUint(strings.TrimSuffix(size, "K"), 10, 32)
	if err != nil {
		return sysfs.CacheInfo{}, fmt.Errorf("%s/size: %q is not a number of KiB", absolute(dir), size)
	}
	return sysfs.CacheInfo{Id: id, Size: kib * 1024, Type: cacheType, Level: level, Cpus: shared.Len()}, nil
}

func (t *tree) IsCPUOnline(cpu string) bool {
	if t.online == nil {
		return true
	}
	id, err := strconv.Atoi(strings.TrimPrefix(path.Base(cpu), "cpu"))
	return err == nil && t.online.Has(id)
}

func cacheDir(cpu int) string { return cpuDir + "/cpu" + strconv.Itoa(cpu) + "/cache" }

func infos(entries []fs.DirEntry, want func(name string) bool) ([]os.FileInfo, error) {
	var list []os.FileInfo
	for _, e := range entries {
		if !want(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}
