package fleet

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/request"
)

// Amounts is what the scheduler counts of a pod or of a node.
type Amounts struct {
	// Milli is CPU time in thousandths of a CPU, Memory is bytes.
	Milli, Memory int64
	// Pods is 1 for a pod, and the most pods that a node may have.
	Pods int64
	// Others are huge pages in bytes and devices, ascending by resource. A resource that a node
	// does not name is one that it has nothing of.
	Others request.Amounts
}

// Pods that nothing but their number limits get DefaultPods a node, as kubelets do (maxPods).
const DefaultPods = 110

// Plus is the sum.
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

// appendKey appends a text that two amounts share exactly if they are Equal, as
// request.Amounts.AppendKey does.
func (a Amounts) appendKey(b []byte) []byte {
	return a.Others.AppendKey(fmt.Appendf(b, "%d %d %d ", a.Milli, a.Memory, a.Pods))
}

// Of is the amount of a resource: CPUs in thousandths.
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

// short is the first resource of which a node with these allocatable amounts has too little for b
// beside used, in the order pods, cpu, memory, the others; "" is enough of everything. A resource
// of which b requests nothing is never short, also on a node that is overcommitted (as
// NodeResourcesFit has it).
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
