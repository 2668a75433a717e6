package explain

import (
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Place is a node on which a pod of another size could run.
type Place struct {
	State *node.State
	// Takes reports whether the node takes the pod. If nil, the node's planner decides.
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
	// CPUs and Bytes are what Container requests in the manifest. If Unlimited is set, no Memory
	// Manager assigns memory, and no amount of it is looked for.
	CPUs      int   `json:"cpus"`
	Bytes     int64 `json:"memory"`
	Unlimited bool  `json:"memoryNotLimited,omitempty"`
	// BudgetCPUs and BudgetBytes are the pod-level budget in the manifest. It grows by as much as
	// Container.
	BudgetCPUs  int       `json:"budgetCPUs,omitempty"`
	BudgetBytes int64     `json:"budgetMemory,omitempty"`
	Sizes       []LikeRow `json:"sizes"`
}

// LikeRow has the largest pods with one number of devices. An amount is 0 if no node takes such a
// pod.
type LikeRow struct {
	Devices int64 `json:"devices,omitempty"`
	// MostCPUs is the largest number of CPUs with the memory of the manifest. CPUPlaces counts the
	// nodes that take such a pod now, and the other Places those that take the other pods.
	MostCPUs  int `json:"mostCPUs"`
	CPUPlaces int `json:"mostCPUsNodes"`
	// MostBytes is the largest amount of memory, in whole MiB, with the CPUs of the manifest. If
	// MoreBytes is set, more may fit.
	MostBytes  int64 `json:"mostMemory"`
	BytePlaces int   `json:"mostMemoryNodes"`
	MoreBytes  bool  `json:"moreMemoryMayFit,omitempty"`
	// Share is the largest number of CPUs with ShareBytes of memory, which is as much for each CPU
	// as in the manifest.
	Share       int   `json:"proportionalCPUs"`
	ShareBytes  int64 `json:"proportionalMemory"`
	SharePlaces int   `json:"proportionalNodes"`
	// Apart has the fields above with pods that would be admitted without being aligned; see
	// AlignedOf. It is known for one node only.
	Apart []string `json:"notAligned,omitempty"`
	// AlignedCPUs and AlignedShare are the largest numbers of CPUs with which such a pod is
	// aligned, where MostCPUs and Share are not.
	AlignedCPUs  int `json:"alignedCPUs,omitempty"`
	AlignedShare int `json:"alignedProportionalCPUs,omitempty"`
	// Why is the reason why the pod of the manifest, with this number of devices, is rejected. It
	// is set if no amount is found.
	Why string `json:"why,omitempty"`
}

// None reports whether no place takes such a pod of any size.
func (l *Like) None() bool {
	return !slices.ContainsFunc(l.Sizes, func(r LikeRow) bool { return r.MostCPUs > 0 || r.MostBytes > 0 || l.CPUs == 0 && l.Bytes == 0 })
}

// LikeOn returns the largest pods like pod on the places. count has the number of equal nodes of
// each place. LikeOn varies the number of devices in powers of two, up to what one place has, and
// includes the number of the manifest. The error is that of the context.
func LikeOn(ctx context.Context, places []Place, count []int, pod request.Pod) (Like, error) {
	l := &likeSearch{ctx: ctx, places: places, numbers: count, pod: pod}
	l.choose()
	for _, n := range l.counts() {
		l.devices = n
		row := LikeRow{Devices: n}
		l.cpus(&row)
		l.bytes(&row)
		l.share(&row)
		l.judge(&row)
		l.Sizes = append(l.Sizes, row)
	}
	return l.Like, ctx.Err()
}

type likeSearch struct {
	Like
	ctx    context.Context
	places []Place
	// numbers has the number of equal nodes of each place.
	numbers []int
	pod     request.Pod
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
	l.BudgetCPUs = l.pod.BudgetCPUs
	l.BudgetBytes, _ = l.pod.BudgetMemory.Get(machine.Memory)
	l.Unlimited = !slices.ContainsFunc(l.places, func(p Place) bool { return p.State.Policy().StaticMemory })
}

// described reports whether a place lists devices of the resource.
func (l *likeSearch) described(resource string) bool {
	return slices.ContainsFunc(l.places, func(p Place) bool { return p.State.Devices().Inventory().Has(resource) })
}

// judge adds to a row what is wrong with it.
func (l *likeSearch) judge(row *LikeRow) {
	if len(l.places) != 1 || l.places[0].Takes != nil {
		return
	}
	s := l.places[0].State
	if row.MostCPUs == 0 && row.MostBytes == 0 && row.Share == 0 {
		if sized, _ := l.sized(l.CPUs, l.Bytes); l.CPUs > 0 || l.Bytes > 0 {
			if r := s.Plan(sized.Pod).Rejection; r != nil {
				row.Why = r.Detail
			}
		}
		return
	}
	for _, of := range []struct {
		field string
		cpus  int
		bytes int64
		is    bool
	}{
		{"mostCPUs", row.MostCPUs, l.Bytes, row.MostCPUs > 0},
		{"mostMemory", l.CPUs, row.MostBytes, row.MostBytes > 0},
		{"proportionalCPUs", row.Share, row.ShareBytes, row.Share > 0},
	} {
		if of.is && l.apart(s, of.cpus, of.bytes) {
			row.Apart = append(row.Apart, of.field)
		}
	}
	if slices.Contains(row.Apart, "mostCPUs") {
		row.AlignedCPUs = l.mostAligned(s, row.MostCPUs, func(int) int64 { return l.Bytes })
	}
	if slices.Contains(row.Apart, "proportionalCPUs") {
		row.AlignedShare = l.mostAligned(s, row.Share, l.inProportion)
	}
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

// count returns how many places take the pod with these amounts.
func (l *likeSearch) count(cpus int, bytes int64) (n int) {
	for i := range l.places {
		if l.takes(&l.places[i], cpus, bytes) {
			n += l.numbers[i]
		}
	}
	return n
}

// mostCPUs returns the largest number of CPUs that any place takes with this much memory. It tries
// all numbers, the largest first, so that the answer is exact.
func (l *likeSearch) mostCPUs(bytesFor func(cpus int) int64) (most int) {
	if l.CPUs == 0 {
		return 0
	}
	for i := range l.places {
		p := &l.places[i]
		by := int((&search{state: p.State}).unit(request.CPU))
		for n := p.State.AvailableCPUs().Len() / by * by; n > most; n -= by {
			if l.takes(p, n, bytesFor(n)) {
				most = n
			}
		}
	}
	return most
}

func (l *likeSearch) cpus(row *LikeRow) {
	if row.MostCPUs = l.mostCPUs(func(int) int64 { return l.Bytes }); row.MostCPUs > 0 {
		row.CPUPlaces = l.count(row.MostCPUs, l.Bytes)
	}
}

// share keeps the proportion of the manifest.
func (l *likeSearch) share(row *LikeRow) {
	if l.CPUs == 0 || l.Bytes == 0 || l.Unlimited {
		return
	}
	if row.Share = l.mostCPUs(l.inProportion); row.Share > 0 {
		row.ShareBytes = l.inProportion(row.Share)
		row.SharePlaces = l.count(row.Share, row.ShareBytes)
	}
}

// inProportion returns the memory that belongs to a number of CPUs.
func (l *likeSearch) inProportion(cpus int) int64 {
	return l.Bytes / int64(l.CPUs) * int64(cpus) / mebi * mebi
}

// maxExactPlaces is how many places are searched for amounts of memory that fit although smaller
// ones do not.
const maxExactPlaces = 16

func (l *likeSearch) bytes(row *LikeRow) {
	if l.Bytes == 0 || l.Unlimited {
		return
	}
	for i := range l.places {
		place := &l.places[i]
		if !place.State.Policy().StaticMemory {
			continue
		}
		p := &prober{ctx: l.ctx, s: place.State, memory: true}
		p.thresholds()
		if p.free*mebi <= row.MostBytes {
			continue
		}
		try := func(n int64) answer {
			p.plans++
			if l.takes(place, l.CPUs, n*mebi) {
				return fits
			}
			p.cut = p.cut || p.coarse
			return rejects
		}
		ends := ended(p.free, p.sizes)
		most, more := largest(ends, try), true
		if len(l.places) <= maxExactPlaces {
			most, more = p.above(most, ends, p.tops, try)
		}
		if most*mebi > row.MostBytes {
			row.MostBytes, row.MoreBytes = most*mebi, more
		}
	}
	if row.MostBytes > 0 {
		row.BytePlaces = l.count(l.CPUs, row.MostBytes)
	}
}
