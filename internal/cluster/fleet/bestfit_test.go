package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// requests returns pods whose amounts have no common divisor, as many kinds as asked for.
func requests(kinds int) (shapes []Shape) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range kinds {
		cpus, bytes := 1+random.IntN(32), (1+random.Int64N(60_000))<<20
		memory := request.Amounts{{Resource: request.Memory, Value: bytes}}
		shapes = append(shapes, Shape{Count: 1 + random.Int64N(100), Pod: Pod{
			Pod: request.Pod{Identity: request.Identity{UID: fmt.Sprint(i), Name: fmt.Sprint(i)}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
				Name: "c", Type: request.App, CPUs: cpus, Equivalent: true, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Memory: memory,
			}}}},
			Asks: Amounts{Milli: int64(cpus) * 1000, Memory: bytes, Pods: 1},
		}})
	}
	return shapes
}

// BenchmarkWeigh measures how long the first view of a kind of node takes, for which the typical
// requests are weighed. Other views of the ranking wait for it.
func BenchmarkWeigh(b *testing.B) {
	s, err := node.New(hardware(b, 64*gib, 32, 32), policyOf(node.TopologySingleNUMANode, node.PodScope))
	if err != nil {
		b.Fatal(err)
	}
	for _, kinds := range []int{0, 10, 100, 1000, 5000} {
		shapes := requests(kinds)
		b.Run(fmt.Sprint("kinds=", kinds), func(b *testing.B) {
			for b.Loop() {
				NewRanking(BestFit, shapes).View(Node{Name: "n", State: s, Allocatable: Amounts{Milli: 62_000, Memory: 126 * gib, Pods: 110}})
			}
		})
	}
}

// TestBestFitOfAmountsThatComeLater checks that a node whose amounts are not known at first, as
// those of a scheduler are, and a node that has pods at first cost what others cost.
func TestBestFitOfAmountsThatComeLater(t *testing.T) {
	s, err := node.New(hardware(t, 64*gib, 32, 32), policyOf(node.TopologySingleNUMANode, node.PodScope))
	if err != nil {
		t.Fatal(err)
	}
	has := Amounts{Milli: 62_000, Memory: 126 * gib, Pods: 110}
	for _, kinds := range []int{0, 5} {
		shapes := requests(8)
		r := NewRanking(BestFit, shapes[:kinds])
		known := r.View(Node{Name: "known", State: s, Allocatable: has})
		late := r.View(Node{Name: "late", State: s}).With(has, Amounts{})
		costs := map[Cost]bool{}
		for i := range shapes {
			pod := shapes[i].Pod
			expected, got := known.Ask(&pod), late.Ask(&pod)
			if expected != got || !expected.Fits {
				t.Errorf("%d typical requests, pod %d: %+v if the amounts come later, expected %+v", kinds, i, got, expected)
			}
			costs[got.Cost] = true
			with, _, err := known.Place(pod)
			if err != nil {
				t.Fatal(err)
			}
			again := r.View(with.Node)
			for k := range shapes {
				other := shapes[k].Pod
				other.UID += "-other"
				if expected, got := with.Ask(&other), again.Ask(&other); expected != got {
					t.Errorf("%d typical requests, pod %d beside pod %d: %+v on a node that had it at first, expected %+v", kinds, k, i, got, expected)
				}
			}
		}
		if len(costs) < len(shapes)/2 {
			t.Errorf("%d typical requests: %d pods have only %d costs", kinds, len(shapes), len(costs))
		}
	}
}
