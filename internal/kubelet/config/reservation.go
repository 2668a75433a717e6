package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// reservation is what the node reserves for the system: kubeReserved, systemReserved and the hard
// eviction threshold of memory (R-MEM-2).
type reservation struct {
	kube, system map[string]resource.Quantity
	eviction     resource.Quantity
	// evictionGiven is false if the threshold is the kubelet's default.
	evictionGiven bool
	// known is false if a part was rejected. The sums would then be misleading.
	known bool
}

// signalMemory is the only eviction signal that is used here. defaultMemory is its threshold if
// evictionHard is not set.
const (
	signalMemory  = "memory.available"
	defaultMemory = "100Mi"
)

// evictionSignals are the valid signals of evictionHard.
var evictionSignals = []string{
	signalMemory, "allocatableMemory.available", "containerfs.available", "containerfs.inodesFree",
	"imagefs.available", "imagefs.inodesFree", "nodefs.available", "nodefs.inodesFree", "pid.available",
}

func (r *resolution) reservation() *reservation {
	before := len(r.problems)
	res := &reservation{
		kube:     r.reservedList("kubeReserved", "--kube-reserved", r.spec.KubeReserved),
		system:   r.reservedList("systemReserved", "--system-reserved", r.spec.SystemReserved),
		eviction: r.evictionMemory(),
	}
	_, res.evictionGiven = r.spec.EvictionHard[signalMemory]
	res.known = len(r.problems) == before
	if !res.known {
		return res
	}
	// Reject reservations that are larger than the machine. The kubelet rejects them when it
	// enforces Node Allocatable. The CPUs of the static policy are checked when they are chosen.
	r.within(res, machine.Memory, resource.NewQuantity(r.memoryCapacity(), resource.BinarySI))
	if r.spec.CPUManagerPolicy != "static" && r.spec.ReservedSystemCPUs == "" {
		r.within(res, "cpu", resource.NewQuantity(int64(r.machine.NumCPUs()), resource.DecimalSI))
	}
	return res
}

// reservedList parses kubeReserved or systemReserved.
func (r *resolution) reservedList(field, flag string, list map[string]string) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := field + "[" + name + "]"
		reject := func(why, fix, sentence string) {
			r.reject(Problem{Field: at, Why: why, Fix: fix, Kubelet: flag + " value failed to parse: " + sentence})
		}
		if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, name) {
			reject(fmt.Sprintf("%s cannot be reserved in this way", name),
				"use cpu, memory, ephemeral-storage or pid", fmt.Sprintf("cannot reserve %q resource", name))
			continue
		}
		q, err := resource.ParseQuantity(list[name])
		switch {
		case err != nil:
			reject(fmt.Sprintf("%q is not an amount", list[name]), "write it like 500m, 2 or 1Gi", err.Error())
		case q.Sign() < 0:
			reject(fmt.Sprintf("%s is negative", list[name]), "give a positive amount",
				fmt.Sprintf("resource quantity for %q cannot be negative: %s", name, list[name]))
		default:
			out[name] = q
		}
	}
	return out
}

// evictionMemory returns the hard eviction threshold of memory in bytes. If evictionHard is set
// without this signal, there is no threshold, unless the defaults are to be merged in.
func (r *resolution) evictionMemory() resource.Quantity {
	given := r.spec.EvictionHard
	for _, signal := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(evictionSignals, signal) {
			r.reject(Problem{
				Field:   "evictionHard[" + signal + "]",
				Why:     "there is no such signal",
				Fix:     didYouMean(signal, slices.Clone(evictionSignals)),
				Kubelet: "unsupported eviction signal " + signal,
			})
		}
	}
	threshold, ok := given[signalMemory]
	if !ok {
		merge := r.spec.MergeDefaultEvictionSettings
		if given != nil && (merge == nil || !*merge) {
			return resource.Quantity{}
		}
		threshold = defaultMemory
	}
	if number, is := strings.CutSuffix(threshold, "%"); is {
		// Use the precision of the kubelet, because reservedMemory must match the result to the
		// byte. 0% and 100% disable the threshold.
		percent, err := strconv.ParseFloat(number, 32)
		switch {
		case err != nil || math.IsNaN(percent):
			r.rejectThreshold(fmt.Sprintf("%q is not a percentage", threshold), "")
		case percent < 0 || percent > 100:
			r.rejectThreshold(threshold+" lies outside 0% to 100%", "")
		case percent > 0 && percent < 100:
			share := float32(percent) / 100
			return *resource.NewQuantity(int64(float64(r.memoryCapacity())*float64(share)), resource.BinarySI)
		}
		return resource.Quantity{}
	}
	q, err := resource.ParseQuantity(threshold)
	if err != nil {
		r.rejectThreshold(fmt.Sprintf("%q is neither an amount nor a percentage", threshold), err.Error())
	} else if q.Sign() <= 0 {
		r.rejectThreshold(threshold+" is not above 0",
			fmt.Sprintf("eviction threshold %s must be positive: %s", signalMemory, threshold))
	}
	return q
}

func (r *resolution) rejectThreshold(why, sentence string) {
	r.reject(Problem{
		Field: "evictionHard[" + signalMemory + "]",
		Why:   why, Fix: "write it like 100Mi or 5%", Kubelet: sentence,
	})
}

// memoryCapacity returns the memory of all NUMA nodes in bytes.
func (r *resolution) memoryCapacity() int64 {
	var sum int64
	for _, n := range r.machine.Nodes() {
		sum += n.Memory
	}
	return sum
}

func (r *resolution) within(res *reservation, name string, have *resource.Quantity) {
	total := res.total(name)
	if total.Cmp(*have) <= 0 {
		return
	}
	r.reject(Problem{
		Field: "kubeReserved[" + name + "]",
		Why:   fmt.Sprintf("the node reserves %s, the machine has %s", res.explain(name), have),
		Fix:   "reserve less",
		Kubelet: fmt.Sprintf("invalid Node Allocatable configuration. Resource %q has a reservation of %s but capacity of %s. "+
			"Expected capacity >= reservation.", name, total.String(), have),
	})
}

// total returns the node's reservation of a resource.
func (res *reservation) total(name string) resource.Quantity {
	system := res.system[name]
	sum := system.DeepCopy() // Add would modify a fraction that is shared.
	sum.Add(res.kube[name])
	if name == machine.Memory {
		sum.Add(res.eviction)
	}
	return sum
}

// explain describes the total and its parts.
func (res *reservation) explain(name string) string {
	total, kube, system := res.total(name), res.kube[name], res.system[name]
	text := fmt.Sprintf("%s (kubeReserved %s + systemReserved %s", total.String(), kube.String(), system.String())
	if name == machine.Memory {
		text += " + evictionHard " + res.eviction.String()
		if !res.evictionGiven && !res.eviction.IsZero() {
			text += " by default"
		}
	}
	return text + ")"
}

func (res *reservation) fix(name string, want resource.Quantity) string {
	if name != machine.Memory {
		return "remove the entries: only memory can be reserved for the node, so huge pages cannot match"
	}
	if want.IsZero() {
		return "remove the entries, or reserve as much with kubeReserved or systemReserved"
	}
	return fmt.Sprintf("make the entries for memory of all NUMA nodes add up to %s", want.String())
}
