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

// Totals returns what a pod counts at least. An Ask has CPU time and devices, and memory as far as
// a node pins it, which is all memory of a Guaranteed pod.
func (a *Ask) Totals() Totals {
	out := Totals{Pods: 1, Milli: a.BudgetCPUMilli}
	if a.BudgetCPUMilli == 0 {
		out.Milli = a.together(func(c *Container) int64 { return c.CPURequest })
	}
	budget := map[Resource]bool{}
	add := func(r Resource, value int64) {
		switch {
		case value == 0:
		case r == Memory:
			out.Memory = value
		default:
			out.Others = out.Others.With(r, value)
		}
	}
	for _, m := range a.BudgetMemory {
		budget[m.Resource] = true
		add(m.Resource, m.Value)
	}
	for i := range a.Containers {
		for _, list := range []Amounts{a.Containers[i].Memory, a.Containers[i].Devices} {
			for _, one := range list {
				if r := one.Resource; !budget[r] {
					budget[r] = true
					add(r, a.together(func(c *Container) int64 {
						memory, _ := c.Memory.Get(r)
						devices, _ := c.Devices.Get(r)
						return memory + devices
					}))
				}
			}
		}
	}
	return out
}

// together returns what the containers need of a resource at the same time at most: an init
// container runs with the sidecars before it, and the app containers with all sidecars.
func (a *Ask) together(of func(*Container) int64) int64 {
	var most, running int64
	for i := range a.Containers {
		c := &a.Containers[i]
		if c.Type == Init {
			most = max(most, running+of(c))
			continue
		}
		running += of(c)
	}
	return max(most, running)
}

// Plus returns the sum of a and b.
func (a Totals) Plus(b Totals) Totals {
	a.Milli += b.Milli
	a.Memory += b.Memory
	a.Pods += b.Pods
	a.Others = a.Others.Plus(b.Others)
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
