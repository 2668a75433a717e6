package kernelfiles

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/node/noise"
)

const (
	// mostRows is how many rows of /proc/interrupts are read. A server with many devices has
	// thousands.
	mostRows = 1 << 16
	// longestLine is the longest line, in bytes. That of 4,096 CPUs has 45 KiB.
	longestLine = 1 << 20
)

// Table reads the form of /proc/interrupts and /proc/softirqs: a line of CPUs, and for each source
// a line of counts and a description. It calls row for each line that has a count for each CPU,
// with the counts of the chosen CPUs in their order, and noise.Unknown for one that the file does
// not have. row must not keep its arguments. A file without a line of CPUs is an error.
func Table(in io.Reader, cpus []int, row func(id, about []byte, counts []uint64)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), longestLine)
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return err
		}
		return errEmpty
	}
	columns, err := header(lines.Text(), cpus)
	if err != nil {
		return err
	}
	counts := make([]uint64, len(cpus))
	for n := 0; lines.Scan() && n < mostRows; n++ {
		id, rest, found := bytes.Cut(bytes.TrimLeft(lines.Bytes(), " "), []byte(":"))
		if !found {
			continue
		}
		for i := range counts {
			counts[i] = noise.Unknown
		}
		if about, complete := counted(rest, columns, counts); complete {
			row(id, about, counts)
		}
	}
	return lines.Err()
}

// header returns for each column the index of its CPU in cpus, or -1.
func header(line string, cpus []int) ([]int, error) {
	var columns []int
	for _, name := range strings.Fields(line) {
		number, is := strings.CutPrefix(name, "CPU")
		id, err := strconv.Atoi(number)
		if !is || err != nil {
			return nil, fmt.Errorf("expected a line of CPU0, CPU1, …, found %q", name)
		}
		at, has := slices.BinarySearch(cpus, id)
		if !has {
			at = -1
		}
		columns = append(columns, at)
	}
	if len(columns) == 0 {
		return nil, errEmpty
	}
	return columns, nil
}

// counted reads a count for each column, and returns what follows. Rows that have one count for the
// whole machine (ERR, MIS) are not complete.
func counted(line []byte, columns []int, counts []uint64) (about []byte, complete bool) {
	for _, at := range columns {
		line = bytes.TrimLeft(line, " ")
		var n uint64
		digits := 0
		for ; digits < len(line) && line[digits] >= '0' && line[digits] <= '9' && digits < 19; digits++ {
			n = 10*n + uint64(line[digits]-'0')
		}
		if digits == 0 {
			return nil, false
		}
		if line = line[digits:]; at >= 0 {
			counts[at] = n
		}
	}
	return bytes.TrimSpace(line), true
}

// device returns the devices of an interrupt, without its chip, number and trigger: "virtio1-req.0"
// of "PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0", "arch_timer" of "GICv3  30 Level
// arch_timer".
func device(about string) string {
	words := strings.Fields(about)
	rest := words
	if len(words) > 0 {
		rest = words[1:]
	}
	switch {
	case len(rest) > 0 && strings.Contains(rest[0], "-"):
		if number, _, _ := strings.Cut(rest[0], "-"); isNumber(number) {
			rest = rest[1:]
		}
	case len(rest) > 1 && isNumber(rest[0]) && (rest[1] == "Level" || rest[1] == "Edge"):
		rest = rest[2:]
	}
	if len(rest) == 0 {
		return strings.Join(words, " ")
	}
	return strings.Join(rest, " ")
}

func isNumber(word string) bool {
	_, err := strconv.ParseUint(word, 10, 64)
	return err == nil
}

// rows reads a file of that form as a whole.
func (f FS) rows(name string, cpus []int) ([]noise.Row, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var rows []noise.Row
	err = Table(file, cpus, func(id, about []byte, counts []uint64) {
		r := noise.Row{ID: string(id), Name: string(about), Counts: slices.Clone(counts)}
		if isNumber(r.ID) {
			r.Name = device(r.Name)
		}
		rows = append(rows, r)
	})
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: f.path(name), Err: err}
	}
	return rows, nil
}

// interrupts reads /proc/interrupts. Where it is masked, it reads the device interrupts of
// /sys/kernel/irq, which has the same counts.
func (f FS) interrupts(cpus []int, n *notes) []noise.Row {
	rows, err := f.rows("proc/interrupts", cpus)
	if err == nil {
		return rows
	}
	if !errors.Is(err, errEmpty) {
		n.missing("interrupts", err, "there is no /proc/interrupts below "+f.path(""))
		return nil
	}
	if rows = f.irqs(cpus); len(rows) == 0 {
		n.missing("interrupts", err, "")
		return nil
	}
	n.add("timer ticks and IPIs", why(err)+". Device interrupts are those of /sys/kernel/irq")
	return rows
}

// irqs reads the counts in /sys/kernel/irq (Documentation/ABI/testing/sysfs-kernel-irq). It returns
// nothing where the kernel has no such directory.
func (f FS) irqs(cpus []int) []noise.Row {
	possible, err := list(f.path("sys/devices/system/cpu/possible"))
	if err != nil {
		return nil
	}
	columns, dir := possible.IDs(), f.path("sys/kernel/irq")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var rows []noise.Row
	for _, e := range entries[:min(len(entries), mostRows)] {
		words, err := text(filepath.Join(dir, e.Name(), "per_cpu_count"))
		if err != nil {
			continue // The interrupt was released meanwhile.
		}
		row := noise.Row{ID: e.Name(), Counts: make([]uint64, len(cpus))}
		for i := range row.Counts {
			row.Counts[i] = noise.Unknown
		}
		for i, word := range strings.Split(words, ",") {
			count, err := strconv.ParseUint(word, 10, 64)
			if err != nil || i >= len(columns) {
				break
			}
			if at, has := slices.BinarySearch(cpus, columns[i]); has {
				row.Counts[at] = count
			}
		}
		if row.Name, _ = text(filepath.Join(dir, e.Name(), "actions")); row.Name != "" {
			rows = append(rows, row)
		}
	}
	return rows
}
