package fleet

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

func rows(t testing.TB, name string) []map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, row := range all[1:] {
		m := map[string]string{}
		for i, v := range row {
			m[all[0][i]] = v
		}
		out = append(out, m)
	}
	return out
}

func number(t testing.TB, row map[string]string, column string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(row[column], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// openb returns the nodes of the trace and its shapes of pods, as if all pods were Guaranteed with
// whole CPUs. Nodes with 32 CPUs or more have two NUMA nodes. GPUs are counted but not aligned.
func openb(t testing.TB, topology node.TopologyPolicy) (nodes []Node, shapes []Shape, pods []Pod) {
	t.Helper()
	for kind, row := range rows(t, "testdata/openb-2023-nodes.csv") {
		cpus, mib := int(number(t, row, "cpu_milli")/1000), number(t, row, "memory_mib")
		var m *machine.Machine
		if cpus >= 32 {
			m = hardware(t, mib<<19, (cpus/2+1)&^1, cpus-(cpus/2+1)&^1)
		} else {
			m = hardware(t, mib<<20, cpus)
		}
		for i := range number(t, row, "count") {
			n := member1(t, fmt.Sprintf("k%02d-%04d", kind, i), m, policyOf(topology, node.PodScope))
			n.Kind = fmt.Sprint("k", kind)
			n.Allocatable.Memory = mib<<20 - gib
			n.Allocatable.Others = request.Amounts{{Resource: "gpu-milli", Value: 1000 * number(t, row, "gpu")}}
			nodes = append(nodes, n)
		}
	}
	for _, row := range rows(t, "testdata/openb-2023-pods.csv") {
		cpus := int((number(t, row, "cpu_milli") + 999) / 1000)
		p := guaranteed("p", cpus, max(1, number(t, row, "memory_mib"))<<20)
		if gpus := number(t, row, "num_gpu"); gpus > 0 {
			p.Asks.Others = request.Amounts{{Resource: "gpu-milli", Value: gpus * number(t, row, "gpu_milli")}}
		}
		shapes = append(shapes, Shape{p, number(t, row, "count")})
		pods = append(pods, p)
	}
	return nodes, shapes, pods
}

// BenchmarkPacking fills the nodes of the trace with pods of its shapes, drawn with a seed, until
// no shape fits on any node. It reports the share of the allocatable CPUs that is placed: the mean
// of 10 seeds and half the width of its 95 % interval.
func BenchmarkPacking(b *testing.B) {
	for _, topology := range []node.TopologyPolicy{node.TopologySingleNUMANode, node.TopologyRestricted, node.TopologyBestEffort} {
		for _, scoring := range Scorings() {
			b.Run(fmt.Sprintf("policy=%s/scoring=%s", topology, scoring), func(b *testing.B) {
				nodes, shapes, pods := openb(b, topology)
				for range b.N {
					var shares []float64
					for seed := range uint64(10) {
						shares = append(shares, pack(b, scoring, nodes, shapes, pods, seed))
					}
					mean, half := interval(shares)
					b.ReportMetric(mean, "%cpus")
					b.ReportMetric(half, "±%cpus")
				}
			})
		}
	}
}

func interval(x []float64) (mean, half float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	var sum float64
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return mean, 2.262 * math.Sqrt(sum/float64(len(x)-1)/float64(len(x))) // Student's t, 9 degrees of freedom.
}

func pack(b *testing.B, scoring Scoring, nodes []Node, shapes []Shape, pods []Pod, seed uint64) float64 {
	f, err := New(NewRanking(scoring, nil), nodes)
	if err != nil {
		b.Fatal(err)
	}
	f.Weigh(shapes)
	random := rand.New(rand.NewPCG(seed, 1))
	var draw []int
	for i, s := range shapes {
		for range s.Count {
			draw = append(draw, i)
		}
	}
	ended := make([]bool, len(shapes))
	var placed, all int64
	for i := 0; len(draw) > 0; i++ {
		k := random.IntN(len(draw))
		shape := draw[k]
		if ended[shape] {
			draw[k] = draw[len(draw)-1]
			draw = draw[:len(draw)-1]
			continue
		}
		pod := pods[shape]
		pod.UID = fmt.Sprint("p", i)
		p, err := f.Fit(pod)
		if err != nil {
			b.Fatal(err)
		}
		if p.Node == "" {
			ended[shape] = true
			continue
		}
		placed += pod.Asks.Milli
	}
	for _, n := range nodes {
		all += n.Allocatable.Milli
	}
	return float64(placed) / float64(all) * 100
}
