package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/quota"
)

// Quota returns the CFS quota of a cgroup, converted to periods of quota.Period, or quota.None. If
// the cgroup is gone, the error wraps fs.ErrNotExist.
func (f FS) Quota(path string) (quota.Quota, error) {
	name := f.quotaFile(path)
	text, err := read(name)
	if err != nil {
		return quota.Keep, err
	}
	micros, period, err := cpuMax(text)
	if err == nil && !f.v2() {
		period, err = f.period(path)
	}
	if err != nil {
		return quota.Keep, fmt.Errorf("%s: %w", name, err)
	}
	return quota.In(micros, period), nil
}

// cpuMax parses cpu.max, such as "max 100000" or "150000 100000", and cpu.cfs_quota_us, which has
// no period.
func cpuMax(text string) (micros, period int64, err error) {
	first, second, both := strings.Cut(text, " ")
	micros, period = int64(quota.None), quota.Period
	if first != "max" {
		if micros, err = strconv.ParseInt(first, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%q is not a quota", text)
		}
	}
	if both {
		if period, err = strconv.ParseInt(second, 10, 64); err != nil || period <= 0 {
			return 0, 0, fmt.Errorf("%q has no period", text)
		}
	}
	return micros, period, nil
}

// period returns cpu.cfs_period_us, for v1. Without such a file it returns the kubelet's period.
func (f FS) period(path string) (int64, error) {
	text, err := read(f.file(path, "cpu", "cpu.cfs_period_us"))
	if errors.Is(err, fs.ErrNotExist) {
		return quota.Period, nil
	}
	if err != nil {
		return 0, err
	}
	period, err := strconv.ParseInt(text, 10, 64)
	if err != nil || period <= 0 {
		return 0, fmt.Errorf("cpu.cfs_period_us: %q is not a period", text)
	}
	return period, nil
}

func (f FS) quotaFile(path string) string {
	if f.v2() {
		return f.file(path, "", "cpu.max")
	}
	return f.file(path, "cpu", "cpu.cfs_quota_us")
}

// SetQuota writes the CFS quota of a cgroup, in periods of quota.Period, and reports whether
// the quota changed. quota.None removes the quota and keeps the period. quota.Keep changes
// nothing. If the cgroup is gone, the error wraps fs.ErrNotExist.
func (f FS) SetQuota(path string, want quota.Quota) (bool, error) {
	if want == quota.Keep {
		return false, nil
	}
	has, err := f.Quota(path)
	if err != nil || has == want {
		return false, err
	}
	name := f.quotaFile(path)
	switch {
	case f.v2() && want == quota.None:
		return true, write(name, "max")
	case f.v2():
		return true, write(name, fmt.Sprintf("%d %d", want, int64(quota.Period)))
	case want == quota.None:
		return true, write(name, "-1")
	}
	// The kernel checks a quota against the present period. Without a quota it accepts any period.
	err = write(name, "-1")
	if err == nil {
		err = write(f.file(path, "cpu", "cpu.cfs_period_us"), strconv.Itoa(quota.Period))
	}
	if err == nil {
		err = write(name, strconv.FormatInt(int64(want), 10))
	}
	return true, err
}

// Throttling has the kernel's counts since a cgroup was created (cpu.stat). Periods without a quota
// are not counted.
type Throttling struct {
	// Periods is the number of periods in which a process ran. Throttled is the number of those in
	// which the quota was used up.
	Periods, Throttled uint64
	// Time is the total time for which the threads were ready and could not run.
	Time time.Duration
}

// Throttled returns how often a cgroup was throttled by its own quota. The quotas of the cgroups
// above it are counted there. A kernel without CFS bandwidth control counts nothing. If the cgroup
// is gone, the error wraps fs.ErrNotExist.
func (f FS) Throttled(path string) (Throttling, error) {
	name := f.file(path, "cpu", "cpu.stat")
	text, err := read(name)
	if err != nil {
		return Throttling{}, err
	}
	var t Throttling
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 63)
		switch key {
		case "nr_periods":
			t.Periods = n
		case "nr_throttled":
			t.Throttled = n
		case "throttled_usec": // v2
			t.Time = time.Duration(min(n, 1<<53)) * time.Microsecond
		case "throttled_time": // v1, in nanoseconds
			t.Time = time.Duration(n)
		default:
			continue
		}
		if err != nil {
			return Throttling{}, fmt.Errorf("%s: %s: %q is not a number", name, key, value)
		}
	}
	return t, nil
}
