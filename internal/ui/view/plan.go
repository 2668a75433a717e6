// Package view presents the answers of the planner as JSON documents for programs and as text for
// people: a plan, an explanation, a report on a node, a machine. It decides nothing. It reads a
// state, the trace of a plan, and the results of internal/explain. Its functions are pure.
package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// Plan is the answer for a list of pods as a document. `paddock plan -o json` prints it, and its
// tables are made from it. CPUs are in the kernel's list format, memory is in bytes.
type Plan struct {
	Machine string     `json:"machine"`
	Policy  string     `json:"policy"`
	Pods    []PlanPod  `json:"pods"`
	Node    NodeTotals `json:"node"`
	// Kubelet is set if the answer of a kubelet was requested.
	Kubelet *Kubelet `json:"kubelet,omitempty"`
	// Explanations are in the order of the pods. They are absent unless requested.
	Explanations []Explanation `json:"explanations,omitempty"`
}

// PlanPod is the answer for one pod.
type PlanPod struct {
	Pod      string `json:"pod"` // namespace/name
	UID      string `json:"uid"`
	QoS      string `json:"qos"`
	Admitted bool   `json:"admitted"`
	// Known pods were on the node before and keep their assignments.
	Known bool `json:"known,omitempty"`
	// Estimated pods have a request that was read from cgroup numbers. Their only container is "*",
	// which represents all of their containers.
	Estimated bool `json:"estimated,omitempty"`
	// Pool has the CPUs and PoolMemory the memory of a pod-level pod.
	Pool       string      `json:"poolCPUs,omitempty"`
	PoolMemory []PlanBlock `json:"poolMemory,omitempty"`
	// PoolCache is the part of the caches of the containers that share the pool, and
	// PoolCacheAsked what the pod's annotation asks for.
	PoolCache      []Share `json:"poolCache,omitempty"`
	PoolCacheAsked string  `json:"poolCacheAsked,omitempty"`
	NUMANodes      []int   `json:"numaNodes,omitempty"`
	Quota          string  `json:"quota,omitempty"`
	// Offline are those of the pod's CPUs that are offline. If not empty, the pod is degraded.
	Offline string `json:"offlineCPUs,omitempty"`
	// Remote is the distance of the pod's farthest device: "another NUMA node" or "another socket".
	// It is empty if all devices are near.
	Remote     string          `json:"remote,omitempty"`
	Containers []PlanContainer `json:"containers,omitempty"`
	// Aligned are the resources that an admitted pod has of its own, each with an answer.
	Aligned []explain.Aligned `json:"aligned,omitempty"`
	// Resize is set if the pod was resized, and describes what it had before.
	Resize *PlanResize `json:"resize,omitempty"`
	Notes  []string    `json:"notes,omitempty"`
	// NotCounted are the extended resources of the pod that no inventory has.
	NotCounted []string `json:"notCounted,omitempty"`
	// Quirks are the faults because of which a kubelet answers differently. They are set if the
	// answer of a kubelet was requested.
	Quirks    []quirk.Quirk  `json:"quirks,omitempty"`
	Rejection *PlanRejection `json:"rejection,omitempty"`
	// Certainty is nil where Paddock decides, unless the answer is unsure.
	Certainty *Certainty `json:"certainty,omitempty"`
}

