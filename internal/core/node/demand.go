package node

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Path is the way of a pod through an admission: a row of the table in the package comment.
type Path int

const (
	// Unaligned means that nothing is aligned, and each container is served by itself (R-HINT-60).
	Unaligned Path = iota
	// ByContainer means that each container is aligned and served by itself (R-HINT-64).
	ByContainer
	// AsOne means that the pod is aligned as one, and each container is served by itself
	// (R-HINT-65).
	AsOne
	// AsPool means that the pod gets one pool, which is aligned as one and then divided (R-DEM-40).
	AsPool
)

// Demand is what a pod asks of the managers under a policy. The planner computes it before it
// decides anything, and asks for nothing else. Explanations and metrics read it from the trace.
type Demand struct {
	Path Path
	// Containers are parallel to the pod's containers.
	Containers []ContainerDemand
	// Together is the demand that is aligned as one on the paths AsOne and AsPool: what the
	// containers need together at the moment of the highest demand, or the pod-level budget.
	Together Ask
	// FractionalCPUs is set if the pod gets no CPUs because its pod-level cpu request is not a
	// whole number (R-DEM-40, Q-9).
	FractionalCPUs bool
	// PoolCache is the class of the containers that share the pool (R-CACHE-5).
	PoolCache cache.Want
}

// Ask has an amount of every resource. Devices has only resources of the node's inventory.
type Ask struct {
	CPUs            int
	Memory, Devices request.Amounts
	// Cache is the class of a container. Of what is aligned together, it is the sum of the classes.
	Cache cache.Want
	// Given are the devices that components other than Paddock chose, grouped by resource or
	// driver. CPUs and memory are aligned with them. Given is set in the demand that is aligned: in
	// that of each container on path ByContainer, in Together on the paths AsOne and AsPool.
	Given []GivenDevices
}

// Plus returns the CPUs, memory and devices of a and b together. Classes of caches and given
// devices are those of a: they cannot be added up without the machine and the pod.
func (a Ask) Plus(b *Ask) Ask {
	a.CPUs += b.CPUs
	a.Memory, a.Devices = a.Memory.Plus(b.Memory), a.Devices.Plus(b.Devices)
	return a
}

// GivenDevices are the given devices of one extended resource or driver, each once, in the order of
// request.Given.Compare. The devices belong to the request.
type GivenDevices struct {
	Of      string
	Devices []*request.Given
}

