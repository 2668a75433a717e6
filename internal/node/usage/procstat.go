package usage

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// StatFile is the file of the kernel that ParseStat reads.
const StatFile = "/proc/stat"

// maxStat is the largest file that is read, in bytes. The lines of 4,096 CPUs have 500 KiB, and the
// line of interrupts that follows them is not read.
const maxStat = 4 << 20

// ParseStat reads the times of the CPUs from the content of /proc/stat. CPUs that are offline are
// not in it.
func ParseStat(in io.Reader) (map[int]Ticks, error) {
	cpus := map[int]Ticks{}
	lines := bufio.NewScanner(io.LimitReader(in, maxStat))
	for lines.Scan() {
		name, times, _ := strings.Cut(lines.Text(), " ")
		id, isCPU := strings.CutPrefix(name, "cpu")
		if !isCPU {
			break // The lines of the CPUs are the first ones.
		}
		if id == "" {
			continue // the sum of all CPUs
		}
		n, err := strconv.Atoi(id)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s: %q is not the name of a CPU", StatFile, name)
		}
		if cpus[n], err = ticks(times); err != nil {
			return nil, fmt.Errorf("%s: CPU %d: %w", StatFile, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", StatFile, err)
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("%s: expected lines that begin with cpu0, cpu1, …", StatFile)
	}
	return cpus, nil
}

// ticks adds up the times of a CPU: user, nice, system, idle, iowait, irq, softirq, steal. The time
// of guests, which follows, is a part of user and nice.
func ticks(times string) (Ticks, error) {
	const idle, iowait, steal = 3, 4, 7
	fields := strings.Fields(times)
	if len(fields) <= idle {
		return Ticks{}, fmt.Errorf("expected at least %d times, found %d", idle+1, len(fields))
	}
	var t Ticks
	for i, field := range fields[:min(len(fields), steal)] {
		n, err := strconv.ParseUint(field, 10, 62)
		if err != nil {
			return Ticks{}, fmt.Errorf("%q is not a number", field)
		}
		t.All += n
		if i != idle && i != iowait {
			t.Busy += n
		}
	}
	return t, nil
}
