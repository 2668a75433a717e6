package config

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// memory resolves the Memory Manager's policy and its reservations (R-MEM-1…6).
func (r *resolution) memory(reserved *reservation) {
	byNode := r.reservedMemory()
	switch given := r.spec.MemoryManagerPolicy; given {
	case "", "None":
		if len(r.spec.ReservedMemory) > 0 {
			r.warn("reservedMemory", "it has no effect under memoryManagerPolicy None")
		}
		return
	case "Static":
		r.policy.StaticMemory = true
	case "BestEffort":
		r.reject(Problem{
			Field:   "memoryManagerPolicy",
			Why:     "the policy BestEffort exists on Windows alone",
			Fix:     "use None or Static",
			Kubelet: `policy "BestEffort" is not available for platform "linux"`,
		})
		return
	default:
		r.reject(Problem{
			Field:   "memoryManagerPolicy",
			Why:     fmt.Sprintf("there is no policy %q", given),
			Fix:     didYouMean(given, []string{"None", "Static"}),
			Kubelet: fmt.Sprintf("unknown policy: %q", given),
		})
		return
	}
	if byNode == nil {
		return
	}
	exist := true
	for _, numa := range slices.Sorted(maps.Keys(byNode)) {
		if _, ok := r.machine.Node(numa); ok {
			continue
		}
		exist = false
		r.reject(Problem{
			Field:   "reservedMemory",
			Why:     fmt.Sprintf("the machine has no NUMA node %d; it has %s", numa, r.machine.NodeMask()),
			Fix:     "reserve on NUMA nodes that are there",
			Kubelet: fmt.Sprintf("the reserved memory configuration references a NUMA node %d that does not exist on this machine", numa),
		})
	}
	if exist && reserved.known {
		r.sumsMatch(byNode, reserved)
	}
	r.nodesSuffice(byNode)
	r.policy.ReservedMemory = byNode
}

// reservedMemory parses the entries. It validates them whatever the policy is (R-MEM-3, R-MEM-5).
// It returns bytes by NUMA node and type, or nil if an entry is rejected.
func (r *resolution) reservedMemory() map[int]map[string]int64 {
	byNode, sound := map[int]map[string]int64{}, true
	for i, entry := range r.spec.ReservedMemory {
		numa := int(entry.NumaNode)
		if byNode[numa] == nil {
			byNode[numa] = map[string]int64{}
		}
		for _, name := range slices.Sorted(maps.Keys(entry.Limits)) {
			field := fmt.Sprintf("reservedMemory[%d].limits[%s]", i, name)
			_, twice := byNode[numa][string(name)]
			bytes, problem := reservedBytes(numa, string(name), entry.Limits[name], twice)
			if problem != nil {
				problem.Field = field
				r.reject(*problem)
				sound = false
				continue
			}
			byNode[numa][string(name)] = bytes
		}
	}
	if !sound {
		return nil
	}
	return byNode
}

