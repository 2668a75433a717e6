package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Path is how a pod goes through an admission: a row of the table in the package comment.
type Path int

const (
	// Unaligned: nothing is aligned, each container is served by itself (R-HINT-60).
	Unaligned Path = iota
	// ByContainer: each container is aligned and served by itself (R-HINT-64).
	ByContainer
	// AsOne: the pod is aligned as one, and each container is served by itself (R-HINT-65).
	AsOne
	// AsPool: the pod gets one pool, which is aligned as one and then divided (R-DEM-40).
	AsPool
)

// Demand is what a pod asks of the managers under a policy. The planner computes it before it
// decides anything, and asks for nothing else; explanations and metrics read it from the trace.
type Demand struct {
	Path Path
	// Containers are parallel to the pod's.
	Containers []ContainerDemand
	// Together is what is aligned as one on the paths AsOne and AsPool: what the containers need at
	// the worst moment, or the pod-level budget.
	Together Ask
	// FractionalCPUs reports that the pod gets no CPUs because its pod-level cpu request is not a
	// whole number (R-DEM-40, Q-9).
	FractionalCPUs bool
}

// Ask is an amount of every resource. Devices are those of the node's inventory.
type Ask struct {
	CPUs            int
	Memory, Devices request.Amounts
	// Given are devices that others chose, by what they are of; CPUs and memory are aligned with
	// them. They are set in what is aligned: in the containers on path ByContainer, together on the
	// paths AsOne and AsPool.
	Given []GivenDevices
}

// GivenDevices are the given devices of one extended resource or driver, each once, in the order of
// request.Given.Compare. They are the request's own.
type GivenDevices struct {
	Of      string
	Devices []*request.Given
}

// Amount is how much is asked for of one resource.
func (a *Ask) Amount(resource request.Resource) int64 {
	if resource == request.CPU {
		return int64(a.CPUs)
	}
	if n, asked := a.Devices.Get(resource); asked {
		return n
	}
	for i := range a.Given {
		if a.Given[i].Of == resource {
			return int64(len(a.Given[i].Devices))
		}
	}
	n, _ := a.Memory.Get(resource)
	return n
}

// ContainerDemand is what one container asks for, and why: exclusive CPUs, memory that is pinned,
// and devices.
type ContainerDemand struct {
	Ask
	CPUBasis, MemoryBasis Basis
	// Sharing is the request's own reason for basis Shares.
	Sharing request.Sharing
}

// Basis is why a container asks for CPUs or memory of its own, or does not.
type Basis uint8

const (
	// PolicyNone: the manager's policy is none (R-DEM-28, R-DEM-34).
	PolicyNone Basis = iota
	// Shares: the container does not qualify, see Sharing.
	Shares
	// NoPool: the pod gets no pool of the resource to take a slice of (R-DEM-40, R-DEM-51).
	NoPool
	// NotGuaranteed: memory is pinned for Guaranteed pods only (R-DEM-30).
	NotGuaranteed
	// ManagersOff: the gate PodLevelResourceManagers is off (R-DEM-26).
	ManagersOff
	// NotEquivalent: the container's requests are not its limits (R-DEM-31).
	NotEquivalent
	// Qualifies: the container of a Guaranteed pod qualifies (R-DEM-23, R-DEM-32).
	Qualifies
	// QualifiesItself: the container of a pod-level pod qualifies by its own requests (R-DEM-22).
	QualifiesItself
)

// WhyShares is the reason why a container has no exclusive CPUs, in words.
func WhyShares(s request.Sharing) Why { return Why{s.String(), s.Rule()} }

// WhyCPUs is the basis of the container's CPUs in words.
func (c *ContainerDemand) WhyCPUs() Why {
	return [...]Why{
		PolicyNone:      {"the CPU policy is none", "R-DEM-28"},
		Shares:          WhyShares(c.Sharing),
		NoPool:          {"the pod-level cpu request is missing or not a whole number", "R-DEM-40"},
		Qualifies:       {"the pod is Guaranteed, and its cpu is a whole number", "R-DEM-23"},
		QualifiesItself: {"its own cpu and memory requests equal its limits, and its cpu is a whole number", "R-DEM-22, R-DEM-23"},
	}[c.CPUBasis]
}

