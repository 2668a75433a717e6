package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	sharedMillicores = describe("kubelet_cpu_manager_shared_pool_size_millicores",
		"CPUs that could become exclusive now, in thousandths; reserved ones are not among them.")
	exclusiveCPUs = describe("kubelet_cpu_manager_exclusive_cpu_allocation_count", "CPUs that are assigned to pods and not in the node shared pool.")
	exclusiveNUMA = describe("kubelet_cpu_manager_allocation_per_numa", "CPUs that are assigned to pods and not in the node shared pool, by NUMA node.", "numa_node")

	allocatableCPUs   = describe("paddock_allocatable_cpus", "CPUs that could ever be exclusive, by NUMA node.", "numa_node")
	allocatableMemory = describe("paddock_allocatable_memory_bytes", "Memory that can be assigned to pods, by NUMA node and type.", "numa_node", "resource_name")
	freeMemory        = describe("paddock_free_memory_bytes",
		"Memory that is assigned to no pod, by NUMA node and type; inside a group of NUMA nodes only the sum is meaningful.", "numa_node", "resource_name")
	strandedCPUs = describe("paddock_stranded_cpus",
		"Free CPUs that requests like those of the node's pods would leave over, on average, by NUMA node.", "numa_node")
	offlineCPUs = describe("paddock_offline_cpus",
		"Offline CPUs that are assigned to pods. They are in no other gauge of CPUs.")
	degradedPods        = describe("paddock_degraded_pods", "Pods with CPUs that are offline.")
	displacedContainers = describe("paddock_displaced_containers",
		"Containers of degraded pods with none of their CPUs online; they run on shared CPUs.")
	remoteDevices = describe("paddock_remote_device_pods",
		"Pods with CPUs or memory on another NUMA node or socket than one of their devices, by the farthest of them.", "distance")
	unknownDevices = describe("paddock_unknown_device_pods",
		"Pods whose devices are unknown, or the NUMA nodes of these devices; CPUs and memory are not aligned with them.")
	revision   = describe("paddock_state_revision", "Revision of the state; it increases with every change.")
	pods       = describe("paddock_pods", "Pods that are admitted.")
	containers = describe("paddock_containers", "Containers of admitted pods, by the isolation of their CPUs.", "isolation")
	assigned   = describe("paddock_container_assignments",
		"Containers of admitted pods that have CPUs or memory assigned now, of the node or of their pod's pool.", "resource_name", "assignment_type")
	unreleased = describe("paddock_unreleased_pods", "Pods that are gone and still have their assignments, because the release could not be written.")
	ready      = describe("paddock_ready", "1 where the condition for being ready is met, 0 where not.", "check")
)

// gauges is a collector that computes every value from one snapshot.
type gauges struct {
	snapshot func() *engine.Snapshot
	stranded func(*node.State) map[int]float64
	checks   []Check
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		sharedMillicores, exclusiveCPUs, exclusiveNUMA, allocatableCPUs, allocatableMemory, freeMemory,
		strandedCPUs, offlineCPUs, degradedPods, displacedContainers, remoteDevices, unknownDevices,
		revision, pods, containers, assigned, unreleased, ready,
		cacheWays, freeCacheWays, contiguousWays, bandwidth, freeBandwidth, cacheClasses, freeCacheClasses,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, c := range g.checks {
		value := 1.0
		if c.Ready() != nil {
			value = 0
		}
		set(ready, value, c.Name)
	}
	snapshot := g.snapshot()
	if snapshot == nil || snapshot.State == nil {
		return
	}
	s := snapshot.State
	set(revision, float64(s.Generation()))
	set(unreleased, float64(len(snapshot.Unreleased)))
	collectResources(s, set)
	collectCaches(s, set)
	if g.stranded != nil && s.Policy().StaticCPU {
		for id, cpus := range g.stranded(s) {
			set(strandedCPUs, cpus, strconv.Itoa(id))
		}
	}
	collectPods(s, set)
	collectDevices(s, set)
	collectAssignments(s, set)
}