// Amount returns how much is asked for of one resource.
func (a *Ask) Amount(resource request.Resource) int64 {
	if resource == request.CPU {
		return int64(a.CPUs)
	}
	if request.IsCache(resource) {
		return a.Cache.Amount(resource)
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

// ContainerDemand is what one container asks for, and why: exclusive CPUs, pinned memory, and
// devices.
type ContainerDemand struct {
	Ask
	CPUBasis, MemoryBasis Basis
	// Sharing is the reason that the request gives for basis Shares.
	Sharing request.Sharing
}

// Basis is the reason why a container asks for its own CPUs or memory, or does not.
type Basis uint8

const (
	// PolicyNone means that the manager's policy is none (R-DEM-28, R-DEM-34).
	PolicyNone Basis = iota
	// Shares means that the container does not qualify. See Sharing.
	Shares
	// NoPool means that the pod gets no pool of the resource from which to take a slice (R-DEM-40,
	// R-DEM-51).
	NoPool
	// NotGuaranteed means that the pod is not Guaranteed: memory is pinned for Guaranteed pods only
	// (R-DEM-30).
	NotGuaranteed
	// ManagersOff means that the feature gate PodLevelResourceManagers is off (R-DEM-26).
	ManagersOff
	// NotEquivalent means that the container's requests do not equal its limits (R-DEM-31).
	NotEquivalent
	// Qualifies means that the container of a Guaranteed pod qualifies (R-DEM-23, R-DEM-32).
	Qualifies
	// QualifiesItself means that the container of a pod-level pod qualifies by its own requests
	// (R-DEM-22).
	QualifiesItself
)

// WhyShares returns, in words, the reason why a container has no exclusive CPUs.
func WhyShares(s request.Sharing) Why { return Why{s.String(), s.Rule()} }

// WhyCPUs returns the basis of the container's CPUs in words.
func (c *ContainerDemand) WhyCPUs() Why {
	return [...]Why{
		PolicyNone:      {"the CPU policy is none", "R-DEM-28"},
		Shares:          WhyShares(c.Sharing),
		NoPool:          {"the pod-level cpu request is missing or not a whole number", "R-DEM-40"},
		Qualifies:       {"the pod is Guaranteed, and its cpu is a whole number", "R-DEM-23"},
		QualifiesItself: {"its own cpu and memory requests equal its limits, and its cpu is a whole number", "R-DEM-22, R-DEM-23"},
	}[c.CPUBasis]
}

// WhyMemory returns the basis of the container's memory in words.
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

// path returns the pod's row of the table in the package comment.
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

// ExclusiveCPUs returns how many exclusive CPUs the CPU manager gives to a container, and why.
func (p *Policy) ExclusiveCPUs(pod *request.Pod, c *request.Container) (int, Basis) {
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

// pinnedMemory returns the memory that the memory manager pins for a container, and why. A
// container that shares asks for nothing, even under scope container and policy none (KEP-5526).
// The reference rejects it there.
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

// Demand returns what a pod asks for on this node. Paddock does not manage devices that the
// inventory does not have, nor devices of a resource of which the container has given devices
// (R-DEV-6).
func (s *State) Demand(pod *request.Pod) Demand {
	return s.demand(pod, make([]ContainerDemand, len(pod.Containers)))
}

// demand is Demand with memory for the containers, which must be zero.
func (s *State) demand(pod *request.Pod, containers []ContainerDemand) Demand {
	p, inventory := &s.policy, s.devices.Inventory()
	d := Demand{Path: p.path(pod), Containers: containers}
	for i := range pod.Containers {
		c, asks := &pod.Containers[i], &d.Containers[i]
		asks.CPUs, asks.CPUBasis = p.ExclusiveCPUs(pod, c)
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
			if pod.Containers[i].Type == request.App { // Types that no app container requests are omitted (R-DEM-50).
				d.Together.Memory = d.add(d.Together.Memory, pod, d.Containers[i].Memory)
			}
		}
	case Unaligned, ByContainer:
	}
	if p.CPU.DividesCaches {
		d.askCaches(s, pod)
	}
	if d.Path == AsPool || d.Path == AsOne {
		d.Together.Given = givenDevices(pod.Containers)
	}
	return d
}

// givenDevices groups the given devices of containers by resource or driver. A device that claims
// or containers share counts once.
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
	if lists > 1 { // Each list is sorted already. If several lists have a device, the first one counts.
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

// sum returns what the containers need together of a resource at the moment of the highest demand
// (R-DEM-41).
func (d *Demand) sum(pod *request.Pod, resource request.Resource) int64 {
	var room [8]layout.Claim // Most pods have fewer containers.
	claims := room[:0]
	for i := range d.Containers {
		claims = append(claims, layout.Claim{Type: pod.Containers[i].Type, Exclusive: true, Amount: d.Containers[i].Amount(resource)})
	}
	return layout.Budget(claims)
}

// deviceSum returns what the containers need together of each device resource, for every kind of
// pod: devices cannot be requested at pod level (R-HINT-40, R-DEM-80).
func (d *Demand) deviceSum(pod *request.Pod) (sum request.Amounts) {
	for i := range d.Containers {
		sum = d.add(sum, pod, d.Containers[i].Devices)
	}
	return sum
}

// add adds to sum the resources of asked that sum does not have yet.
func (d *Demand) add(sum request.Amounts, pod *request.Pod, asked request.Amounts) request.Amounts {
	for _, a := range asked {
		if _, done := sum.Get(a.Resource); !done {
			sum = sum.With(a.Resource, d.sum(pod, a.Resource))
		}
	}
	return sum
}

// PoolClaims returns what the containers of a pod-level pod claim of a pool of the resource.
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
