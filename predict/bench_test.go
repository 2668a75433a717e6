package predict_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/predict"
)

// busy returns a node with a number of containers that have a CPU of their own, on a machine with
// two sockets that has twice as many CPUs, and a request.
func busy(b *testing.B, by string, containers int) (*predict.Node, *predict.Policy) {
	b.Helper()
	cores := max(32, containers)
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: min(cores, predict.MaxCPUs/2), ThreadsPerCore: 1, Memory: 4 << 40}.Machine()
	if err != nil {
		b.Fatal(err)
	}
	p, err := predict.NewPolicy(m, predict.PolicySpec{
		DecidedBy: by, TopologyManagerPolicy: "single-numa-node", CPUManagerPolicy: "static", ReservedCPUs: "0",
		MemoryManagerPolicy: "Static", ReservedMemory: map[int]map[string]int64{0: {"memory": 1 << 30}},
	})
	if err != nil {
		b.Fatal(err)
	}
	n, err := predict.NewNode(p, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range containers {
		var v predict.Verdict
		if n, v = n.With(request(b, p, fmt.Sprint("pod", i), 1)); !v.Fits {
			b.Fatal(v.Message)
		}
	}
	return n, p
}

func request(b *testing.B, p *predict.Policy, uid string, cpus int64) *predict.Request {
	b.Helper()
	r, err := predict.NewRequest(pod(uid, cpus, 256<<20), p)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkAdmits and BenchmarkPlan ask about a pod beside 10, 1,000 and 5,000 containers.
func BenchmarkAdmits(b *testing.B) {
	each(b, func(n *predict.Node, r *predict.Request) { n.Admits(r) })
}

func BenchmarkPlan(b *testing.B) {
	each(b, func(n *predict.Node, r *predict.Request) { n.Plan(r) })
}

func each(b *testing.B, question func(*predict.Node, *predict.Request)) {
	for _, by := range []string{"", "kubelet-1.37"} {
		for _, containers := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprint(cmp.Or(by, "paddock"), "/", containers), func(b *testing.B) {
				n, p := busy(b, by, containers)
				r, large := request(b, p, "new", 4), request(b, p, "large", 9000)
				if n.Admits(large).Fits || !n.Admits(r).Fits {
					b.Fatal("the small pod fits, and the large one does not")
				}
				b.Run("fits", func(b *testing.B) {
					for b.Loop() {
						question(n, r)
					}
				})
				b.Run("rejected", func(b *testing.B) {
					for b.Loop() {
						question(n, large)
					}
				})
			})
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	_, p := busy(b, "", 10)
	for b.Loop() {
		request(b, p, "new", 4)
	}
}

// BenchmarkBatch asks a node with 1,000 containers about 1, 100 and 1,000 pods.
func BenchmarkBatch(b *testing.B) {
	n, p := busy(b, "", 1000)
	for _, questions := range []int{1, 100, 1000} {
		var list []*predict.Request
		for i := range questions {
			list = append(list, request(b, p, fmt.Sprint("new", i), int64(1+i%8)))
		}
		b.Run(fmt.Sprint("AdmitsEach/", questions), func(b *testing.B) {
			for b.Loop() {
				n.AdmitsEach(list)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*questions), "ns/question")
		})
		b.Run(fmt.Sprint("Fill/", questions), func(b *testing.B) {
			for b.Loop() {
				n.Fill(list)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*questions), "ns/question")
		})
	}
}
