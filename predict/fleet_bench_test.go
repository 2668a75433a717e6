package predict_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paddock-project/paddock/predict"
)

// fleet returns nodes with two sockets of 32 cores and 12 to 20 running pods each, of random sizes:
// no two nodes have the same state. Half of them have no room for another pod of 8 CPUs.
func fleet(b *testing.B, by string, nodes int) (*predict.Policy, []*predict.Node) {
	b.Helper()
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 32, ThreadsPerCore: 2, Memory: 512 << 30}.Machine()
	if err != nil {
		b.Fatal(err)
	}
	p, err := predict.NewPolicy(m, predict.PolicySpec{
		DecidedBy: by, TopologyManagerPolicy: "single-numa-node", CPUManagerPolicy: "static", ReservedCPUs: "0,64",
		MemoryManagerPolicy: "Static", ReservedMemory: map[int]map[string]int64{0: {"memory": 1 << 30}},
	})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	out := make([]*predict.Node, nodes)
	for i := range out {
		if out[i], err = predict.NewNode(p, nil); err != nil {
			b.Fatal(err)
		}
		for k := range 12 + random.IntN(9) {
			r, err := predict.NewRequest(pod(fmt.Sprint("pod", i, "-", k), 1+random.Int64N(10), 1<<30+random.Int64N(8<<30)), p)
			if err != nil {
				b.Fatal(err)
			}
			out[i], _ = out[i].With(r)
		}
	}
	return p, out
}

// BenchmarkFleet asks 10, 1,000 and 5,000 nodes, each in another state, one after the other about
// one pod.
func BenchmarkFleet(b *testing.B) {
	for _, by := range []string{"", "kubelet-1.37"} {
		for _, nodes := range []int{10, 1000, 5000} {
			p, list := fleet(b, by, nodes)
			r := request(b, p, "new", 8)
			fits := 0
			for _, n := range list {
				if n.Admits(r).Fits {
					fits++
				}
			}
			b.Logf("%d of %d nodes take the pod", fits, nodes)
			b.Run(fmt.Sprint(cmp.Or(by, "paddock"), "/", nodes), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					list[i].Admits(r)
					if i++; i == len(list) {
						i = 0
					}
				}
			})
		}
	}
}
