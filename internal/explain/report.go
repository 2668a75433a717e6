package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Report is how a node is used, and what is still to be had of it.
type Report struct {
	ManagesCPUs   bool         `json:"managesCPUs"`
	ManagesMemory bool         `json:"managesMemory"`
	Nodes         []NodeReport `json:"numaNodes"`
	// Largest are the largest pods that would be admitted now, by topology policy.
	Largest []Largest `json:"largest,omitempty"`
	// Idle are pools of which a part is of use to no container (KEP-5526, Underutilization).
	Idle []Idle `json:"idle,omitempty"`
	// Remote are the devices on other NUMA nodes or sockets than the CPUs or memory of their
	// containers, and Unknown the pods with devices of which that is not known (R-DEV-4, R-DEV-7).
	Remote  []RemoteDevice `json:"remoteDevices,omitempty"`
	Unknown []Unknown      `json:"unknownDevices,omitempty"`
}

// NodeReport is one NUMA node.
type NodeReport struct {
	Node   int           `json:"numaNode"`
	CPUs   CPUReport     `json:"cpus"`
	Memory []BytesReport `json:"memory,omitempty"`
	// Lost describes what is free there and yet of no use to a pod on this NUMA node alone; empty:
	// nothing.
	LostCPUs   int    `json:"lostCPUs,omitempty"`
	LostMemory int64  `json:"lostMemory,omitempty"`
	Lost       string `json:"lost,omitempty"`
}

// CPUReport counts CPUs. Total = Exclusive + Pooled + Idle + Reserved + Free, but for reserved CPUs
// that a pod still has from before; Shared are those on which all other pods run.
type CPUReport struct {
	Total int `json:"total"`
	// Exclusive CPUs are one container's, Pooled are shared by a pod's containers, Idle belong
	// to a pod of which no container can use them.
	Exclusive int `json:"exclusive"`
	Pooled    int `json:"pooled"`
	Idle      int `json:"idle"`
	Shared    int `json:"shared"`
	Reserved  int `json:"reserved"`
	Free      int `json:"free"`
}

// BytesReport is one type of memory. Total = Exclusive + Pooled + Reserved + Free; bytes of several
// NUMA nodes together are booked on the lowest first, exclusive ones before pooled ones.
type BytesReport struct {
	Type      string `json:"type"`
	Total     int64  `json:"total"`
	Exclusive int64  `json:"exclusive"`
	Pooled    int64  `json:"pooled"`
	Reserved  int64  `json:"reserved"`
	Free      int64  `json:"free"`
	// Group are the NUMA nodes that serve this type together, if it is more than this one.
	Group []int `json:"group,omitempty"`
}

// Idle is what a pod has and none of its containers can use once its init containers have ended.
type Idle struct {
	Pod    string   `json:"pod"`
	CPUs   string   `json:"cpus,omitempty"`
	Pool   int      `json:"poolCPUs,omitempty"`
	Count  int      `json:"idleCPUs,omitempty"`
	Memory []Amount `json:"idleMemory,omitempty"`
}

// Usage reports on a node. The search for the largest pods ends with the context; the error is then
// the context's.
func Usage(ctx context.Context, s *node.State) (Report, error) {
	policy := s.Policy()
	r := Report{ManagesCPUs: policy.StaticCPU, ManagesMemory: policy.StaticMemory}
	var alone, pool, idle cpuset.Builder
	for _, g := range s.Grants() {
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
				Total:     n.CPUs.Len(),
				Exclusive: exclusive.IntersectionLen(n.CPUs),
				Pooled:    pooled.IntersectionLen(n.CPUs),
				Idle:      unused.IntersectionLen(n.CPUs),
				Shared:    s.SharedCPUs().IntersectionLen(n.CPUs),
				Reserved:  policy.ReservedCPUs.IntersectionLen(n.CPUs),
				Free:      s.AvailableCPUs().IntersectionLen(n.CPUs),
			}
		}
		if policy.StaticMemory {
			report.Memory = bytesOn(s, i)
		}
		lost(s, &report)
		r.Nodes = append(r.Nodes, report)
	}
	r.Largest = largestPods(ctx, s)
	return r, ctx.Err()
}

