package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// minEven is the smallest number of evenly spaced ids for which CPUs shortens the list.
const minEven = 6

// CPUs formats a set for reading. It is a cpuset in which longer rows of evenly spaced ids, or of
// ranges of the same length, are shortened to "0,2,…,62" or "0-1,4-5,…,60-61".
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

// rangesOf returns the first and last ids of the set's ranges.
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

// progression returns how many of n elements, counted from the first, are evenly spaced. same
// reports whether the step after element a equals the step after element b.
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

// maxRuns is the largest number of different runs of cores that are printed.
const maxRuns = 6

// cores returns the number of cores and, if cores have several threads, which CPUs are siblings:
// "32 of 2 threads (0+64 … 31+95)". On hybrid machines each core size is a separate entry.
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

// siblings lists cores of one size. Runs of cores in the same pattern are shortened to the first
// and the last core.
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

// core formats the threads of one core: "0+64", or "0-3" if it has more than two consecutive
// threads.
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

// Count formats a number with the thing that it counts: "1 CPU", "3 CPUs".
func Count(n int, word string) string { return strconv.Itoa(n) + " " + Plural(n, word) }

// Number formats a number for reading: "2,620".
func Number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Plural returns the word with an s, or without it if n is 1.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
