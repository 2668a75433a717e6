package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// minEven is how many evenly spaced ids are worth a shortened list.
const minEven = 6

// CPUs prints a set for reading: as a cpuset, but a longer row of evenly spaced ids,
// or of ranges of one length, as "0,2,…,62" or "0-1,4-5,…,60-61".
func CPUs(set cpuset.Set) string {
	ranges := rangesOf(set)
	var parts []string
	for i := 0; i < len(ranges); {
		n := progression(len(ranges)-i, func(a, b int) bool {
			return slices.Equal(step(ranges[i+a], ranges[i+a+1]), step(ranges[i+b], ranges[i+b+1]))
		})
		if d := step(ranges[i], ranges[min(i+1, len(ranges)-1)]); n < minEven || d[0] != d[1] {
			n = 1
		}
		parts = append(parts, rangeText(ranges[i]))
		if n > 1 {
			parts = append(parts, rangeText(ranges[i+1]), "…", rangeText(ranges[i+n-1]))
		}
		i += n
	}
	return strings.Join(parts, ",")
}

// rangesOf are the first and last ids of the set's ranges.
func rangesOf(set cpuset.Set) [][]int {
	var ranges [][]int
	for id := range set.All() {
		if n := len(ranges); n > 0 && ranges[n-1][1] == id-1 {
			ranges[n-1][1] = id
			continue
		}
		ranges = append(ranges, []int{id, id})
	}
	return ranges
}

func rangeText(r []int) string {
	if r[0] == r[1] {
		return strconv.Itoa(r[0])
	}
	return strconv.Itoa(r[0]) + "-" + strconv.Itoa(r[1])
}

// progression is how many of n elements are evenly spaced from the first one on. same
// reports whether the step after element a is the step after element b.
func progression(n int, same func(a, b int) bool) int {
	if n < 2 {
		return n
	}
	length := 2
	for length < n && same(0, length-1) {
		length++
	}
	return length
}

// maxRuns is how many different pieces of a list of cores are printed.
const maxRuns = 6

// cores prints how many cores there are and, where cores have several threads, which
// CPUs are siblings: "32 of 2 threads (0+64 … 31+95)". On hybrid machines every size
// of core is one entry.
func cores(units []machine.Unit) string {
	bySize := map[int][][]int{}
	var sizes []int
	for _, u := range units {
		if bySize[u.Size] == nil {
			sizes = append(sizes, u.Size)
		}
		bySize[u.Size] = append(bySize[u.Size], u.CPUs.IDs())
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	var parts []string
	for i, size := range sizes {
		text := strconv.Itoa(len(bySize[size]))
		if size > 1 || len(sizes) > 1 {
			text += " of " + strconv.Itoa(size)
			if i == 0 {
				text += Plural(size, " thread")
			}
			text += " (" + siblings(bySize[size]) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// siblings lists cores of one size; runs of cores in the same pattern are shortened to
// the first and the last.
func siblings(list [][]int) string {
	if len(list[0]) == 1 {
		var b cpuset.Builder
		for _, core := range list {
			b.Add(core[0])
		}
		return CPUs(b.Set())
	}
	var parts []string
	runs := 0
	for i := 0; i < len(list); runs++ {
		if runs == maxRuns {
			return strings.Join(append(parts, "and "+strconv.Itoa(len(list)-i)+" more"), " ")
		}
		n := progression(len(list)-i, func(a, b int) bool {
			return slices.Equal(step(list[i+a], list[i+a+1]), step(list[i+b], list[i+b+1]))
		})
		if n < 3 {
			n = 1
		}
		parts = append(parts, core(list[i]))
		if n > 1 {
			parts = append(parts, "…", core(list[i+n-1]))
		}
		i += n
	}
	return strings.Join(parts, " ")
}

func step(from, to []int) []int {
	steps := make([]int, len(from))
	for i := range from {
		steps[i] = to[i] - from[i]
	}
	return steps
}

// core prints the threads of one core: "0+64", or "0-3" if there are more than two in
// a row.
func core(threads []int) string {
	last := len(threads) - 1
	if last > 1 && threads[last]-threads[0] == last {
		return strconv.Itoa(threads[0]) + "-" + strconv.Itoa(threads[last])
	}
	words := make([]string, len(threads))
	for i, t := range threads {
		words[i] = strconv.Itoa(t)
	}
	return strings.Join(words, "+")
}

// Count is a number with what it counts: "1 CPU", "3 CPUs".
func Count(n int, word string) string { return strconv.Itoa(n) + " " + Plural(n, word) }

// Number is a number for reading: "2,620".
func Number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Plural adds an s to a word unless there is one of what it names.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
