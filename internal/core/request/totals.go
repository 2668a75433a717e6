package request

import (
	"fmt"
	"slices"
)

// Totals has what schedulers and kubelets count for a pod or a node, whichever CPUs and memory it
// has.
type Totals struct {
	// Milli is CPU time in thousandths of a CPU. Memory is in bytes.
	Milli, Memory int64
	// Pods is 1 for a pod. For a node it is the largest number of pods.
	Pods int64
	// Others has huge pages in bytes and numbers of devices, ascending by resource. A node has
	// nothing of a resource that it does not list.
	Others Amounts
}

// Plus returns the sum of a and b.
func (a Totals) Plus(b Totals) Totals {
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
func (a Totals) Equal(b Totals) bool {
	return a.Milli == b.Milli && a.Memory == b.Memory && a.Pods == b.Pods && slices.Equal(a.Others, b.Others)
}

// AppendKey appends a text that is the same for two amounts exactly if they are Equal, like
// Amounts.AppendKey.
func (a Totals) AppendKey(b []byte) []byte {
	return a.Others.AppendKey(fmt.Appendf(b, "%d %d %d ", a.Milli, a.Memory, a.Pods))
}

// Of returns the amount of a resource. CPUs are in thousandths.
func (a Totals) Of(resource Resource) int64 {
	switch resource {
	case "pods":
		return a.Pods
	case CPU:
		return a.Milli
	case Memory:
		return a.Memory
	}
	n, _ := a.Others.Get(resource)
	return n
}

// Short returns the first resource of which a node with these allocatable amounts has too little
// for b in addition to used. The order is pods, cpu, memory, others. It returns "" if there is
// enough of everything. A resource of which b requests nothing is never short, even on an
// overcommitted node, as in NodeResourcesFit.
func (a Totals) Short(used, b Totals) Resource {
	switch {
	case used.Pods+b.Pods > a.Pods:
		return "pods"
	case b.Milli > 0 && used.Milli+b.Milli > a.Milli:
		return CPU
	case b.Memory > 0 && used.Memory+b.Memory > a.Memory:
		return Memory
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