type setter func(d *prometheus.Desc, value float64, labels ...string)

func collectResources(s *node.State, set setter) {
	var assigned cpuset.Builder
	for g := range s.AllGrants() {
		assigned.AddSet(g.CPUs())
	}
	// Offline CPUs are not free, and their NUMA node is not known. The sums are correct without
	// them.
	exclusive, allocatable := assigned.Set().Intersection(s.Machine().AllCPUs()), s.AllocatableCPUs()
	set(sharedMillicores, float64(s.SharedCPUs().Difference(s.Policy().ReservedCPUs).Len()*1000))
	set(exclusiveCPUs, float64(exclusive.Len()))
	for _, n := range s.Machine().CPUNodes() {
		id := strconv.Itoa(n.ID)
		set(exclusiveNUMA, float64(exclusive.IntersectionLen(n.CPUs)), id)
		set(allocatableCPUs, float64(allocatable.IntersectionLen(n.CPUs)), id)
	}
	if !s.Policy().StaticMemory {
		return
	}
	capacity, used := s.Memory().Capacity(), s.Memory().Nodes()
	for i, n := range capacity.Nodes() {
		id := strconv.Itoa(n.ID)
		for k, name := range capacity.Types() {
			if !n.Types[k].Listed {
				continue
			}
			set(allocatableMemory, float64(n.Types[k].Allocatable), id, name)
			set(freeMemory, float64(used[i].Free[k]), id, name)
		}
	}
}

func collectPods(s *node.State, set setter) {
	levels := map[node.Isolation]int{node.HostIsolation: 0, node.PodIsolation: 0, node.ContainerIsolation: 0}
	for g := range s.AllGrants() {
		for i := range g.Containers {
			if !g.Containers[i].Removed {
				levels[g.Isolation(i)]++
			}
		}
	}
	degraded, displaced := s.Degraded(), 0
	for _, d := range degraded {
		displaced += len(d.Displaced)
	}
	set(offlineCPUs, float64(s.Offline().Len()))
	set(degradedPods, float64(len(degraded)))
	set(displacedContainers, float64(displaced))
	set(pods, float64(s.NumGrants()))
	for level, n := range levels {
		set(containers, float64(n), level.String())
	}
}

// collectDevices counts the pods with remote devices and the pods with unknown devices.
func collectDevices(s *node.State, set setter) {
	distances := map[node.Distance]int{}
	unknown := 0
	for g := range s.AllGrants() {
		distances[s.Farthest(g)]++
		if len(s.UnknownDevices(g)) > 0 {
			unknown++
		}
	}
	set(remoteDevices, float64(distances[node.OtherNUMANode]), "numa_node")
	set(remoteDevices, float64(distances[node.OtherSocket]), "socket")
	set(unknownDevices, float64(unknown))
}

// collectAssignments sets the current numbers of the assignments that
// resource_manager_container_assignments counts. This is the "real-time view" of KEP-5526, which a
// counter cannot provide.
func collectAssignments(s *node.State, set setter) {
	type series struct{ resource, kind string }
	counts := map[series]int{}
	for _, resource := range []string{resourceCPU, resourceMemory} {
		for _, kind := range []string{nodeExclusive, podExclusive, podShared} {
			counts[series{resource, kind}] = 0
		}
	}
	kind := func(pooled, own bool) string {
		switch {
		case !pooled:
			return nodeExclusive
		case own:
			return podExclusive
		}
		return podShared
	}
	for g := range s.AllGrants() {
		for i, c := range g.Containers {
			asks := &g.Pod.Containers[i]
			if !c.CPUs.IsEmpty() {
				counts[series{resourceCPU, kind(!g.Pool.IsEmpty(), asks.Exclusive())}]++
			}
			if len(c.Memory) > 0 {
				counts[series{resourceMemory, kind(len(g.PoolMemory) > 0, len(asks.Memory) > 0)}]++
			}
		}
	}
	for of, n := range counts {
		set(assigned, float64(n), of.resource, of.kind)
	}
}
