package noise

import (
	"cmp"
	"fmt"
	"sort"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Causes are what tracefs showed about who interrupted which CPU. Its zero value is ready for use.
// A nil *Causes is one about which nothing is known.
type Causes struct {
	tasks map[onCPU[int]]map[string]int
	rows  map[onCPU[string]]map[string]int
}

type onCPU[T comparable] struct {
	of  T
	cpu int
}

// mostCauses limits how many causes are kept for one task or row on one CPU, and mostShown how
// many of them are shown.
const mostCauses, mostShown = 64, 3

// Task counts one wake-up of a task on a CPU, or one function that it ran there.
func (c *Causes) Task(id, cpu int, cause string) {
	if c.tasks == nil {
		c.tasks = map[onCPU[int]]map[string]int{}
	}
	count(c.tasks, onCPU[int]{id, cpu}, cause)
}

// Row counts one cause of an interrupt of that row ("CAL", "RES", "TIMER") on a CPU.
func (c *Causes) Row(id string, cpu int, cause string) {
	if c.rows == nil {
		c.rows = map[onCPU[string]]map[string]int{}
	}
	count(c.rows, onCPU[string]{id, cpu}, cause)
}

func count[K comparable](all map[K]map[string]int, key K, cause string) {
	of := all[key]
	if of == nil {
		of = map[string]int{}
		all[key] = of
	}
	if _, known := of[cause]; !known && len(of) >= mostCauses {
		cause = "others"
	}
	of[cause]++
}

func (c *Causes) ofTasks(ids []int, cpus cpuset.Set) []string {
	if c == nil {
		return nil
	}
	return most(c.tasks, ids, cpus)
}

func (c *Causes) ofRow(id string, cpus cpuset.Set) []string {
	if c == nil {
		return nil
	}
	return most(c.rows, []string{id}, cpus)
}

// most returns the most frequent causes on CPUs, each with how often it was.
func most[T comparable](all map[onCPU[T]]map[string]int, ids []T, cpus cpuset.Set) []string {
	sums := map[string]int{}
	for _, id := range ids {
		for cpu := range cpus.All() {
			for cause, n := range all[onCPU[T]{id, cpu}] {
				sums[cause] += n
			}
		}
	}
	type one struct {
		cause string
		n     int
	}
	list := make([]one, 0, len(sums))
	for cause, n := range sums {
		list = append(list, one{cause, n})
	}
	sort.Slice(list, func(i, k int) bool {
		return cmp.Or(cmp.Compare(list[k].n, list[i].n), cmp.Compare(list[i].cause, list[k].cause)) < 0
	})
	var texts []string
	for _, x := range list[:min(len(list), mostShown)] {
		times := "times"
		if x.n == 1 {
			times = "time"
		}
		texts = append(texts, fmt.Sprintf("%s (%d %s)", x.cause, x.n, times))
	}
	return texts
}
