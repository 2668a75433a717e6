package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Random scenarios cover machines of many shapes, every policy, scope and option, and histories of
// pods that come, go, stop and are admitted again after restarts of the kubelet. They do not avoid
// cases in which the managers are wrong. The same seed gives the same scenarios.

const (
	mebi = int64(1) << 20
	gibi = int64(1) << 30
)

// source draws random values.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 0))} }

func (r source) chance(p float64) bool { return r.Float64() < p }

func pick[T any](r source, list ...T) T { return list[r.IntN(len(list))] }

// cpuInfo, numaInfo and machineInfo are the fields of cAdvisor's MachineInfo that the managers
// read.
type (
	cacheInfo struct {
		ID    int    `json:"id"`
		Size  int64  `json:"size"`
		Type  string `json:"type"`
		Level int    `json:"level"`
	}
	coreInfo struct {
		ID       int         `json:"core_id"`
		Threads  []int       `json:"thread_ids"`
		Uncore   []cacheInfo `json:"uncore_caches"`
		SocketID int         `json:"socket_id"`
	}
	pagesInfo struct {
		// PageSize is in KiB.
		PageSize int64 `json:"page_size"`
		NumPages int64 `json:"num_pages"`
	}
	numaInfo struct {
		ID        int         `json:"node_id"`
		Memory    int64       `json:"memory"`
		HugePages []pagesInfo `json:"hugepages"`
		Cores     []coreInfo  `json:"cores"`
		Distances []int       `json:"distances,omitempty"`
	}
	machineInfo struct {
		NumCores         int         `json:"num_cores"`
		NumPhysicalCores int         `json:"num_physical_cores"`
		NumSockets       int         `json:"num_sockets"`
		Memory           int64       `json:"memory_capacity"`
		HugePages        []pagesInfo `json:"hugepages"`
		Topology         []numaInfo  `json:"topology"`
	}
)

// shape describes a random machine.
type shape struct {
	sockets, numaPerSocket, cores, threads int
	// uncore is the number of cores that share a cache. If zero, the machine reports no cache.
	uncore int
	// numbering describes how CPU ids are distributed over the machine.
	numbering string
	// memory is the number of bytes of each NUMA node.
	memory int64
	// far is the number of NUMA nodes with memory and without CPUs.
	far int
	// uneven takes cores from the last NUMA node, gap skips an id, and flat leaves out distances.
	uneven, gap, flat  bool
	pages2Mi, pages1Gi int64
}

func (r source) shape() shape {
	s := shape{
		sockets: pick(r, 1, 1, 2, 2, 2, 4), numaPerSocket: pick(r, 1, 1, 1, 2, 4), cores: pick(r, 2, 3, 4, 4, 6, 8, 8, 12, 16), threads: pick(r, 1, 2, 2, 2, 4),
		numbering: pick(r, "halves", "halves", "adjacent", "round-robin"), memory: pick(r, int64(4), 8, 16, 16, 32, 64) * gibi,
		uneven: r.chance(0.08), gap: r.chance(0.04), flat: r.chance(0.1),
	}
	for s.sockets*s.numaPerSocket > 8 || s.sockets*s.numaPerSocket*s.cores*s.threads > 256 {
		s.numaPerSocket, s.cores = max(1, s.numaPerSocket/2), max(2, s.cores/2)
	}
	if r.chance(0.6) {
		s.uncore = pick(r, 2, 3, 4, 4, 8)
	}
	if r.chance(0.12) {
		s.far = 1 + r.IntN(2)
	}
	if r.chance(0.35) {
		s.pages2Mi = pick(r, int64(64), 256, 512)
	}
	if r.chance(0.2) {
		s.pages1Gi = pick(r, int64(1), 2, 3)
	}
	// The kernel takes huge pages from the memory. The rest holds what is reserved.
	if s.pages1Gi*gibi+2*s.pages2Mi*mebi > s.memory-612*mebi {
		s.pages2Mi = 64
	}
	return s
}

