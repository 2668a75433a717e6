package cpuset_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// BenchmarkOperations uses two sets of a machine with 256 CPUs, a common size of Kubernetes nodes.
func BenchmarkOperations(b *testing.B) {
	odd := cpuset.Builder{}
	for id := 1; id < 256; id += 2 {
		odd.Add(id)
	}
	low, scattered := cpuset.Range(0, 127), odd.Set()
	list, ranges := scattered.String(), low.String()
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Union", func() { low.Union(scattered) }},
		{"Intersection", func() { low.Intersection(scattered) }},
		{"Difference", func() { low.Difference(scattered) }},
		{"IntersectionLen", func() { low.IntersectionLen(scattered) }},
		{"Contains", func() { low.Contains(scattered) }},
		{"Len", func() { scattered.Len() }},
		{"All", func() {
			for range scattered.All() {
			}
		}},
		{"StringOfRanges", func() { _ = low.String() }},
		{"StringOfSingles", func() { _ = scattered.String() }},
		{"ParseRanges", func() { _, _ = cpuset.Parse(ranges) }},
		{"ParseSingles", func() { _, _ = cpuset.Parse(list) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.run()
			}
		})
	}
}

// BenchmarkParseHostile repeats the longest range. The cost per byte of text must remain small.
func BenchmarkParseHostile(b *testing.B) {
	text := strings.Repeat("0-65535,", 10000) + "0"
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := cpuset.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
