package explain_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestReportAddsUp: every CPU and every byte is counted once.
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

// TestLargestIsLargest compares with all numbers of CPUs.
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
			if l.CPUs != want {
				d.fatalf("%s: %d CPUs with %d bytes, and %d with %d are admitted", l.Policy, l.CPUs, l.Memory, want, with)
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

// largest tries every number of CPUs with 1 MiB, and with just more than the largest NUMA node, the
// two largest, … could ever have.
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
