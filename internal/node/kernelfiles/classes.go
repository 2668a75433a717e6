package kernelfiles

import (
	"errors"
	"os"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// Classes reads the counts of CPUs by class, and nothing else. The result has what can be read; an
// error is why some classes are missing. It keeps nothing of each interrupt, so that it can run
// again and again in an agent. The time of the reading is that of the caller.
func (f FS) Classes(cpus cpuset.Set) (noise.Reading, error) {
	ids := cpus.IDs()
	sums := make([]noise.Counts, len(ids))
	online := make([]bool, len(ids))
	classes := noise.Counted()
	add := func(class noise.Class, counts []uint64) {
		at := slices.Index(classes, class)
		for i, n := range counts {
			if n != noise.Unknown {
				sums[i][at] += n
				online[i] = true
			}
		}
	}
	r := noise.Reading{CPUs: make(map[int]noise.Counts, len(ids))}
	known := func(err error, of ...noise.Class) {
		for _, class := range of {
			r.Known[slices.Index(classes, class)] = err == nil
		}
	}
	interrupts := f.each("proc/interrupts", ids, func(id, about []byte, counts []uint64) {
		add(noise.ClassOf(string(id), string(about)), counts)
	})
	known(interrupts, noise.Device, noise.Timer, noise.IPI, noise.OtherClass)
	if errors.Is(interrupts, errEmpty) { // A container does not see it, but has these.
		rows := f.irqs(ids)
		for _, row := range rows {
			add(noise.Device, row.Counts)
		}
		if len(rows) > 0 {
			known(nil, noise.Device)
		}
	}
	seen := slices.Clone(online) // Softirqs are also listed for CPUs that are offline.
	softirqs := f.each("proc/softirqs", ids, func(_, _ []byte, counts []uint64) { add(noise.Softirq, counts) })
	known(softirqs, noise.Softirq)
	if slices.Contains(r.Known[:len(r.Known)-1], true) {
		online = seen
	}
	for i, id := range ids {
		if online[i] {
			r.CPUs[id] = sums[i]
		}
	}
	return r, errors.Join(interrupts, softirqs)
}

// each calls row for each line of a file; see Table.
func (f FS) each(name string, cpus []int, row func(id, about []byte, counts []uint64)) error {
	file, err := os.Open(f.path(name))
	if err != nil {
		return err
	}
	defer file.Close()
	if err = Table(file, cpus, row); err != nil {
		return &os.PathError{Op: "read", Path: f.path(name), Err: err}
	}
	return nil
}
