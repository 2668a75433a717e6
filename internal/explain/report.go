package explain

import (
	"context"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Report describes how a node is used and what is still available on it.
type Report struct {
	ManagesCPUs   bool         `json:"managesCPUs"`
	ManagesMemory bool         `json:"managesMemory"`
	Nodes         []NodeReport `json:"numaNodes"`
	// Largest has the largest pods that would be admitted now, by topology policy.
	Largest []Largest `json:"largest,omitempty"`
	// Idle has the pools with a part that no container can use (KEP-5526, Underutilization).
	Idle []Idle `json:"idle,omitempty"`
	// Remote has the devices that are on other NUMA nodes or sockets than the CPUs or memory of
	// their containers. Unknown has the pods for which this is not known (R-DEV-4, R-DEV-7).
	Remote  []RemoteDevice `json:"remoteDevices,omitempty"`
	Unknown []Unknown      `json:"unknownDevices,omitempty"`
	// Caches is set if the node divides its L3 caches (cache-allocation).
	Caches *Caches `json:"caches,omitempty"`
}

// NodeReport describes one NUMA node.
type NodeReport struct {
	Node   int           `json:"numaNode"`
	CPUs   CPUReport     `json:"cpus"`
	Memory []BytesReport `json:"memory,omitempty"`
	// LostCPUs and LostMemory are free but of no use to a pod on only this NUMA node. Lost
	// describes them. It is empty if there are none.
	LostCPUs   int    `json:"lostCPUs,omitempty"`
	LostMemory int64  `json:"lostMemory,omitempty"`
	Lost       string `json:"lost,omitempty"`
}

// CPUReport counts CPUs. Total = Exclusive + Pooled + Idle + Reserved + Free + OnlyShared, except
// for reserved CPUs that a pod still has from before. Shared counts the CPUs on which all other
// pods run.
type CPUReport struct {
	Total int `json:"total"`
	// Exclusive CPUs belong to one container. Pooled CPUs are shared by the containers of a pod.
	// Idle CPUs belong to a pod of which no container can use them.
	Exclusive int `json:"exclusive"`
	Pooled    int `json:"pooled"`
	Idle      int `json:"idle"`
	Shared    int `json:"shared"`
	Reserved  int `json:"reserved"`
	Free      int `json:"free"`
	// OnlyShared CPUs are free and never become exclusive, because they are not isolated
	// (isolated-cpus: only). Isolated counts all CPUs of the boot parameter isolcpus.
	OnlyShared int `json:"onlyShared,omitempty"`
	Isolated   int `json:"isolated,omitempty"`
}

// BytesReport describes one type of memory. Total = Exclusive + Pooled + Reserved + Free. Bytes on
// several NUMA nodes together are counted on the lowest first, exclusive ones before pooled ones.
type BytesReport struct {
	Type      string `json:"type"`
	Total     int64  `json:"total"`
	Exclusive int64  `json:"exclusive"`
	Pooled    int64  `json:"pooled"`
	Reserved  int64  `json:"reserved"`
	Free      int64  `json:"free"`
	// Group has the NUMA nodes that serve this type together. It is empty if this NUMA node serves
	// it alone.
	Group []int `json:"group,omitempty"`
}

// Idle is what a pod has that none of its containers can use once its init containers have ended.
type Idle struct {
	Pod    string   `json:"pod"`
	CPUs   string   `json:"cpus,omitempty"`
	Pool   int      `json:"poolCPUs,omitempty"`
	Count  int      `json:"idleCPUs,omitempty"`
	Memory []Amount `json:"idleMemory,omitempty"`
}

// Usage returns the report on a node. The search for the largest pods ends with the context; the
// error is then the context's.
func Usage(ctx context.Context, s *node.State) (Report, error) {
	policy := s.Policy()
	r := Report{ManagesCPUs: policy.StaticCPU, ManagesMemory: policy.StaticMemory}
	var alone, pool, idle cpuset.Builder
	for g := range s.AllGrants() {
		a, p, i := parts(g)
		alone.AddSet(a)
		pool.AddSet(p)
		idle.AddSet(i)
		unused := Idle{Pod: g.Pod.ID(), CPUs: i.String(), Pool: g.Pool.Len(), Count: i.Len()}
		for _, b := range g.PoolMemory {
			if left := b.Size - usedOf(g, b.Type, b.Size); left > 0 {
				unused.Memory = append(unused.Memory, Amount{b.Type, left})
			}
		}
		if unused.Count > 0 || len(unused.Memory) > 0 {
			r.Idle = append(r.Idle, unused)
		}
		r.reportDevices(s, g)
	}
	exclusive, pooled, unused := alone.Set(), pool.Set(), idle.Set()
	for i, n := range s.Machine().Nodes() {
		report := NodeReport{Node: n.ID, CPUs: CPUReport{Total: n.CPUs.Len()}}
		if policy.StaticCPU {
			report.CPUs = CPUReport{
				Total:      n.CPUs.Len(),
				Exclusive:  exclusive.IntersectionLen(n.CPUs),
				Pooled:     pooled.IntersectionLen(n.CPUs),
				Idle:       unused.IntersectionLen(n.CPUs),
				Shared:     s.SharedCPUs().IntersectionLen(n.CPUs),
				Reserved:   policy.ReservedCPUs.IntersectionLen(n.CPUs),
				Free:       s.AvailableCPUs().IntersectionLen(n.CPUs),
				OnlyShared: s.FreeCPUs().Difference(s.AvailableCPUs()).IntersectionLen(n.CPUs),
			}
		}
		report.CPUs.Isolated = s.Machine().Isolation().Isolated.IntersectionLen(n.CPUs)
		if policy.StaticMemory {
			report.Memory = bytesOn(s, i)
		}
		lost(s, &report)
		r.Nodes = append(r.Nodes, report)
	}
	r.Caches = CachesOf(s)
	r.Largest = largestPods(ctx, s)
	return r, ctx.Err()
}

// parts divides the CPUs of a grant into those that one container has exclusively, those that the
// pod's containers share, and those that no container can use. Standard init containers do not
// count, because they end.
func parts(g *node.Grant) (alone, shared, idle cpuset.Set) {
	var a, b cpuset.Builder
	for i, c := range g.Containers {
		switch {
		case g.Pod.Containers[i].Type == request.Init:
		case g.Isolation(i) == node.ContainerIsolation:
			a.AddSet(c.CPUs)
		default:
			b.AddSet(c.CPUs)
		}
	}
	alone = a.Set()
	shared = b.Set().Difference(alone)
	return alone, shared, g.CPUs().Difference(alone).Difference(shared)
}

// bytesOn returns the memory of the i-th NUMA node.
func bytesOn(s *node.State, i int) []BytesReport {
	capacity, all := s.Memory().Capacity().Nodes()[i], s.Memory().Nodes()
	usage := all[i]
	var out []BytesReport
	for t, name := range s.Machine().MemoryTypes() {
		c := capacity.Types[t]
		if !c.Listed || c.Total == 0 {
			continue
		}
		r := BytesReport{Type: name, Total: c.SystemReserved + c.Allocatable, Reserved: c.SystemReserved, Free: usage.Free[t]}
		// Compute what single containers have exclusively in the group: memory outside pools, and
		// the slices of pools that last as long as the pod. It is counted on the lowest NUMA nodes
		// of the group, like all bytes of the group.
		var alone int64
		for g := range s.AllGrants() {
			for _, b := range g.Charged() {
				switch {
				case b.Type != name || b.Nodes != usage.Group:
				case len(g.PoolMemory) == 0:
					alone += b.Size
				default:
					for k, c := range g.Pod.Containers {
						if n, ok := c.Memory.Get(name); ok && c.Type != request.Init && !g.Containers[k].Removed {
							alone += n
						}
					}
				}
			}
		}
		for k := range i {
			if usage.Group.Has(all[k].ID) {
				alone = max(0, alone-all[k].Reserved[t])
			}
		}
		assigned := usage.Reserved[t]
		r.Exclusive = min(assigned, alone)
		r.Pooled = assigned - r.Exclusive
		if usage.Group.Len() > 1 {
			r.Group = usage.Group.Nodes()
		}
		out = append(out, r)
	}
	return out
}

// usedOf returns how much of a pool's memory containers can use.
func usedOf(g *node.Grant, typ string, size int64) int64 {
	var used int64
	for i, c := range g.Pod.Containers {
		if c.Type == request.Init || g.Containers[i].Removed {
			continue
		}
		if len(c.Memory) == 0 {
			return size
		}
		n, _ := c.Memory.Get(typ)
		used += n
	}
	return used
}

// lost describes what is free on this NUMA node although a pod that must be aligned to only this
// NUMA node cannot use it: CPUs without enough memory, or memory without CPUs.
func lost(s *node.State, r *NodeReport) {
	policy := s.Policy()
	if !policy.StaticCPU || !policy.StaticMemory || policy.Topology == node.TopologyNone {
		return
	}
	var group mask.Mask
	var free int64
	for _, m := range r.Memory {
		if m.Type == machine.Memory {
			group, free = mask.Of(m.Group...), m.Free
		}
	}
	switch {
	case r.CPUs.Total == 0:
	case group.Len() > 1 && r.CPUs.Free+int(min(free, 1)) > 0:
		r.LostCPUs, r.LostMemory = r.CPUs.Free, free
		r.Lost = fmt.Sprintf("%s serve memory together: no pod of one NUMA node fits", group.Text())
	case free == 0 && r.CPUs.Free > 0:
		r.LostCPUs, r.Lost = r.CPUs.Free, "CPUs are free, and no memory"
	case r.CPUs.Free == 0 && free > 0:
		r.LostMemory, r.Lost = free, "memory is free, and no CPUs"
	}
}