func (s shape) machine() machineInfo {
	numa := s.sockets * s.numaPerSocket
	perNUMA := make([]int, numa)
	m := machineInfo{NumSockets: s.sockets}
	for i := range perNUMA {
		perNUMA[i] = s.cores
		if s.uneven && i == numa-1 {
			perNUMA[i] = max(1, s.cores-1-s.cores/4)
		}
		m.NumPhysicalCores += perNUMA[i]
	}
	m.NumCores = m.NumPhysicalCores * s.threads
	core, cache := 0, 0
	for i := range numa + s.far {
		n := numaInfo{ID: i, Memory: s.memory, Cores: []coreInfo{}}
		if s.gap && i == numa+s.far-1 {
			n.ID++
		}
		if s.pages2Mi > 0 {
			n.HugePages = append(n.HugePages, pagesInfo{2048, s.pages2Mi})
		}
		if s.pages1Gi > 0 {
			n.HugePages = append(n.HugePages, pagesInfo{1 << 20, s.pages1Gi})
		}
		if i < numa {
			for c := range perNUMA[i] {
				if s.uncore > 0 && c%s.uncore == 0 {
					cache++
				}
				info := coreInfo{ID: core, SocketID: i / s.numaPerSocket}
				for t := range s.threads {
					info.Threads = append(info.Threads, s.cpu(i, c, core, t, numa, m.NumPhysicalCores))
				}
				if s.uncore > 0 {
					info.Uncore = []cacheInfo{{ID: cache - 1, Size: 32 << 20, Type: "Unified", Level: 3}}
				}
				n.Cores = append(n.Cores, info)
				core++
			}
		}
		if !s.flat {
			for j := range numa + s.far {
				n.Distances = append(n.Distances, s.distance(i, j, numa))
			}
		}
		m.Memory += n.Memory
		m.Topology = append(m.Topology, n)
	}
	return m
}

// cpu returns the id of a thread. Machines with uneven NUMA nodes are numbered in halves.
func (s shape) cpu(numaID, c, core, thread, numa, cores int) int {
	switch {
	case s.uneven || s.numbering == "halves":
		return thread*cores + core
	case s.numbering == "adjacent":
		return core*s.threads + thread
	default:
		return thread*cores + c*numa + numaID
	}
}

func (s shape) distance(i, j, numa int) int {
	switch {
	case i == j:
		return 10
	case i >= numa || j >= numa:
		return 28
	case i/s.numaPerSocket == j/s.numaPerSocket:
		return 12
	default:
		return 21 + (i/s.numaPerSocket+j/s.numaPerSocket)%2
	}
}

// history generates one scenario.
type history struct {
	source
	machine shape
	Contents
	devices *inventory
	pods    []*v1.Pod
}

// Contents selects what random scenarios have in addition to ordinary pods. It does not change what
// is drawn earlier from the same seed.
type Contents struct {
	// Pools gives half of the pods pod-level resources, and sets the gates for them.
	Pools bool
	// Devices gives the node device plugins, and most pods devices.
	Devices bool
}

// Random returns a bare scenario as a line.
func Random(seed uint64, contents Contents) ([]byte, error) {
	r := newSource(seed)
	h := &history{source: r, machine: r.shape(), Contents: contents}
	scenario := map[string]any{"name": fmt.Sprintf("random-%d", seed), "machine": h.machine.machine()}
	config := h.config()
	scenario["kubeletConfig"] = config
	if h.Devices {
		h.devices = h.inventory(config["topologyManagerPolicy"] == "single-numa-node")
		scenario["devices"] = h.devices
	}
	scenario["events"] = h.events()
	scenario["pods"] = h.pods
	return json.Marshal(scenario)
}

