// Package largepods generates fleets whose pods are large beside a NUMA node: of 8 to 96 CPUs with
// 0 to 8 GPUs, on NUMA nodes with 62 to 96 CPUs for pods. On such nodes it matters which pods share
// a NUMA node, because what a large pod leaves over is often too small for any other.
//
// The same seed and number of pods give the same fleet. The files are inputs of `paddock fleet`.
package largepods

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fleet is a kind of node and pods, as the texts of files.
type Fleet struct {
	// Nodes is a file of nodes. It refers to KubeletConfig by the name KubeletName.
	Nodes, KubeletConfig string
	// Pods is a CSV file of shapes.
	Pods string
}

// The names that Write gives to the files.
const (
	NodesName   = "nodes.yaml"
	KubeletName = "kubelet.yaml"
	PodsName    = "pods.csv"
)

// shape is a pod that occurs count times.
type shape struct{ cpus, gib, gpus, count int }

// sizes are the CPUs of pods.
var sizes = []int{8, 12, 16, 20, 24, 30, 32, 40, 44, 48, 48, 56, 60, 64, 64, 72, 80, 90, 96}

// The policies of the kubelets. Under restricted, a pod that is larger than every NUMA node gets
// several.
var policies = []string{"single-numa-node", "restricted", "single-numa-node"}

// New returns a fleet with about so many pods.
func New(seed uint64, pods int) Fleet {
	random := rand.New(rand.NewPCG(seed, 48)) //nolint:gosec // Repeatable, not secret.
	numa := 2 << random.IntN(2)
	cores := 32 + random.IntN(17) // of a NUMA node, with two threads each
	gpus := 8
	policy := policies[seed%uint64(len(policies))]
	var f Fleet
	f.Nodes = fmt.Sprintf("nodes:\n- {name: large, count: %d, make: \"sockets=2,cores=%d,threads=2,numa=%d,memory=%dGi,gpus=%d\", kubeletConfig: %s}\n",
		max(1, pods/4), cores*numa/2, numa, cores*2*numa*8, gpus, KubeletName)
	f.KubeletConfig = fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: %s
topologyManagerScope: pod
cpuManagerPolicy: static
memoryManagerPolicy: Static
reservedSystemCPUs: "0,%d"
systemReserved: {memory: 3996Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory:
- {numaNode: 0, limits: {memory: 4Gi}}
`, policy, cores*numa)
	var text strings.Builder
	text.WriteString("cpu,memory_gib,gpu,count\n")
	for _, s := range draw(random, pods, cores*2, gpus, numa, policy) {
		fmt.Fprintf(&text, "%d,%d,%d,%d\n", s.cpus, s.gib, s.gpus, s.count)
	}
	f.Pods = text.String()
	return f
}

// draw draws 8 to 31 shapes, most of which a node with NUMA nodes of this many CPUs takes, and
// divides the pods among them.
func draw(random *rand.Rand, pods, numaCPUs, gpus, numa int, policy string) []shape {
	var shapes []shape
	for len(shapes) < 8+random.IntN(24) {
		s := shape{cpus: sizes[random.IntN(len(sizes))]}
		single := s.cpus <= numaCPUs
		if !single && policy == "single-numa-node" {
			s.cpus, single = numaCPUs-numaCPUs%8, true
		}
		s.gib = min(s.cpus*[]int{2, 4, 4, 6, 8}[random.IntN(5)], numaCPUs*8-8)
		switch random.IntN(3) {
		case 0:
			s.gpus = min(1<<random.IntN(4), gpus/numa)
		case 1:
			s.gpus = random.IntN(gpus/numa + 1)
		}
		if !single { // Policy restricted takes it if everything that it asks for needs two NUMA nodes.
			s.gib, s.gpus = s.cpus*8, 2*gpus/numa
		}
		if slices.ContainsFunc(shapes, func(t shape) bool { return t.cpus == s.cpus && t.gib == s.gib && t.gpus == s.gpus }) {
			continue
		}
		shapes = append(shapes, s)
	}
	for range pods { // The first shapes occur more often.
		shapes[min(random.IntN(len(shapes)), random.IntN(len(shapes)))].count++
	}
	return shapes
}

// Write writes the files into a directory.
func (f Fleet) Write(dir string) error {
	for name, text := range map[string]string{NodesName: f.Nodes, KubeletName: f.KubeletConfig, PodsName: f.Pods} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil { //nolint:forbidigo // Inputs of a command, not state.
			return err
		}
	}
	return nil
}