func reservedBytes(numa int, name string, q resource.Quantity, twice bool) (int64, *Problem) {
	bytes, exact := q.AsInt64()
	switch {
	case !request.IsMemory(name):
		return 0, &Problem{
			Why: fmt.Sprintf("%q is not a type of memory", name),
			Fix: "use memory or a huge page size such as hugepages-2Mi",
			Kubelet: fmt.Sprintf("invalid configuration: the limit type %q for NUMA node %d is not supported, "+
				"only [memory hugepages-<HugePageSize>] is accepted", name, numa),
		}
	case q.IsZero():
		return 0, &Problem{
			Why:     "an entry of zero is not accepted",
			Fix:     "remove it",
			Kubelet: fmt.Sprintf("invalid configuration: reserved memory may not be zero for NUMA node %d and resource %q", numa, name),
		}
	case twice:
		return 0, &Problem{
			Why:     fmt.Sprintf("NUMA node %d has an entry for %s already", numa, name),
			Fix:     "keep one of the two",
			Kubelet: fmt.Sprintf("invalid configuration: the reserved memory has a duplicate value for NUMA node %d and resource %q", numa, name),
		}
	case q.Sign() < 0:
		return 0, &Problem{Why: fmt.Sprintf("%s is negative", q.String()), Fix: "give a positive amount"}
	case exact:
		return bytes, nil
	}
	// The kubelet rejects an amount that is written with a fraction: it rejects 1.5Gi, although
	// that is a whole number of bytes, and accepts 1536Mi.
	text := request.Bytes(q.Value())
	fix := "write " + text
	again, err := resource.ParseQuantity(text)
	_, exact = again.AsInt64() // This must be first, because Cmp may change how a Quantity is stored.
	switch {
	case err != nil || again.Cmp(q) != 0:
		fix = "give whole bytes"
	case !exact:
		fix = "reserve less"
	}
	return 0, &Problem{
		Why:     fmt.Sprintf("%s is not taken as a whole number of bytes", q.String()),
		Fix:     fix,
		Kubelet: "could not covert a variable of type Quantity to int64",
	}
}

// sumsMatch compares the sums of the NUMA nodes' reservations with the reservation of the node
// (R-MEM-4, R-MEM-6).
func (r *resolution) sumsMatch(byNode map[int]map[string]int64, reserved *reservation) {
	sums := map[string]*resource.Quantity{machine.Memory: resource.NewQuantity(0, resource.BinarySI)}
	for _, limits := range byNode {
		for name, bytes := range limits {
			if sums[name] == nil {
				sums[name] = resource.NewQuantity(0, resource.BinarySI)
			}
			sums[name].Add(*resource.NewQuantity(bytes, resource.BinarySI))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		want := reserved.total(name)
		if sum := sums[name]; sum.Cmp(want) != 0 {
			r.reject(Problem{
				Field: "reservedMemory",
				Why:   fmt.Sprintf("its entries for %s add up to %s, but the node reserves %s", name, sum, reserved.explain(name)),
				Fix:   reserved.fix(name, want),
				Kubelet: fmt.Sprintf("the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature",
					sum, name, want.String()),
			})
		} else if name == machine.Memory && sum.IsZero() {
			r.reject(Problem{
				Field:   "reservedMemory",
				Why:     "memoryManagerPolicy Static needs memory for the system, and none is reserved",
				Fix:     "reserve memory with kubeReserved, systemReserved or evictionHard, and the same sum with reservedMemory",
				Kubelet: "[memorymanager] you should specify the system reserved memory",
			})
		}
	}
}

// nodesSuffice rejects reservations that exceed the capacity of a NUMA node. The kubelet does not
// check this and computes a huge free amount.
func (r *resolution) nodesSuffice(byNode map[int]map[string]int64) {
	for _, numa := range slices.Sorted(maps.Keys(byNode)) {
		n, ok := r.machine.Node(numa)
		if !ok {
			continue
		}
		have := capacities(n)
		for _, name := range slices.Sorted(maps.Keys(byNode[numa])) {
			want := byNode[numa][name]
			if want <= have[name] {
				continue
			}
			why := fmt.Sprintf("%s of %s is reserved on NUMA node %d, which has %s",
				request.Bytes(want), name, numa, request.Bytes(max(0, have[name])))
			if name == machine.Memory && have[name] < n.Memory {
				why += " beside its huge pages"
			}
			r.reject(Problem{Field: "reservedMemory", Why: why, Fix: "reserve less there, and more on other NUMA nodes"})
		}
	}
}

// capacities returns the bytes of each type on a NUMA node. Memory is what the huge pages leave
// (R-MEM-11).
func capacities(n machine.Node) map[string]int64 {
	have := map[string]int64{machine.Memory: n.Memory}
	for _, p := range n.HugePages {
		bytes := p.SizeKiB * 1024 * p.Count
		have[machine.HugePageType(p.SizeKiB)] = bytes
		have[machine.Memory] -= bytes
	}
	return have
}