// WhyMemory is the basis of the container's memory in words.
func (c *ContainerDemand) WhyMemory() Why {
	return [...]Why{
		PolicyNone:    {"the memory policy is None", "R-DEM-34"},
		Shares:        WhyShares(c.Sharing),
		NoPool:        {"the pod-level memory request is missing", "R-DEM-51"},
		NotGuaranteed: {"the pod is not Guaranteed", "R-DEM-30"},
		ManagersOff:   {"feature gate PodLevelResourceManagers is off", "R-DEM-26"},
		NotEquivalent: {"its own cpu and memory requests and limits are not all set and equal", "R-DEM-31"},
		Qualifies:     {"the pod is Guaranteed", "R-DEM-32"},
	}[c.MemoryBasis]
}

// path is the pod's row of the table in the package comment.
func (p *Policy) path(pod *request.Pod) Path {
	switch {
	case p.Topology == TopologyNone:
		return Unaligned
	case p.Scope == ContainerScope:
		return ByContainer
	case pod.Kind == request.PodLevel:
		return AsPool
	}
	return AsOne
}

// exclusiveCPUs is how many exclusive CPUs the CPU manager gives to a container.
func (p *Policy) exclusiveCPUs(pod *request.Pod, c *request.Container) (int, Basis) {
	switch {
	case !p.StaticCPU:
		return 0, PolicyNone
	case c.CPUs == 0 || pod.Kind == request.Unmanaged:
		return 0, Shares
	case pod.BudgetCPUs == 0 && p.path(pod) == AsPool:
		return 0, NoPool
	case pod.Kind == request.PodLevel:
		return c.CPUs, QualifiesItself
	}
	return c.CPUs, Qualifies
}

// pinnedMemory is the memory that the memory manager pins for a container. A container that shares
// asks for nothing, under scope container and policy none as well (KEP-5526; the reference rejects
// it there, Q-3).
func (p *Policy) pinnedMemory(pod *request.Pod, c *request.Container) (request.Amounts, Basis) {
	switch {
	case !p.StaticMemory:
		return nil, PolicyNone
	case pod.QoS != request.Guaranteed:
		return nil, NotGuaranteed
	case pod.Kind == request.Unmanaged:
		return nil, ManagersOff
	case len(pod.BudgetMemory) == 0 && p.path(pod) == AsPool:
		return nil, NoPool
	case len(c.Memory) > 0:
		return c.Memory, Qualifies
	case pod.Estimated:
		return nil, Shares
	case pod.Kind == request.PodLevel && !c.Equivalent:
		return nil, NotEquivalent
	}
	return nil, Qualifies
}

// Demand is what a pod asks for on this node. Devices that the inventory does not have are not
// Paddock's, and neither are those of a resource of which the container has given devices
// (R-DEV-6).
func (s *State) Demand(pod *request.Pod) Demand {
	p, inventory := &s.policy, s.devices.Inventory()
	d := Demand{Path: p.path(pod), Containers: make([]ContainerDemand, len(pod.Containers))}
	for i := range pod.Containers {
		c, asks := &pod.Containers[i], &d.Containers[i]
		asks.CPUs, asks.CPUBasis = p.exclusiveCPUs(pod, c)
		asks.Memory, asks.MemoryBasis = p.pinnedMemory(pod, c)
		asks.Sharing = c.Sharing
		for _, a := range c.Devices {
			given := func(g request.Given) bool { return g.Resource == a.Resource }
			if a.Value > 0 && inventory.Has(a.Resource) && !slices.ContainsFunc(c.Given, given) {
				asks.Devices = append(asks.Devices, a)
			}
		}
		if d.Path == ByContainer {
			asks.Given = givenDevices(pod.Containers[i : i+1])
		}
	}
	switch d.Path {
	case AsPool:
		d.Together.Devices = d.deviceSum(pod)
		if p.StaticCPU {
			d.Together.CPUs = pod.BudgetCPUs
			d.FractionalCPUs = pod.BudgetCPUs == 0 && pod.BudgetCPUMilli%1000 != 0 && pod.QoS == request.Guaranteed
		}
		unread := p.Behavior.UnreadFractions && pod.FractionalMemory
		if p.StaticMemory && pod.QoS == request.Guaranteed && !unread {
			d.Together.Memory = pod.BudgetMemory
		}
	case AsOne:
		d.Together = Ask{CPUs: int(d.sum(pod, request.CPU)), Devices: d.deviceSum(pod)}
		for i := range d.Containers {
			if pod.Containers[i].Type == request.App { // Types that no app container asks for are left out (R-DEM-50).
				d.Together.Memory = d.add(d.Together.Memory, pod, d.Containers[i].Memory)
			}
		}
	case Unaligned, ByContainer:
	}
	if d.Path == AsPool || d.Path == AsOne {
		d.Together.Given = givenDevices(pod.Containers)
	}
	return d
}