func (h *history) config() map[string]any {
	numa := h.machine.sockets*h.machine.numaPerSocket + h.machine.far
	c := map[string]any{
		"cpuManagerPolicy":      pick(h.source, "static", "static", "static", "static", "static", "none"),
		"topologyManagerPolicy": pick(h.source, "none", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node"),
		"topologyManagerScope":  pick(h.source, "container", "pod"),
		"kubeReserved":          map[string]string{"cpu": pick(h.source, "500m", "1", "1", "2"), "memory": "512Mi"},
		"evictionHard":          map[string]string{"memory.available": "100Mi"},
	}
	gates := map[string]bool{"CPUManagerPolicyAlphaOptions": true}
	if h.Pools {
		gates["PodLevelResources"], gates["PodLevelResourceManagers"] = true, true
	}
	c["featureGates"] = gates
	if h.chance(0.3) {
		c["reservedSystemCPUs"] = pick(h.source, "0", "0-1", "1")
		delete(c, "kubeReserved")
		c["systemReserved"] = map[string]string{"memory": "512Mi"}
	}
	if c["cpuManagerPolicy"] == "static" {
		if options := h.cpuOptions(); len(options) > 0 {
			c["cpuManagerPolicyOptions"] = options
		}
	}
	if h.chance(0.55) {
		c["memoryManagerPolicy"] = "Static"
		c["reservedMemory"] = h.reservedMemory(numa)
	}
	if h.chance(0.25) && c["topologyManagerPolicy"] != "none" {
		options := map[string]string{"prefer-closest-numa-nodes": "true"}
		if numa > 8 {
			options["max-allowable-numa-nodes"] = strconv.Itoa(numa)
		}
		c["topologyManagerPolicyOptions"] = options
	}
	return c
}

// cpuOptions draws options that can be set together.
func (h *history) cpuOptions() map[string]string {
	options := map[string]string{}
	if h.machine.threads > 1 && h.chance(0.35) {
		options["full-pcpus-only"] = "true"
	}
	if h.chance(0.2) {
		options["strict-cpu-reservation"] = "true"
	}
	switch h.IntN(8) {
	case 0, 1:
		if h.machine.uncore > 0 {
			options["prefer-align-cpus-by-uncorecache"] = "true"
		}
	case 2:
		options["distribute-cpus-across-numa"] = "true"
	case 3:
		options["distribute-cpus-across-cores"] = "true"
		delete(options, "full-pcpus-only")
	case 4:
		options["align-by-socket"] = "true"
	}
	return options
}

// reservedMemory returns the reservation that the kubelet expects: 512Mi of kubeReserved or
// systemReserved and 100Mi of the eviction threshold, on one NUMA node or in two parts.
func (h *history) reservedMemory(numa int) []map[string]any {
	on := func(id int, mib int) map[string]any {
		return map[string]any{"numaNode": id, "limits": map[string]string{"memory": fmt.Sprintf("%dMi", mib)}}
	}
	if numa-h.machine.far > 1 && h.chance(0.4) {
		return []map[string]any{on(0, 412), on(1, 200)}
	}
	return []map[string]any{on(0, 612)}
}

func (h *history) events() []map[string]any {
	var events []map[string]any
	var live []string
	add := func(op string, more ...string) {
		e := map[string]any{"op": op}
		for i := 0; i+1 < len(more); i += 2 {
			e[more[i]] = more[i+1]
		}
		events = append(events, e)
	}
	for range 5 + h.IntN(8) {
		switch x := h.Float64(); {
		case x < 0.62 || len(live) == 0:
			uid := h.pod()
			add("admit", "pod", uid)
			live = append(live, uid)
		case x < 0.80:
			i := h.IntN(len(live))
			add("removePod", "pod", live[i])
			live = append(live[:i:i], live[i+1:]...)
		case x < 0.84:
			add("reconcile")
		case x < 0.88:
			uid := pick(h.source, live...)
			add("stopContainer", "pod", uid, "container", "c0")
		default:
			// The kubelet admits all pods again after its restart.
			if h.Devices && h.chance(0.5) {
				add("restart", "plugins", "late")
			} else {
				add("restart")
			}
			for _, uid := range live {
				add("admit", "pod", uid)
			}
		}
	}
	return events
}

// pod draws a pod and returns its UID.
func (h *history) pod() string {
	uid := fmt.Sprintf("p%d", len(h.pods))
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
	h.pods = append(h.pods, p)
	h.containers(p)
	if h.Devices && h.chance(0.75) {
		h.giveDevices(p)
	}
	return uid
}

func (h *history) containers(p *v1.Pod) {
	if h.Pools && h.chance(0.5) {
		h.poolPod(p)
		return
	}
	kind := pick(h.source, "guaranteed", "guaranteed", "guaranteed", "guaranteed", "burstable", "best-effort")
	for i := range pick(h.source, 1, 1, 1, 2, 3) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", i), Resources: h.resources(kind)})
	}
	for i := range pick(h.source, 0, 0, 0, 1, 2) {
		c := v1.Container{Name: fmt.Sprintf("i%d", i), Resources: h.resources(kind)}
		if h.chance(0.4) {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func (h *history) resources(kind string) v1.ResourceRequirements {
	var r v1.ResourceRequirements
	switch kind {
	case "guaranteed":
		r.Requests = v1.ResourceList{v1.ResourceCPU: h.cpus(), v1.ResourceMemory: h.memory()}
		if h.chance(0.2) && h.machine.pages2Mi > 0 {
			r.Requests["hugepages-2Mi"] = *resource.NewQuantity(pick(h.source, int64(2), 16, 64, 2*h.machine.pages2Mi)*mebi, resource.BinarySI)
		}
		if h.chance(0.15) && h.machine.pages1Gi > 0 {
			r.Requests["hugepages-1Gi"] = *resource.NewQuantity((1+h.Int64N(2*h.machine.pages1Gi))*gibi, resource.BinarySI)
		}
		r.Limits = r.Requests.DeepCopy()
	case "burstable":
		r.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(pick(h.source, "100m", "500m", "1"))}
	}
	return r
}

// cpus draws an amount: a small one, or one near the size of a cache, a NUMA node or a socket.
func (h *history) cpus() resource.Quantity {
	m := h.machine
	numa := m.cores * m.threads
	n := pick(h.source, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, m.uncore*m.threads, m.uncore*m.threads+1, numa/4, numa/2, numa/2, numa-2, numa-1, numa, numa+2, numa*m.numaPerSocket, 3*numa/2)
	if m.threads > 1 && h.chance(0.5) {
		n -= n % m.threads
	}
	n = max(1, n)
	if h.chance(0.08) {
		return *resource.NewMilliQuantity(int64(n)*1000-500, resource.DecimalSI)
	}
	return *resource.NewQuantity(int64(n), resource.DecimalSI)
}

func (h *history) memory() resource.Quantity {
	m := h.machine.memory
	n := pick(h.source, 64*mebi, 128*mebi, 256*mebi, 512*mebi, gibi, gibi, 2*gibi, m/4, m/2, m/2, m-gibi, m, m+m/2)
	return *resource.NewQuantity(n/mebi*mebi, resource.BinarySI)
}

// poolPod gives a pod a budget and containers that fit into it. A container without resources
// shares.
func (h *history) poolPod(p *v1.Pod) {
	cpus, memory := h.cpus(), h.memory()
	whole := v1.ResourceList{v1.ResourceCPU: cpus, v1.ResourceMemory: memory}
	p.Spec.Resources = &v1.ResourceRequirements{Requests: whole, Limits: whole.DeepCopy()}
	left, bytes := cpus.Value(), memory.Value()
	for i := range 1 + h.IntN(3) {
		c := v1.Container{Name: fmt.Sprintf("c%d", i)}
		if n, b := int64(0), bytes/2/mebi*mebi; left > 0 && b > 0 && h.chance(0.6) {
			n = 1 + h.Int64N(left)
			if h.chance(0.4) {
				n = max(1, left/2)
			}
			left, bytes = left-n, bytes-b
			list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(b, resource.BinarySI)}
			c.Resources = v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
		}
		if i > 0 && h.chance(0.3) {
			if h.chance(0.5) {
				always := v1.ContainerRestartPolicyAlways
				c.RestartPolicy = &always
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			continue
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// inventory draws one or two resources. Devices without a NUMA node have the highest ids. Devices
// near several NUMA nodes are drawn only if single is set: otherwise Paddock takes the nearest
// device, while the plugins of this package, which cannot know the aligned NUMA nodes, take the
// lowest id.
func (h *history) inventory(single bool) *inventory {
	all := &inventory{Resources: map[string][]deviceEntry{}}
	var ids []int
	for _, n := range h.machine.machine().Topology {
		ids = append(ids, n.ID)
	}
	for _, name := range []string{"nvidia.com/gpu", "example.com/nic"}[:1+h.IntN(2)] {
		near := slices.Clone(ids)
		h.Shuffle(len(near), func(i, j int) { near[i], near[j] = near[j], near[i] })
		near = near[:1+h.IntN(len(near))]
		if h.chance(0.6) {
			near = ids // On most machines, every NUMA node has some.
		}
		each := pick(h.source, 1, 2, 2, 4)
		interleaved, pairs := h.chance(0.3), single && len(ids) > 1 && h.chance(0.2)
		var list []deviceEntry
		for i := range each * len(near) {
			at := near[i/each]
			if interleaved {
				at = near[i%len(near)]
			}
			d := deviceEntry{ID: fmt.Sprintf("d%02d", i), NUMANodes: []int{at}}
			if pairs { // All devices alike: the plugin and Paddock then prefer the same ones.
				d.NUMANodes = append(d.NUMANodes, ids[(slices.Index(ids, at)+1+h.IntN(len(ids)-1))%len(ids)])
			}
			list = append(list, d)
		}
		if h.chance(0.1) {
			for i := range list {
				list[i].NUMANodes = nil
			}
		}
		if h.chance(0.15) {
			for i := range 1 + h.IntN(2) {
				list = append(list, deviceEntry{ID: fmt.Sprintf("z%02d", i)})
			}
		}
		if no := false; h.chance(0.15) {
			list[h.IntN(len(list))].Healthy = &no
		}
		all.Resources[name] = list
	}
	return all
}

// giveDevices lets containers of a pod request devices. All requests for one resource have the same
// number, so that a container takes everything that an init container left. A pod with pod-level
// resources requests only one resource: with several, chance would decide which devices a container
// takes, and of which resource first.
func (h *history) giveDevices(p *v1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(h.devices.Resources)) {
		devices := len(h.devices.Resources[name])
		if len(h.devices.Resources) > 1 && (h.chance(0.4) || p.Spec.Resources != nil && name == "nvidia.com/gpu") {
			continue
		}
		n := pick(h.source, 1, 1, 1, 2, 2, 3, 4, devices/2, devices)
		for i, c := range containers(p) {
			if first := i == len(p.Spec.InitContainers); n > 0 && (first || h.chance(0.35)) {
				request(c, v1.ResourceName(name), n)
			}
		}
	}
}

func request(c *v1.Container, name v1.ResourceName, n int) {
	amount := *resource.NewQuantity(int64(n), resource.DecimalSI)
	for _, list := range []*v1.ResourceList{&c.Resources.Requests, &c.Resources.Limits} {
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = amount
	}
}
