package explain

import (
	"cmp"
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Place is a kind of nodes on which a pod of another size could run.
type Place struct {
	// Name is the name of the kind. It is needed only if there are several places.
	Name  string
	State *node.State
	// Nodes is the number of equal nodes.
	Nodes int
	// Takes reports whether the nodes take the pod. If nil, the planner decides.
	Takes func(s Sized) bool
}

// Sized is a pod of another size. CPUs, Bytes and Devices are how much more it requests than the
// original; they can be negative. Device is the resource of the devices, or empty.
type Sized struct {
	Pod            request.Pod
	CPUs           int
	Bytes, Devices int64
	Device         string
}

// Like describes the largest pods of a kind that nodes would admit now. Only one container grows:
// the one that requests the most CPUs, or the most memory if none requests CPUs. A pod-level budget
// grows with it.
type Like struct {
	// Container is the container that grows. Device is the extended resource of which the number is
	// varied, and DeviceContainer is the container that requests it. Both are empty if the pod
	// requests no device.
	Container       string `json:"container"`
	Device          string `json:"device,omitempty"`
	DeviceContainer string `json:"deviceContainer,omitempty"`
	// Undescribed are the extended resources of the pod that no node lists. Nothing is decided
	// about them.
	Undescribed []string `json:"undescribedDevices,omitempty"`
	// Notes are about devices of which the NUMA nodes are not given: with them, the pods can be
	// smaller.
	Notes []string `json:"notes,omitempty"`
	// CPUs and Bytes are what Container requests in the manifest. If Unlimited is set, no Memory
	// Manager assigns memory, and no amount of it is looked for.
	CPUs      int   `json:"cpus"`
	Bytes     int64 `json:"memory"`
	Unlimited bool  `json:"memoryNotLimited,omitempty"`
	// BudgetCPUs and BudgetBytes are the pod-level budget in the manifest. It grows by as much as
	// Container.
	BudgetCPUs  int         `json:"budgetCPUs,omitempty"`
	BudgetBytes int64       `json:"budgetMemory,omitempty"`
	Sizes       []LikeSizes `json:"sizes"`
}

// LikeSizes has the largest pods with one number of devices, each in the column of its name. A pod
// is nil if no node takes it.
type LikeSizes struct {
	Devices int64 `json:"devices,omitempty"`
	// MostCPUs has the most CPUs with the memory of the manifest.
	MostCPUs *LikeSize `json:"mostCPUs,omitempty"`
	// MostMemory has the most memory, in whole MiB, with the CPUs of the manifest.
	MostMemory *LikeSize `json:"mostMemory,omitempty"`
	// InProportion has the most CPUs with as much memory for each CPU as in the manifest.
	InProportion *LikeSize `json:"inProportion,omitempty"`
	// MostCPUsThenMemory has the most CPUs that are admitted with any amount of memory, and then
	// the most memory with them.
	MostCPUsThenMemory *LikeSize `json:"mostCPUsThenMemory,omitempty"`
	// Why is the reason why the pod of the manifest, with this number of devices, is rejected. Of
	// several kinds of nodes, it is that of the one with the most devices, and it is set only if
	// no pod is found.
	Why string `json:"why,omitempty"`
}

// LikeSize is a pod that nodes would admit.
type LikeSize struct {
	// CPUs and Bytes are those of the container that grows.
	CPUs  int   `json:"cpus"`
	Bytes int64 `json:"memory"`
	// Nodes counts the nodes that take such a pod now.
	Nodes int `json:"nodes"`
	// More is set if the search reached its bound: a larger pod may fit.
	More bool `json:"moreMayFit,omitempty"`
	// NotAligned is set for a pod that would be admitted without being aligned. AlignedCPUs is the
	// most with which it is aligned, if this was searched. Both are known for one node only.
	NotAligned  bool `json:"notAligned,omitempty"`
	AlignedCPUs int  `json:"alignedCPUs,omitempty"`
}

// all returns the pods that were found.
func (r *LikeSizes) all() []*LikeSize {
	return slices.DeleteFunc([]*LikeSize{r.MostCPUs, r.MostMemory, r.InProportion, r.MostCPUsThenMemory}, func(s *LikeSize) bool { return s == nil })
}

// None reports whether no node takes such a pod.
func (r *LikeSizes) None() bool { return len(r.all()) == 0 }

// None reports whether no node takes such a pod of any size.
func (l *Like) None() bool {
	return (l.CPUs > 0 || l.Bytes > 0) && !slices.ContainsFunc(l.Sizes, func(r LikeSizes) bool { return !r.None() })
}

// LikeOn returns the largest pods like pod on the places. It varies the number of devices in powers
// of two, up to what one place has, and includes the number of the manifest. The error is that of
// the context.
func LikeOn(ctx context.Context, places []Place, pod request.Pod) (Like, error) {
	l := &likeSearch{ctx: ctx, places: places, pod: pod}
	l.choose()
	for _, n := range l.counts() {
		l.devices = n
		sizes := LikeSizes{
			Devices: n, MostCPUs: l.mostCPUs(l.sameBytes), MostMemory: l.mostMemory(),
			InProportion: l.share(), MostCPUsThenMemory: l.both(),
		}
		l.judge(&sizes)
		l.Sizes = append(l.Sizes, sizes)
	}
	return l.Like, ctx.Err()
}

type likeSearch struct {
	Like
	ctx    context.Context
	places []Place
	pod    request.Pod
	// has is the number of devices in the manifest, and devices that of the present row.
	has, devices int64
}

// choose chooses the containers that grow.
func (l *likeSearch) choose() {
	own := l.pod.QoS == request.Guaranteed && l.pod.Kind != request.Unmanaged
	for i := range l.pod.Containers {
		c := &l.pod.Containers[i]
		if c.Type == request.Init {
			continue
		}
		bytes, _ := c.Memory.Get(machine.Memory)
		if !own {
			bytes = 0
		}
		if cpus := c.CPUs; own && (l.Container == "" || cpus > l.CPUs || cpus == l.CPUs && bytes > l.Bytes) {
			l.Container, l.CPUs, l.Bytes = c.Name, cpus, bytes
		}
		for _, d := range c.Devices {
			switch described := l.described(d.Resource); {
			case !described && !slices.Contains(l.Undescribed, d.Resource):
				l.Undescribed = append(l.Undescribed, d.Resource)
			case described && l.Device == "":
				l.Device, l.DeviceContainer, l.has = d.Resource, c.Name, d.Value
			}
		}
	}
	l.noteUnplaced()
	l.BudgetCPUs = l.pod.BudgetCPUs
	l.BudgetBytes, _ = l.pod.BudgetMemory.Get(machine.Memory)
	l.Unlimited = !slices.ContainsFunc(l.places, func(p Place) bool { return p.State.Policy().StaticMemory })
}

// noteUnplaced adds a note about the places that do not have the NUMA nodes of the devices.
func (l *likeSearch) noteUnplaced() {
	for i := range l.places {
		p := &l.places[i]
		note := p.State.UnplacedNote(l.Device)
		if note == "" || p.State.Demand(&l.pod).Path == node.Unaligned {
			continue
		}
		if p.Name != "" {
			note = p.Name + ": " + note
		}
		l.Notes = append(l.Notes, note)
	}
}

// described reports whether a place lists devices of the resource.
func (l *likeSearch) described(resource string) bool {
	return slices.ContainsFunc(l.places, func(p Place) bool { return p.State.Devices().Inventory().Has(resource) })
}

// judge adds which of the pods would not be aligned, and why the manifest's is rejected.
func (l *likeSearch) judge(sizes *LikeSizes) {
	sizes.Why = l.why(sizes)
	if len(l.places) != 1 || l.places[0].Takes != nil {
		return
	}
	s := l.places[0].State
	for _, found := range sizes.all() {
		found.NotAligned = l.apart(s, found.CPUs, found.Bytes)
		switch {
		case !found.NotAligned:
		case found == sizes.MostCPUs:
			found.AlignedCPUs = l.mostAligned(s, found.CPUs, l.sameBytes)
		case found == sizes.InProportion:
			found.AlignedCPUs = l.mostAligned(s, found.CPUs, l.inProportion)
		}
	}
}

// why returns why the pod of the manifest, with the present number of devices, is rejected. Of
// several places, it asks the one with the most devices, and only if no pod was found.
func (l *likeSearch) why(sizes *LikeSizes) string {
	if l.CPUs == 0 && l.Bytes == 0 || len(l.places) == 0 || len(l.places) > 1 && !sizes.None() {
		return ""
	}
	devices := func(p Place) int { return len(p.State.Devices().Inventory().Devices(l.Device)) }
	place := slices.MaxFunc(l.places, func(a, b Place) int { return cmp.Compare(devices(a), devices(b)) })
	sized, _ := l.sized(l.CPUs, l.Bytes)
	r := place.State.Plan(sized.Pod).Rejection
	switch {
	case r == nil:
		return ""
	case len(l.places) > 1:
		return "on " + place.Name + ": " + r.Detail
	}
	return r.Detail
}

// mostAligned returns the largest number of CPUs below most with which the pod is aligned.
func (l *likeSearch) mostAligned(s *node.State, most int, bytesFor func(cpus int) int64) int {
	by := int((&search{state: s}).unit(request.CPU))
	for n := most - by; n > 0; n -= by {
		if l.takes(&l.places[0], n, bytesFor(n)) && !l.apart(s, n, bytesFor(n)) {
			return n
		}
	}
	return 0
}

// apart reports whether the node would admit the pod without aligning it.
func (l *likeSearch) apart(s *node.State, cpus int, bytes int64) bool {
	sized, _ := l.sized(cpus, bytes)
	plan := s.Plan(sized.Pod)
	if plan.Rejection != nil {
		return false
	}
	after, err := s.Apply(plan)
	return err == nil && slices.ContainsFunc(AlignedOf(after, plan.Grant), func(a Aligned) bool { return a.Answer == AlignedNo })
}

// counts returns the numbers of devices to try.
func (l *likeSearch) counts() []int64 {
	if l.Device == "" {
		return []int64{0}
	}
	most := 0
	for _, p := range l.places {
		most = max(most, len(p.State.Devices().Inventory().Devices(l.Device)))
	}
	counts := []int64{l.has}
	for n := int64(1); n <= int64(most); n *= 2 {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return slices.Compact(counts)
}

// sized returns the pod with other amounts.
func (l *likeSearch) sized(cpus int, bytes int64) (Sized, bool) {
	s := Sized{CPUs: cpus - l.CPUs, Bytes: bytes - l.Bytes, Device: l.Device}
	var changes []Change
	if s.CPUs != 0 {
		changes = append(changes, Change{Container: l.Container, Resource: request.CPU, From: int64(l.CPUs), To: int64(cpus)})
		if l.pod.BudgetCPUs > 0 {
			changes = append(changes, Change{Resource: request.CPU, From: int64(l.pod.BudgetCPUs), To: int64(l.pod.BudgetCPUs + s.CPUs)})
		}
	}
	if s.Bytes != 0 {
		changes = append(changes, Change{Container: l.Container, Resource: machine.Memory, From: l.Bytes, To: bytes})
		if budget, has := l.pod.BudgetMemory.Get(machine.Memory); has {
			changes = append(changes, Change{Resource: machine.Memory, From: budget, To: budget + s.Bytes})
		}
	}
	s.Pod = applied(l.pod, changes)
	if l.Device != "" {
		s.Devices = l.devices - l.has
		s.Pod = applied(s.Pod, []Change{{Container: l.DeviceContainer, Resource: l.Device, From: l.has, To: l.devices}})
	}
	return s, AgainstAPI(s.Pod).Text == ""
}

// takes reports whether a place takes the pod with these amounts.
func (l *likeSearch) takes(p *Place, cpus int, bytes int64) bool {
	s, valid := l.sized(cpus, bytes)
	switch {
	case !valid || l.ctx.Err() != nil:
		return false
	case p.Takes != nil:
		return p.Takes(s)
	}
	return p.State.Plan(s.Pod).Rejection == nil
}

// nodes returns how many nodes take the pod with these amounts.
func (l *likeSearch) nodes(cpus int, bytes int64) (n int) {
	for i := range l.places {
		if l.takes(&l.places[i], cpus, bytes) {
			n += l.places[i].Nodes
		}
	}
	return n
}

// found returns a pod that some node takes, with the number of these nodes.
func (l *likeSearch) found(cpus int, bytes int64, more bool) *LikeSize {
	return &LikeSize{CPUs: cpus, Bytes: bytes, Nodes: l.nodes(cpus, bytes), More: more}
}

// mostCPUs returns the pod with the most CPUs that any place takes with this much memory. It tries
// all numbers, the largest first, so that the answer is exact.
func (l *likeSearch) mostCPUs(bytesFor func(cpus int) int64) *LikeSize {
	if l.CPUs == 0 {
		return nil
	}
	most := 0
	for i := range l.places {
		p := &l.places[i]
		by := l.unit(p)
		for n := p.State.AvailableCPUs().Len() / by * by; n > most; n -= by {
			if l.takes(p, n, bytesFor(n)) {
				most = n
			}
		}
	}
	if most == 0 {
		return nil
	}
	return l.found(most, bytesFor(most), false)
}

// unit is the number of CPUs by which a container can grow on a place.
func (l *likeSearch) unit(p *Place) int { return int((&search{state: p.State}).unit(request.CPU)) }

// sameBytes returns the memory of the manifest.
func (l *likeSearch) sameBytes(int) int64 { return l.Bytes }

// share keeps the proportion of the manifest.
func (l *likeSearch) share() *LikeSize {
	if l.Bytes == 0 || l.Unlimited {
		return nil
	}
	return l.mostCPUs(l.inProportion)
}

// inProportion returns the memory that belongs to a number of CPUs.
func (l *likeSearch) inProportion(cpus int) int64 {
	return l.Bytes / int64(l.CPUs) * int64(cpus) / mebi * mebi
}

// maxExactPlaces is how many places are searched for amounts that fit although smaller ones do not.
const maxExactPlaces = 16

func (l *likeSearch) mostMemory() *LikeSize {
	if l.Bytes == 0 || l.Unlimited {
		return nil
	}
	var most int64
	var more bool
	for i := range l.places {
		p := l.prober(&l.places[i])
		if p == nil || p.free*mebi <= most {
			continue
		}
		if bytes, cut := p.mostBytes(int64(l.CPUs), len(l.places) <= maxExactPlaces); bytes > most {
			most, more = bytes, cut
		}
	}
	if most == 0 {
		return nil
	}
	return l.found(l.CPUs, most, more)
}

// both leaves both amounts free to change. Under restricted, it finds pods whose devices, CPUs and
// memory need the same number of NUMA nodes where those of the manifest do not.
func (l *likeSearch) both() *LikeSize {
	if l.CPUs == 0 || l.Bytes == 0 || l.Unlimited {
		return nil
	}
	var cpus, bytes int64
	var more bool
	exact := len(l.places) <= maxExactPlaces
	for i := range l.places {
		place := &l.places[i]
		p := l.prober(place)
		if p == nil || int64(place.State.AvailableCPUs().Len()) < cpus {
			continue
		}
		n, least, cut := p.mostCPUs(int64(l.unit(place)), exact)
		if n == 0 || n < cpus {
			continue
		}
		most, also := p.mostBytes(n, exact)
		if most = max(most, least); n > cpus || most > bytes {
			cpus, bytes, more = n, most, cut || also
		}
	}
	if cpus == 0 {
		return nil
	}
	return l.found(int(cpus), bytes, more)
}

// prober returns a prober that plans the pod on a place, or nil if the place assigns no memory.
func (l *likeSearch) prober(place *Place) *prober {
	s := place.State
	if !s.Policy().StaticMemory {
		return nil
	}
	p := &prober{ctx: l.ctx, s: s, memory: true}
	// In the largest pods, the container that grows needs more than any init container.
	const more = 1 << 20
	grown, _ := l.sized(l.CPUs+more, l.Bytes+more*mebi)
	if demand := s.Demand(&grown.Pod); demand.Path == node.AsOne || demand.Path == node.AsPool {
		p.otherCPUs = int64(demand.Together.CPUs - l.CPUs - more)
		p.otherBytes = demand.Together.Amount(request.Memory) - l.Bytes - more*mebi
	}
	p.thresholds()
	p.ask = func(cpus, bytes int64) answer { return l.answer(place, int(cpus), bytes) }
	return p
}

// answer returns whether a place takes the pod with these amounts, and what it means for larger
// pods if it does not.
func (l *likeSearch) answer(place *Place, cpus int, bytes int64) answer {
	sized, valid := l.sized(cpus, bytes)
	switch {
	case !valid:
		return rejects
	case place.Takes != nil && place.Takes(sized):
		return fits
	}
	s := place.State
	plan := s.Plan(sized.Pod)
	switch {
	case plan.Rejection == nil && place.Takes == nil:
		return fits
	case plan.Rejection == nil:
		return never // The node has too little in all, which alignment has no part in.
	}
	// A container that is served after the one that grows may find room if this one is larger.
	at := func(name string) int {
		return slices.IndexFunc(l.pod.Containers, func(c request.Container) bool { return c.Name == name })
	}
	if at(plan.Rejection.Container) > at(l.Container) {
		return rejects
	}
	return answerOf(s, plan)
}