// parts are the CPUs of a grant that one container has for itself, those that the pod's containers
// share, and those that no container can use. Standard init containers do not count: they end.
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

// bytesOn is the memory of the i-th NUMA node.
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
		// What single containers have for themselves in the group: what is in no pool, and the
		// slices of pools that last as long as the pod. It is counted on the lowest NUMA nodes of
		// the group, as all of it is.
		var alone int64
		for _, g := range s.Grants() {
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

// usedOf is how much of a pool's memory containers can use.
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

// lost describes what a pod that has to be aligned to this NUMA node alone cannot have, although it
// is free: CPUs without memory to go with them, memory without CPUs.
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
		r.Lost = fmt.Sprintf("%s serve memory together: no pod of one NUMA node fits", nodesText(group))
	case free == 0 && r.CPUs.Free > 0:
		r.LostCPUs, r.Lost = r.CPUs.Free, "CPUs are free, and no memory"
	case r.CPUs.Free == 0 && free > 0:
		r.LostMemory, r.Lost = free, "memory is free, and no CPUs"
	}
}

// Largest are the largest Guaranteed pods of one container that a topology policy would admit now,
// everything else being as it is.
type Largest struct {
	Policy string `json:"policy"`
	// Now is true for the node's own policy.
	Now bool `json:"now,omitempty"`
	// CPUs is the most CPUs, with Memory bytes: as little as will do of 1 MiB and the amounts at
	// which memory prefers one NUMA node more. LostCPUs is how much less that is than without
	// alignment, as LostBytes is of Bytes.
	CPUs     int   `json:"cpus"`
	Memory   int64 `json:"withMemory"`
	LostCPUs int   `json:"lostCPUs"`
	// Bytes is the most memory of a container without exclusive CPUs.
	Bytes     int64 `json:"memory"`
	LostBytes int64 `json:"lostMemory"`
	// Share is the most CPUs of a pod that takes as much memory for each as the machine has.
	Share      int   `json:"proportionalCPUs"`
	ShareBytes int64 `json:"proportionalMemory"`
	LostShare  int   `json:"lostProportionalCPUs"`
	// Wrong explains why the policy cannot be looked at.
	Wrong string `json:"wrong,omitempty"`
}

func largestPods(ctx context.Context, s *node.State) []Largest {
	policies := []node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}
	var out []Largest
	for _, t := range policies {
		policy := s.Policy()
		policy.Topology = t
		l := Largest{Policy: t.String(), Now: t == s.Policy().Topology}
		at, err := s, error(nil)
		if !l.Now {
			if len(policy.Conflicts(s.Machine())) > 0 {
				l.Wrong = "not with align-by-socket"
				out = append(out, l)
				continue
			}
			at, err = under(s, policy)
		}
		if err != nil {
			l.Wrong = err.Error()
			out = append(out, l)
			continue
		}
		l.measure(ctx, at)
		if len(out) > 0 && out[0].Wrong == "" {
			free := out[0]
			l.LostCPUs, l.LostBytes, l.LostShare = free.CPUs-l.CPUs, free.Bytes-l.Bytes, free.Share-l.Share
		}
		out = append(out, l)
	}
	return out
}

func (l *Largest) measure(ctx context.Context, s *node.State) {
	p := prober{ctx: ctx, s: s, memory: s.Policy().StaticMemory}
	if s.Policy().StaticCPU {
		unit := int64(1)
		if s.Policy().CPU.FullPCPUsOnly {
			unit = int64(max(1, s.Machine().CPUsPerCore()))
		}
		free := int64(s.AvailableCPUs().Len())
		best := p.most(request.CPU, unit, free, func(n int64) bool { return p.least(n*unit) > 0 })
		l.CPUs = int(best * unit)
		if l.CPUs > 0 && p.memory {
			l.Memory = p.least(best * unit)
		}
		if p.memory {
			each := p.perCPU()
			share := p.most(request.CPU, unit, free, func(n int64) bool { return p.admits(n*unit, n*unit*each) })
			l.Share, l.ShareBytes = int(share*unit), share*unit*each
		}
	}
	if p.memory {
		total := sums(s, machine.Memory)
		l.Bytes = mebi * p.most(machine.Memory, mebi, total[len(total)-1], func(n int64) bool { return p.admits(0, n*mebi) })
	}
}