// givenDevices groups the given devices of containers by what they are of. A device that claims or
// containers share counts once.
func givenDevices(containers []request.Container) []GivenDevices {
	count := 0
	for i := range containers {
		count += len(containers[i].Given)
	}
	if count == 0 {
		return nil
	}
	all := make([]*request.Given, 0, count)
	lists := 0
	for i := range containers {
		for k := range containers[i].Given {
			all = append(all, &containers[i].Given[k])
		}
		lists += min(len(containers[i].Given), 1)
	}
	if lists > 1 { // Each list is in order already. Of a device in several the first counts.
		slices.SortStableFunc(all, func(g, h *request.Given) int { return g.CompareDevice(h) })
	}
	all = slices.CompactFunc(all, func(g, h *request.Given) bool { return g.CompareDevice(h) == 0 })
	groups := make([]GivenDevices, 0, 2) // GPUs and NICs
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Of() == all[0].Of() {
			n++
		}
		groups = append(groups, GivenDevices{Of: all[0].Of(), Devices: all[:n:n]})
		all = all[n:]
	}
	return groups
}

// sum is what the containers need together of a resource at the worst moment (R-DEM-41).
func (d *Demand) sum(pod *request.Pod, resource request.Resource) int64 {
	claims := make([]layout.Claim, len(d.Containers))
	for i := range d.Containers {
		claims[i] = layout.Claim{Type: pod.Containers[i].Type, Exclusive: true, Amount: d.Containers[i].Amount(resource)}
	}
	return layout.Budget(claims)
}

// deviceSum is what the containers need together of each device resource, whatever the kind of pod:
// devices cannot be asked for at pod level (R-HINT-40, R-DEM-80).
func (d *Demand) deviceSum(pod *request.Pod) (sum request.Amounts) {
	for i := range d.Containers {
		sum = d.add(sum, pod, d.Containers[i].Devices)
	}
	return sum
}

// add sums up the resources that sum does not have yet.
func (d *Demand) add(sum request.Amounts, pod *request.Pod, asked request.Amounts) request.Amounts {
	for _, a := range asked {
		if _, done := sum.Get(a.Resource); !done {
			sum = sum.With(a.Resource, d.sum(pod, a.Resource))
		}
	}
	return sum
}

// PoolClaims are what the containers of a pod-level pod claim of a pool of the resource.
func PoolClaims(pod *request.Pod, resource request.Resource) []layout.Claim {
	return appendPoolClaims(make([]layout.Claim, 0, len(pod.Containers)), pod, resource)
}

func appendPoolClaims(claims []layout.Claim, pod *request.Pod, resource request.Resource) []layout.Claim {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		claim := layout.Claim{Type: c.Type}
		if resource == request.CPU {
			claim.Amount, claim.Exclusive = int64(c.CPUs), c.Exclusive()
		} else {
			claim.Amount, _ = c.Memory.Get(resource)
			claim.Exclusive = len(c.Memory) > 0
			claim.Indifferent = resource != machine.Memory && !slices.Contains(c.HugePages, resource)
		}
		claims = append(claims, claim)
	}
	return claims
}
