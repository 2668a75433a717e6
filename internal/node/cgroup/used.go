package cgroup

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Used returns the CPU time that the processes of a cgroup and of the cgroups below it have used
// since it was created (admin-guide/cgroup-v2.rst, cpu.stat; in v1, cgroup-v1/cpuacct.rst). If the
// cgroup is gone, the error wraps fs.ErrNotExist.
func (f FS) Used(path string) (time.Duration, error) {
	if !f.v2() {
		name := f.file(path, "cpuacct", "cpuacct.usage")
		text, err := read(name)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s: %q is not a number of nanoseconds", name, text)
		}
		return time.Duration(n), nil
	}
	name := f.file(path, "cpu", "cpu.stat")
	text, err := read(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key != "usage_usec" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > 1<<53 {
			return 0, fmt.Errorf("%s: usage_usec: %q is not a number of microseconds", name, value)
		}
		return time.Duration(n) * time.Microsecond, nil
	}
	return 0, fmt.Errorf("%s has no line usage_usec", name)
}