const mebi = int64(1) << 20

// prober plans pods of one container.
type prober struct {
	ctx    context.Context
	s      *node.State
	memory bool
}

func (p prober) admits(cpus, bytes int64) bool {
	if p.ctx.Err() != nil {
		return false
	}
	c := request.Container{Name: "c", Type: request.App, CPUs: int(cpus), CPURequest: cpus * 1000, CPULimit: cpus * 1000, Equivalent: true}
	if cpus == 0 {
		c.Sharing, c.CPURequest, c.CPULimit = request.FractionalCPU, 500, 500
	}
	if p.memory {
		c.Memory = request.Amounts{{Resource: machine.Memory, Value: bytes}}
	}
	pod := request.Pod{UID: "\x00report", Namespace: "default", Name: "report", QoS: request.Guaranteed, Containers: []request.Container{c}}
	return p.s.Plan(pod).Rejection == nil
}

// least is as little memory as that many CPUs are admitted with, of the amounts at which another
// number of NUMA nodes is preferred; 0 if they are with none. Restricted admits only what prefers
// as many NUMA nodes as the CPUs do; best-effort, too, may find room for more memory and not for
// less where NUMA nodes serve memory together.
func (p prober) least(cpus int64) int64 {
	if p.admits(cpus, mebi) {
		return mebi
	}
	if !p.memory || p.s.Policy().Topology == node.TopologySingleNUMANode {
		return 0
	}
	sizes, amounts := sums(p.s, request.CPU), sums(p.s, machine.Memory)
	for i, sum := range amounts {
		same := i+1 < len(sizes) && sizes[i] < cpus && cpus <= sizes[i+1]
		if bytes := (sum/mebi + 1) * mebi; (same || len(amounts) <= maxAllAmounts) && p.admits(cpus, bytes) {
			return bytes
		}
	}
	return 0
}

// maxAllAmounts is how many NUMA nodes a machine has on which all amounts are tried: on larger ones
// only the one that prefers as many NUMA nodes as the CPUs.
const maxAllAmounts = 8

// perCPU is how much memory for pods the machine has for each CPU that pods can have, in whole MiB.
func (p prober) perCPU() int64 {
	total := sums(p.s, machine.Memory)
	return max(1, total[len(total)-1]/int64(max(1, p.s.AllocatableCPUs().Len()))/mebi) * mebi
}

// most is the largest n, in units, up to amount, that fits. Between the sizes at which another
// number of NUMA nodes is preferred what fits is monotone; see search.most.
func (p prober) most(resource string, unit, amount int64, fits func(n int64) bool) int64 {
	ends := []int64{amount / unit}
	all := sums(p.s, resource)
	if resource == request.CPU && p.memory { // Here the memory that goes with the CPUs needs one NUMA node more.
		for _, sum := range sums(p.s, machine.Memory) {
			all = append(all, sum/p.perCPU())
		}
	}
	for _, sum := range all {
		if sum/unit < ends[0] {
			ends = append(ends, sum/unit)
		}
	}
	slices.SortFunc(ends, func(a, b int64) int { return cmp.Compare(b, a) })
	ends = append(slices.Compact(ends), 0)
	for i, high := range ends[:len(ends)-1] {
		low := ends[i+1] + 1
		switch {
		case high < low || high < 1:
			continue
		case fits(high):
			return high
		case !fits(low):
			continue
		}
		for high-low > 1 {
			if middle := low + (high-low)/2; fits(middle) {
				low = middle
			} else {
				high = middle
			}
		}
		return low
	}
	return 0
}
