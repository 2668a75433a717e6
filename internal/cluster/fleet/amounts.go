package fleet

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Amounts has what the scheduler counts for a pod or a node.
type Amounts struct {
	// Milli is CPU time in thousandths of a CPU. Memory is in bytes.
	Milli, Memory int64
	// Pods is 1 for a pod. For a node it is the largest number of pods.
	Pods int64
	// Others has huge pages in bytes and numbers of devices, ascending by resource. A node has
	// nothing of a resource that it does not list.
	Others request.Amounts
}

// DefaultPods is the largest number of pods per node if nothing else limits it, as in the kubelet
// (maxPods).
const DefaultPods = 110

// Plus returns the sum of a and b.
func (a Amounts) Plus(b Amounts) Amounts {
	a.Milli += b.Milli
	a.Memory += b.Memory
	a.Pods += b.Pods
	for _, o := range b.Others {
		had, _ := a.Others.Get(o.Resource)
		a.Others = a.Others.With(o.Resource, had+o.Value)
	}
	return a
}

// Equal reports whether two amounts are the same.
func (a Amounts) Equal(b Amounts) bool {
	return a.Milli == b.Milli && a.Memory == b.Memory && a.Pods == b.Pods && slices.Equal(a.Others, b.Others)
}

// appendKey appends a text that is the same for two amounts exactly if they are Equal, like
// request.Amounts.AppendKey.
func (a Amounts) appendKey(b []byte) []byte {
	return a.Others.AppendKey(fmt.Appendf(b, "%d %d %d ", a.Milli, a.Memory, a.Pods))
}

// Of returns the amount of a resource. CPUs are in thousandths.
func (a Amounts) Of(resource request.Resource) int64 {
	switch resource {
	case "pods":
		return a.Pods
	case request.CPU:
		return a.Milli
	case request.Memory:
		return a.Memory
	}
	n, _ := a.Others.Get(resource)
	return n
}

// short returns the first resource of which a node with these allocatable amounts has too little
// for b in addition to used. The order is pods, cpu, memory, others. It returns "" if there is
// enough of everything. A resource of which b requests nothing is never short, even on an
// overcommitted node, as in NodeResourcesFit.
func (a Amounts) short(used, b Amounts) request.Resource {
	switch {
	case used.Pods+b.Pods > a.Pods:
		return "pods"
	case b.Milli > 0 && used.Milli+b.Milli > a.Milli:
		return request.CPU
	case b.Memory > 0 && used.Memory+b.Memory > a.Memory:
		return request.Memory
	}
	for _, o := range b.Others {
		has, _ := a.Others.Get(o.Resource)
		took, _ := used.Others.Get(o.Resource)
		if o.Value > 0 && took+o.Value > has {
			return o.Resource
		}
	}
	return ""
}
