package explain_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// TestReportAddsUp checks that every CPU and every byte is counted once.
func TestReportAddsUp(t *testing.T) {
	setChecks(t, "300")
	rapid.Check(t, func(t *rapid.T) {
		d := drawNode(t)
		s := d.n.State()
		r := reported(t, s)
		free := 0
		for _, n := range r.Nodes {
			c := n.CPUs
			if sum := c.Exclusive + c.Pooled + c.Idle + c.Reserved + c.Free; r.ManagesCPUs && sum != c.Total {
				d.fatalf("NUMA node %d: %+v adds up to %d", n.Node, c, sum)
			}
			free += c.Free
			for _, m := range n.Memory {
				if sum := m.Exclusive + m.Pooled + m.Reserved + m.Free; sum != m.Total {
					d.fatalf("NUMA node %d: %+v adds up to %d", n.Node, m, sum)
				}
			}
		}
		if free != s.AvailableCPUs().Len() {
			d.fatalf("%d CPUs are free, and the report has %d", s.AvailableCPUs().Len(), free)
		}
	})
}

// TestLargestIsLargest compares Usage with a search over all numbers of CPUs, on larger nodes.
func TestLargestIsLargest(t *testing.T) {
	setChecks(t, "100")
	rapid.Check(t, func(t *rapid.T) {
		d := drawNode(t)
		s := d.n.State()
		if !s.Policy().StaticCPU {
			return
		}
		for _, l := range reported(t, s).Largest {
			if !l.Now {
				continue
			}
			want, with := largest(s)
			if l.CPUs < want {
				d.fatalf("%s: %d CPUs with %d bytes, and %d with %d are admitted", l.Policy, l.CPUs, l.Memory, want, with)
			}
			if l.CPUs > 0 && s.Plan(oneContainer(s, int64(l.CPUs), l.Memory)).Rejection != nil {
				d.fatalf("%s: %d CPUs with %d bytes are rejected", l.Policy, l.CPUs, l.Memory)
			}
			if l.Bytes > 0 && s.Plan(oneContainer(s, 0, l.Bytes)).Rejection != nil {
				d.fatalf("%s: %d bytes are refused", l.Policy, l.Bytes)
			}
			if l.Share > 0 && s.Plan(oneContainer(s, int64(l.Share), l.ShareBytes)).Rejection != nil {
				d.fatalf("%s: %d CPUs with %d bytes are refused", l.Policy, l.Share, l.ShareBytes)
			}
		}
	})
}

// largest tries every number of CPUs with 1 MiB of memory, and with slightly more than the largest
// NUMA node, the two largest, and so on could ever have.
func largest(s *node.State) (cpus int, bytes int64) {
	var sizes []int64
	for _, n := range s.Memory().Capacity().Nodes() {
		sizes = append(sizes, n.Types[0].Allocatable)
	}
	slices.Sort(sizes)
	amounts := []int64{mib}
	var sum int64
	for _, size := range slices.Backward(sizes) {
		sum += size
		amounts = append(amounts, sum-sum%mib+mib)
	}
	for n := s.AvailableCPUs().Len(); n > 0; n-- {
		for _, b := range amounts {
			if s.Plan(oneContainer(s, int64(n), b)).Rejection == nil {
				return n, b
			}
		}
	}
	return 0, 0
}

// TestLargestAgainstEveryAmount compares Usage with every number of CPUs and every amount of
// memory, on nodes that are small enough to plan all of them.
func TestLargestAgainstEveryAmount(t *testing.T) {
	setChecks(t, "300")
	open := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawTiny(t)
		for _, l := range reported(t, d.n.State()).Largest {
			if !l.Now {
				continue
			}
			if l.MoreCPUs || l.MoreBytes || l.MoreShare {
				open++
			}
			d.checkLargest(&l)
		}
	})
	if open > 0 {
		t.Errorf("%d searches ended at their bound on tiny nodes", open)
	}
}

func (d *drawn) checkLargest(l *explain.Largest) {
	s := d.n.State()
	admits := func(cpus, bytes int64) bool { return s.Plan(oneContainer(s, cpus, bytes)).Rejection == nil }
	free, each := int64(0), int64(0)
	for _, n := range s.Memory().Nodes() {
		free += n.Free[0]
	}
	if l.Share > 0 {
		each = l.ShareBytes / int64(l.Share)
	}
	var cpus, share, most, least int64
	for n := int64(1); n <= int64(s.AvailableCPUs().Len()); n++ {
		for bytes := mib; bytes <= free; bytes += mib {
			if admits(n, bytes) {
				cpus, least = n, bytes
				break
			}
		}
		if each > 0 && admits(n, n*each) {
			share = n
		}
	}
	for bytes := mib; bytes <= free; bytes += mib {
		if admits(0, bytes) {
			most = bytes
		}
	}
	if int64(l.CPUs) != cpus || l.Memory != least {
		d.fatalf("%d CPUs with %d bytes are the most, want %d with %d", l.CPUs, l.Memory, cpus, least)
	}
	if l.Bytes != most || int64(l.Share) != share {
		d.fatalf("%d bytes and %d CPUs in proportion are the most, want %d and %d", l.Bytes, l.Share, most, share)
	}
}

const mib = int64(1) << 20

func oneContainer(s *node.State, cpus, bytes int64) request.Pod {
	pod := simple("largest", cpus, bytes)
	if cpus == 0 {
		pod.Containers[0].Sharing = request.FractionalCPU
	}
	if !s.Policy().StaticMemory {
		pod.Containers[0].Memory = request.Amounts{{Resource: machine.Memory, Value: mib}}
	}
	return pod
}
