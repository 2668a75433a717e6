package cgroup

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Pages returns the bytes of anonymous memory that a cgroup has on each NUMA node, without the
// cgroups below it. This is the memory that cpuset.mems moves (admin-guide/cgroup-v2.rst,
// memory.numa_stat; in v1, cgroup-v1/memory.rst, in pages). It does not include huge pages of
// hugetlb. If the cgroup is gone, the error wraps fs.ErrNotExist.
func (f FS) Pages(path string) (map[int]int64, error) {
	text, err := read(f.file(path, "memory", "memory.numa_stat"))
	if err != nil {
		return nil, err
	}
	unit, name := int64(1), "anon"
	if !f.v2() {
		unit = int64(os.Getpagesize())
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != name && !strings.HasPrefix(fields[0], name+"=") {
			continue
		}
		byNode := map[int]int64{}
		for _, field := range fields[1:] {
			id, amount, _ := strings.Cut(strings.TrimPrefix(field, "N"), "=")
			node, notNode := strconv.Atoi(id)
			n, notNumber := strconv.ParseInt(amount, 10, 64)
			if notNode != nil || notNumber != nil || n < 0 {
				return nil, fmt.Errorf("cgroup %s: memory.numa_stat: %q is not an amount of a NUMA node", path, field)
			}
			byNode[node] = n * unit
		}
		return byNode, nil
	}
	return nil, fmt.Errorf("cgroup %s: memory.numa_stat has no line for anon", path)
}
