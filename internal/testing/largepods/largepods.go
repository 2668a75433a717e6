// Package largepods generates fleets whose pods are large compared with a NUMA node: pods of 8 to
// 96 CPUs with 0 to 8 GPUs, on NUMA nodes with 62 to 96 CPUs for pods. On such nodes it matters
// which pods share a NUMA node, because what a large pod leaves over is often too small for any
// other.
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

// drawn is what is drawn for a fleet: a kind of node with so many cores and GPUs, and its pods.
type drawn struct {
	cores, numa, gpus, pods int // cores of a NUMA node, with two threads each
	policy                  string
	shapes                  []shape
}

// drawFleet draws a fleet with about so many pods.
func drawFleet(seed uint64, pods int) drawn {
	random := rand.New(rand.NewPCG(seed, 48)) //nolint:gosec // Repeatable, not secret.
	d := drawn{numa: 2 << random.IntN(2), cores: 32 + random.IntN(17), gpus: 8, pods: pods, policy: policies[seed%uint64(len(policies))]}
	d.shapes = draw(random, pods, d.cores*2, d.gpus, d.numa, d.policy)
	return d
}

// entry returns the kind of node as an entry of a file of nodes.
func (d *drawn) entry(name, kubelet string) string {
	return fmt.Sprintf("- {name: %s, count: %d, make: \"sockets=2,cores=%d,threads=2,numa=%d,memory=%dGi,gpus=%d\", kubeletConfig: %s}\n",
		name, max(1, d.pods/4), d.cores*d.numa/2, d.numa, d.cores*2*d.numa*8, d.gpus, kubelet)
}

// kubeletConfig returns the KubeletConfiguration of the nodes.
func (d *drawn) kubeletConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
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
`, d.policy, d.cores*d.numa)
}

// New returns a fleet with about so many pods.
func New(seed uint64, pods int) Fleet {
	d := drawFleet(seed, pods)
	return Fleet{Nodes: nodesHeader + d.entry("large", KubeletName), KubeletConfig: d.kubeletConfig(), Pods: table(d.shapes)}
}

const nodesHeader = "nodes:\n"

// table returns shapes as a CSV file.
func table(shapes []shape) string {
	var text strings.Builder
	text.WriteString("cpu,memory_gib,gpu,count\n")
	for _, s := range shapes {
		fmt.Fprintf(&text, "%d,%d,%d,%d\n", s.cpus, s.gib, s.gpus, s.count)
	}
	return text.String()
}

// WriteMixed writes a fleet of several kinds into a directory: the kinds of the fleets with the
// seeds from seed on, in equal shares, and the pods of all of them, about so many in all. The files
// of nodes and pods have the names that Write gives them.
func WriteMixed(dir string, seed uint64, kinds, pods int) error {
	files, nodes, shapes := map[string]string{}, nodesHeader, []shape(nil)
	for k := range kinds {
		d, kubelet := drawFleet(seed+uint64(k), pods/kinds), fmt.Sprintf("kubelet-%d.yaml", k+1)
		files[kubelet] = d.kubeletConfig()
		nodes += d.entry(fmt.Sprintf("large-%d", k+1), kubelet)
		shapes = append(shapes, d.shapes...)
	}
	files[NodesName], files[PodsName] = nodes, table(shapes)
	return write(dir, files)
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
	return write(dir, map[string]string{NodesName: f.Nodes, KubeletName: f.KubeletConfig, PodsName: f.Pods})
}

func write(dir string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil { //nolint:forbidigo // Inputs of a command, not state.
			return err
		}
	}
	return nil
}