// PlanContainer describes what one container gets.
type PlanContainer struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`      // init, sidecar or app
	Isolation string `json:"isolation"` // host, pod or container
	// CPUs is empty if the container runs on the node shared pool.
	CPUs      string `json:"cpus,omitempty"`
	NUMANodes []int  `json:"numaNodes,omitempty"`
	// RunsOn is the set of CPUs on which the container runs while none of its own CPUs is online.
	RunsOn string `json:"runsOn,omitempty"`
	// MemoryNUMANodes is the container's cpuset.mems. It is empty if memory is not pinned.
	MemoryNUMANodes []int       `json:"memoryNUMANodes,omitempty"`
	Memory          []PlanBlock `json:"memory,omitempty"`
	// Devices maps resources to the ids of devices that Paddock chose. AllDevices also has the
	// devices that others chose, and has the NUMA nodes of all.
	Devices    map[string][]string `json:"devices,omitempty"`
	AllDevices []explain.Device    `json:"allDevices,omitempty"`
	// Cache is the part of the caches that only this container has, and CacheAsked what the pod's
	// annotation asks for.
	Cache      []Share `json:"cache,omitempty"`
	CacheAsked string  `json:"cacheAsked,omitempty"`
	// Quota is "none", a number of CPUs, "pod" if it equals the pod's limit, or empty.
	Quota string `json:"quota,omitempty"`
	// Shares is why the container has no exclusive CPUs, and Rule is the rule for that.
	Shares string `json:"shares,omitempty"`
	Rule   string `json:"rule,omitempty"`
	// Affinity is the choice of the Topology Manager. It is absent if the Topology Manager was not
	// asked.
	Affinity *PlanAffinity `json:"affinity,omitempty"`
}

// PlanAffinity is a merged hint.
type PlanAffinity struct {
	NUMANodes []int `json:"numaNodes"`
	Preferred bool  `json:"preferred"`
}

// PlanBlock is an amount of memory of one type.
type PlanBlock struct {
	Type      string `json:"type"`
	Bytes     int64  `json:"bytes"`
	NUMANodes []int  `json:"numaNodes"`
}

// PlanRejection is the reason why a pod was rejected, with the account.
type PlanRejection struct {
	Reason    string        `json:"reason"`
	Rule      string        `json:"rule"`
	Container string        `json:"container,omitempty"`
	Resource  string        `json:"resource,omitempty"`
	Wanted    int64         `json:"wanted,omitempty"`
	Message   string        `json:"message"`
	Nodes     []PlanAccount `json:"nodes,omitempty"`
}

// PlanAccount is one NUMA node's part of a rejection's account.
type PlanAccount struct {
	Node    int          `json:"numaNode"`
	Total   int64        `json:"total"`
	Free    int64        `json:"free"`
	Holders []PlanHolder `json:"holders,omitempty"`
}

// PlanHolder is a pod to which a part of a NUMA node's resource is assigned.
type PlanHolder struct {
	Pod    string `json:"pod"`
	Amount int64  `json:"amount"`
	// NUMANodes is set if the amount is on several NUMA nodes together, and names them.
	NUMANodes []int `json:"numaNodes,omitempty"`
}

// NodeTotals describes the node after all pods.
type NodeTotals struct {
	SharedCPUs   string `json:"sharedCPUs"`
	ReservedCPUs string `json:"reservedCPUs"`
	// IsolatedCPUs are the CPUs that are in no shared pool (isolated-cpus). FreeIsolatedCPUs is the
	// part of them that no pod has.
	IsolatedCPUs     string      `json:"isolatedCPUs,omitempty"`
	FreeIsolatedCPUs string      `json:"freeIsolatedCPUs,omitempty"`
	NUMANodes        []NodeTotal `json:"numaNodes"`
	ManagesCPUs      bool        `json:"managesCPUs"`
	ManagesBytes     bool        `json:"managesMemory"`
	// Classes is the number of classes of the caches that can exist beside the default one, and
	// FreeClasses the number that can still be added. Both are 0 if the node does not divide its
	// caches.
	Classes     int       `json:"cacheClasses,omitempty"`
	FreeClasses int       `json:"freeCacheClasses,omitempty"`
	Groups      []([]int) `json:"memoryGroups,omitempty"`
	types       []string
	devices     []string
}

// NodeTotal describes one NUMA node: the CPUs and bytes that pods can have exclusively, in total
// and free.
type NodeTotal struct {
	Node     int         `json:"numaNode"`
	CPUs     int         `json:"cpus"`
	FreeCPUs int         `json:"freeCPUs"`
	Memory   []TypeTotal `json:"memory,omitempty"`
	// A device on several NUMA nodes counts on each of them.
	Devices []DeviceTotal `json:"devices,omitempty"`
	// Ways is the number of ways that a class can have of an L3 cache of this NUMA node. FreeWays
	// is the number that one more class can have, in the cache with the most free ways. Bandwidth
	// and FreeBandwidth are the same for the memory bandwidth, in percent.
	Ways          int `json:"l3Ways,omitempty"`
	FreeWays      int `json:"freeL3Ways,omitempty"`
	Bandwidth     int `json:"bandwidthPercent,omitempty"`
	FreeBandwidth int `json:"freeBandwidthPercent,omitempty"`
}

// DeviceTotal counts the devices of one resource.
type DeviceTotal struct {
	Resource string `json:"resource"`
	Total    int    `json:"total"`
	Free     int    `json:"free"`
}

// TypeTotal is an amount of one type of memory, in bytes.
type TypeTotal struct {
	Type  string `json:"type"`
	Total int64  `json:"total"`
	Free  int64  `json:"free"`
}

// PlanOf returns the document of plans. machineName and policy are for people. s is the node after
// the plans.
func PlanOf(machineName, policy string, plans []*node.Plan, s *node.State) Plan {
	p := Plan{Machine: machineName, Policy: policy, Pods: []PlanPod{}, Node: totals(s)}
	for _, plan := range plans {
		p.Pods = append(p.Pods, PodOf(plan, s))
	}
	return p
}

// PodOf returns the answer for one pod. s is the node after the plan.
func PodOf(p *node.Plan, s *node.State) PlanPod {
	out := PlanPod{
		Pod: p.Pod.ID(), UID: p.Pod.UID, QoS: p.Pod.QoS.String(),
		Admitted: p.Grant != nil, Known: p.Known, Notes: p.Trace.Notes, Estimated: p.Pod.Estimated,
		NotCounted: node.UnlistedResources(&p.Pod, s.Devices().Inventory()),
	}
	if p.Rejection != nil {
		out.Rejection = planRejection(p.Rejection)
		return out
	}
	g, m := p.Grant, s.Machine()
	out.Pool, out.PoolMemory = g.Pool.String(), BlocksOf(g.PoolMemory)
	if !g.Pool.IsEmpty() {
		out.NUMANodes = m.NodesOf(g.Pool).Nodes()
	}
	out.PoolCache, out.PoolCacheAsked = SharesOf(g.PoolCache), g.Pod.PoolCache.String()
	out.Quota = milliCPUs(g.Pod.CPULimit)
	if quota.PodHasNone(g, s.Policy()) {
		out.Quota = "none"
	}
	for _, remark := range s.UnknownDevices(g) {
		if !slices.Contains(out.Notes, remark) {
			out.Notes = append(slices.Clone(out.Notes), remark)
		}
	}
	if out.Offline = s.OfflineOf(g).String(); out.Offline != "" {
		out.Notes = append(slices.Clone(out.Notes), degradedNote(s, g))
	}
	if g.Pod.Kind == request.Unmanaged && s.Policy().StaticCPU {
		out.Notes = append(slices.Clone(out.Notes), "it has pod-level resources, and feature gate PodLevelResourceManagers is off: no container gets CPUs or memory of its own")
	}
	if p.Before != nil {
		out.Resize = resizeOf(p.Before, g)
	}
	if far := s.Farthest(g); far > node.Near {
		out.Remote = far.String()
	}
	out.Aligned = explain.AlignedOf(s, g)
	demand, devices := s.Demand(&g.Pod), explain.DevicesOf(s, g)
	out.Notes = append(slices.Clip(out.Notes), apartNotes(s, g, &demand, devices)...)
	limits, cgroups := quota.Limits(s, g), s.Cgroups(g)
	for i := range g.Containers {
		c := planContainer(g, i, s, &demand.Containers[i])
		c.Quota = quotaText(limits[i])
		if s.Displaced(g, i) {
			cpus, _ := cgroups.Of(i)
			c.RunsOn = cpus.String()
		}
		if devices != nil {
			c.AllDevices = devices[i]
		}
		out.Containers = append(out.Containers, c)
	}
	return out
}

func planContainer(g *node.Grant, i int, s *node.State, asks *node.ContainerDemand) PlanContainer {
	asked, got := g.Pod.Containers[i], g.Containers[i]
	c := PlanContainer{
		Name: asked.Name, Kind: asked.Type.String(), Isolation: g.Isolation(i).String(),
		CPUs: got.CPUs.String(), Memory: BlocksOf(got.Memory), Cache: SharesOf(got.Cache), CacheAsked: asked.Cache.String(),
	}
	for _, h := range got.Devices {
		if c.Devices == nil {
			c.Devices = map[string][]string{}
		}
		c.Devices[h.Resource] = h.IDs
	}
	if !got.CPUs.IsEmpty() {
		c.NUMANodes = s.Machine().NodesOf(got.CPUs).Nodes()
	}
	if !got.MemoryNodes.IsEmpty() {
		c.MemoryNUMANodes = got.MemoryNodes.Nodes()
	}
	if g.Isolation(i) != node.ContainerIsolation && asks.CPUs == 0 {
		why := asks.WhyCPUs()
		c.Shares, c.Rule = why.Text, why.Rule
	}
	if s.Policy().Topology != node.TopologyNone {
		c.Affinity = &PlanAffinity{Preferred: got.Affinity.Preferred}
		if got.Affinity.HasMask {
			c.Affinity.NUMANodes = got.Affinity.Mask.Nodes()
		}
	}
	return c
}

// degradedNote names the offline CPUs of a pod and the containers that run elsewhere because of
// them.
func degradedNote(s *node.State, g *node.Grant) string {
	note := "degraded: CPUs " + CPUs(s.OfflineOf(g)) + " are offline"
	cgroups := s.Cgroups(g)
	var displaced strings.Builder
	for i := range g.Pod.Containers {
		if s.Displaced(g, i) {
			cpus, _ := cgroups.Of(i)
			displaced.WriteString("; container " + g.Pod.Containers[i].Name + " has no other CPU and runs on " + CPUs(cpus))
		}
	}
	return note + displaced.String()
}

func quotaText(l quota.Limit) string {
	switch l.Source {
	case quota.NoCFSQuota:
		return "none"
	case quota.PodLimit:
		return "pod"
	case quota.NoLimit, quota.OwnLimit, quota.PodShare:
	}
	return milliCPUs(l.Milli)
}

// BlocksOf returns blocks of memory for a document, with ordinary memory first.
func BlocksOf(blocks []memory.Block) []PlanBlock {
	var out []PlanBlock
	for _, b := range blocks {
		out = append(out, PlanBlock{b.Type, b.Size, b.Nodes.Nodes()})
	}
	slices.SortStableFunc(out, func(a, b PlanBlock) int { return memoryFirst(a.Type) - memoryFirst(b.Type) })
	return out
}

// SumOf returns blocks with the sums of all blocks of the same type on the same NUMA nodes.
func SumOf(blocks []memory.Block) []PlanBlock {
	var sums []memory.Block
	for _, b := range blocks {
		at := slices.IndexFunc(sums, func(s memory.Block) bool { return s.Type == b.Type && s.Nodes == b.Nodes })
		if at < 0 {
			sums = append(sums, b)
			continue
		}
		sums[at].Size += b.Size
	}
	return BlocksOf(sums)
}

// memoryFirst orders ordinary memory before huge pages.
func memoryFirst(typ string) int {
	if typ == machine.Memory {
		return 0
	}
	return 1
}

func planRejection(r *rejection.Rejection) *PlanRejection {
	out := &PlanRejection{
		Reason: string(r.Reason), Rule: r.Rule, Container: r.Container,
		Resource: r.Resource, Wanted: r.Wanted, Message: r.Detail,
	}
	for _, n := range r.Nodes {
		account := PlanAccount{Node: n.Node, Total: n.Total, Free: n.Free}
		for _, h := range n.Holders {
			holder := PlanHolder{Pod: h.Pod, Amount: h.Amount}
			if h.Nodes.Len() > 1 {
				holder.NUMANodes = h.Nodes.Nodes()
			}
			account.Holders = append(account.Holders, holder)
		}
		out.Nodes = append(out.Nodes, account)
	}
	return out
}

func totals(s *node.State) NodeTotals {
	p := s.Policy()
	t := NodeTotals{
		SharedCPUs: s.SharedCPUs().String(), ReservedCPUs: p.ReservedCPUs.String(),
		IsolatedCPUs: s.IsolatedCPUs().String(), FreeIsolatedCPUs: s.IsolatedCPUs().Intersection(s.FreeCPUs()).String(),
		ManagesCPUs: p.StaticCPU, ManagesBytes: p.StaticMemory, types: s.Machine().MemoryTypes(),
		devices: s.Devices().Inventory().Resources(),
	}
	divided := explain.CachesOf(s)
	if divided != nil {
		t.Classes, t.FreeClasses = divided.Classes, divided.Classes-divided.UsedClasses
	}
	capacity, usage := s.Memory().Capacity().Nodes(), s.Memory().Nodes()
	for i, n := range s.Machine().Nodes() {
		total := NodeTotal{
			Node: n.ID,
			CPUs: s.AllocatableCPUs().IntersectionLen(n.CPUs), FreeCPUs: s.AvailableCPUs().IntersectionLen(n.CPUs),
		}
		for k, name := range s.Machine().MemoryTypes() {
			if p.StaticMemory && capacity[i].Types[k].Listed {
				total.Memory = append(total.Memory, TypeTotal{name, capacity[i].Types[k].Allocatable, usage[i].Free[k]})
			}
		}
		for _, resource := range t.devices {
			for _, c := range s.Devices().Counts(resource) {
				if c.Node == n.ID {
					total.Devices = append(total.Devices, DeviceTotal{resource, c.Total, c.Free})
				}
			}
		}
		total.addCaches(divided)
		t.NUMANodes = append(t.NUMANodes, total)
		if group := usage[i].Group; group.Len() > 1 && group.Lowest() == n.ID {
			t.Groups = append(t.Groups, group.Nodes())
		}
	}
	slices.SortFunc(t.Groups, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return t
}
