// Package spec makes a request.Pod of a pod that is described in plain numbers, for callers without
// the types of Kubernetes: package predict, and the service that it describes.
//
// It concludes what the API server and the kubelet conclude from the resources of a pod
// (docs/rules/demand.md): missing requests, the QoS class, which containers qualify for exclusive
// CPUs and for memory of their own, and the budget of a pod-level pod. internal/codec/podspec
// concludes the same from the objects of Kubernetes, with quantities that can have fractions. A
// test compares both.
package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrInvalid is wrapped by every error of Pod.Request.
var ErrInvalid = errors.New("the pod is not usable")

// MaxContainers is the largest number of containers of a pod. A pod with more is an error.
const MaxContainers = 10_000

// MaxResources is the largest number of resources that the containers of a pod name. A pod with
// more is an error: what they ask for is compared resource by resource, and the planner's time for
// a pod must have a limit. Nodes have tens of resources: CPUs, memory, huge pages, and one for each
// kind of device.
const MaxResources = 256

// MaxGiven is the largest number of devices that others chose for a pod. A pod with more is an
// error: each node compares all of them. A ResourceClaim has at most 32.
const MaxGiven = 1024

// Resources are what a container or a pod requests and may use at most. Amounts of CPU are in
// thousandths of a CPU, of memory and huge pages in bytes, of devices in devices.
type Resources struct{ Requests, Limits request.Amounts }

// Container is one container of a pod.
type Container struct {
	Name string
	Type request.ContainerType
	Resources
	// Given are the devices that others chose for the container.
	Given []request.Given
}

// Pod is a pod as its owner wrote it.
type Pod struct {
	request.Identity
	// PodLevel is spec.resources of the pod. If it is empty, each container counts by itself.
	PodLevel Resources
	// EmptyLevel is set if spec.resources is there and empty. Under the gate PodLevelResources, the
	// pod is then BestEffort. It has no other effect, and none if PodLevel is not empty.
	EmptyLevel bool
	// SharesIsolated is that of request.Ask.
	SharesIsolated bool
	// Containers are the init containers (standard and sidecars) in the order of the pod, then the
	// app containers.
	Containers []Container
}

// Gates are the feature gates that decide how a pod counts.
type Gates struct{ PodLevelResources, PodLevelManagers bool }

// Kind returns how a pod counts that has pod-level resources or not.
func (g Gates) Kind(podLevel bool) request.Kind {
	switch {
	case !podLevel:
		return request.Plain
	case g.PodLevelResources && g.PodLevelManagers:
		return request.PodLevel
	}
	return request.Unmanaged
}

// Request returns what the pod asks for under the gates. It does not change p. Errors wrap
// ErrInvalid and name the container and the resource.
func (p *Pod) Request(g Gates) (request.Pod, error) {
	if err := p.check(); err != nil {
		return request.Pod{}, fmt.Errorf("%w: pod %s/%s: %w", ErrInvalid, p.Namespace, p.Name, err)
	}
	containers := slices.Clone(p.Containers)
	for i := range containers {
		containers[i].Requests = defaulted(containers[i].Resources)
	}
	level := p.PodLevel
	if g.PodLevelResources && !level.empty() {
		level = budget(level, containers)
	}
	out := request.Pod{Identity: p.Identity, Ask: request.Ask{QoS: p.qos(level, containers, g), Kind: g.Kind(!p.PodLevel.empty()), SharesIsolated: p.SharesIsolated}}
	out.BudgetCPUMilli, _ = level.Requests.Get(request.CPU)
	out.CPULimit, _ = level.Limits.Get(request.CPU)
	if out.Kind == request.PodLevel {
		if out.QoS == request.Guaranteed {
			out.BudgetCPUs = WholeCPUs(out.BudgetCPUMilli)
		}
		out.BudgetMemory = positive(memoryOf(level.Requests))
	}
	out.Containers = make([]request.Container, 0, len(containers))
	for i := range containers {
		out.Containers = append(out.Containers, containers[i].request(&out))
	}
	return out, nil
}

func (r *Resources) empty() bool { return len(r.Requests)+len(r.Limits) == 0 }

// request returns what the container asks for in a pod whose class and kind are known (R-DEM-20 to
// R-DEM-33).
func (c *Container) request(pod *request.Pod) request.Container {
	out := request.Container{Name: c.Name, Type: c.Type, Equivalent: c.equivalent()}
	for _, list := range []request.Amounts{c.Requests, c.Limits} {
		for _, a := range list {
			if request.IsMemory(a.Resource) && a.Resource != request.Memory && a.Value > 0 && !slices.Contains(out.HugePages, a.Resource) {
				out.HugePages = append(out.HugePages, a.Resource)
			}
		}
	}
	slices.Sort(out.HugePages)
	out.CPURequest, _ = c.Requests.Get(request.CPU)
	out.CPULimit, _ = c.Limits.Get(request.CPU)
	out.CPUs, out.Sharing = ExclusiveCPUs(pod, &out)
	if OwnMemory(pod, &out) {
		out.Memory = memoryOf(c.Requests)
	}
	if pod.Kind == request.PodLevel {
		out.MemoryRequest, out.MemoryLimit = positive(memoryOf(c.Requests)), positive(memoryOf(c.Limits))
	}
	for _, a := range c.Limits {
		if a.Value > 0 && a.Resource != request.CPU && !request.IsMemory(a.Resource) {
			out.Devices = append(out.Devices, a)
		}
	}
	out.Given = slices.SortedFunc(slices.Values(c.Given), func(a, b request.Given) int { return a.Compare(&b) })
	out.Given = slices.CompactFunc(out.Given, func(a, b request.Given) bool { return a.Compare(&b) == 0 })
	return out
}

// ExclusiveCPUs returns the number of exclusive CPUs for which the container qualifies, and the
// reason if it is 0 (R-DEM-20 to R-DEM-26).
func ExclusiveCPUs(pod *request.Pod, c *request.Container) (int, request.Sharing) {
	n := WholeCPUs(c.CPURequest)
	switch {
	case pod.QoS != request.Guaranteed:
		return 0, request.QoSNotGuaranteed
	case pod.Kind == request.PodLevel && !c.Equivalent:
		return 0, request.NotEquivalent
	case c.CPURequest == 0:
		return 0, request.NoCPURequest
	case n == 0:
		return 0, request.FractionalCPU
	case pod.Kind == request.Unmanaged:
		return n, request.GateOff
	}
	return n, request.NotShared
}

// OwnMemory reports whether the container gets memory of its own for its requests (R-DEM-30,
// R-DEM-31).
func OwnMemory(pod *request.Pod, c *request.Container) bool {
	return pod.QoS == request.Guaranteed && (pod.Kind != request.PodLevel || c.Equivalent)
}

// WholeCPUs returns the number of CPUs in an amount of thousandths, or 0 if it is not a whole
// number of CPUs (R-DEM-23).
func WholeCPUs(milli int64) int {
	if milli%1000 != 0 {
		return 0
	}
	return int(milli / 1000)
}

// counted are the resources of the QoS class.
func counted() [2]request.Resource { return [2]request.Resource{request.CPU, request.Memory} }

// equivalent reports whether the container would be Guaranteed on its own (R-DEM-22).
func (c *Container) equivalent() bool {
	for _, name := range counted() {
		asked, _ := c.Requests.Get(name)
		limit, _ := c.Limits.Get(name)
		if asked == 0 || asked != limit {
			return false
		}
	}
	return true
}

// qos returns the class that follows from the resources (R-DEM-10 to R-DEM-14).
func (p *Pod) qos(level Resources, containers []Container, g Gates) request.QoS {
	var requests, limits [2]int64
	limited := true
	add := func(sum *[2]int64, list request.Amounts) (n int) {
		for i, name := range counted() {
			if v, _ := list.Get(name); v > 0 {
				sum[i] += v
				n++
			}
		}
		return n
	}
	if g.PodLevelResources && (!level.empty() || p.EmptyLevel) {
		add(&requests, level.Requests)
		limited = add(&limits, level.Limits) == 2 || len(level.Limits) == 0
	} else {
		for i := range containers {
			add(&requests, containers[i].Requests)
			if add(&limits, containers[i].Limits) < 2 {
				limited = false
			}
		}
	}
	switch {
	case requests == [2]int64{} && limits == [2]int64{}:
		return request.BestEffort
	case limited && requests == limits:
		return request.Guaranteed
	}
	return request.Burstable
}

// defaulted returns the requests with the limits that have no request (R-DEM-70).
func defaulted(r Resources) request.Amounts {
	out := r.Requests
	for _, a := range r.Limits {
		if _, ok := out.Get(a.Resource); !ok {
			out = out.With(a.Resource, a.Value)
		}
	}
	return out
}

// budget completes the resources of a pod-level pod (R-DEM-71, R-DEM-72).
func budget(r Resources, containers []Container) Resources {
	for _, a := range together(containers, func(c *Container) request.Amounts { return c.Limits }) {
		_, requested := r.Requests.Get(a.Resource)
		_, limited := r.Limits.Get(a.Resource)
		if request.IsMemory(a.Resource) && a.Resource != request.Memory && !requested && !limited {
			r.Limits = r.Limits.With(a.Resource, a.Value)
		}
	}
	if len(r.Limits) == 0 {
		return r
	}
	for _, a := range together(containers, func(c *Container) request.Amounts { return c.Requests }) {
		if _, ok := r.Requests.Get(a.Resource); !ok && (a.Resource == request.CPU || a.Resource == request.Memory) {
			r.Requests = r.Requests.With(a.Resource, a.Value)
		}
	}
	for _, a := range r.Limits {
		if _, ok := r.Requests.Get(a.Resource); !ok {
			r.Requests = r.Requests.With(a.Resource, a.Value)
		}
	}
	return r
}

// together returns the most that the containers need at any time: the apps beside all sidecars, or
// a standard init container beside the sidecars that were started before it (R-DEM-80).
func together(containers []Container, of func(*Container) request.Amounts) request.Amounts {
	sidecars, sum, most := map[request.Resource]int64{}, map[request.Resource]int64{}, map[request.Resource]int64{}
	names := map[request.Resource]bool{}
	for i := range containers {
		c := &containers[i]
		list := of(c)
		for _, a := range list {
			names[a.Resource] = true
			switch c.Type {
			case request.Init:
				most[a.Resource] = max(most[a.Resource], a.Value+sidecars[a.Resource])
			case request.Sidecar:
				sidecars[a.Resource] += a.Value
				sum[a.Resource] += a.Value
			case request.App:
				sum[a.Resource] += a.Value
			}
		}
	}
	var out request.Amounts
	for name := range names {
		out = out.With(name, max(most[name], sum[name]))
	}
	return out
}

func memoryOf(list request.Amounts) (out request.Amounts) {
	for _, a := range list {
		if request.IsMemory(a.Resource) {
			out = append(out, a)
		}
	}
	return out
}

func positive(list request.Amounts) request.Amounts {
	return slices.DeleteFunc(slices.Clone(list), func(a request.Amount) bool { return a.Value <= 0 })
}

// check returns an error for what the API server rejects, and for amounts whose sums do not fit
// into an int64.
func (p *Pod) check() error {
	if len(p.Containers) == 0 {
		return errors.New("it has no containers")
	}
	if len(p.Containers) > MaxContainers {
		return fmt.Errorf("it has %d containers: the limit is %d", len(p.Containers), MaxContainers)
	}
	for _, list := range []request.Amounts{p.PodLevel.Requests, p.PodLevel.Limits} {
		for _, a := range list {
			if a.Resource != request.CPU && !request.IsMemory(a.Resource) {
				return fmt.Errorf("pod-level resources have %s: expected cpu, memory or huge pages", a.Resource)
			}
		}
	}
	if err := p.PodLevel.check(); err != nil {
		return fmt.Errorf("pod-level resources: %w", err)
	}
	names, sums := make(map[string]bool, len(p.Containers)), map[request.Resource]int64{}
	apps, given := false, 0
	for i := range p.Containers {
		c := &p.Containers[i]
		switch {
		case c.Name == "" || c.Name == request.AnyContainer:
			return fmt.Errorf("container %d has no usable name", i)
		case names[c.Name]:
			return fmt.Errorf("two containers have the name %s", c.Name)
		case c.Type < request.Init || c.Type > request.App:
			return fmt.Errorf("container %s has an unknown type", c.Name)
		case apps && c.Type != request.App:
			return fmt.Errorf("container %s is an init container after an app container: init containers come first", c.Name)
		}
		names[c.Name], apps = true, apps || c.Type == request.App
		if given += len(c.Given); given > MaxGiven {
			return fmt.Errorf("others chose more than %d devices for it", MaxGiven)
		}
		if err := c.check(sums); err != nil {
			return fmt.Errorf("container %s: %w", c.Name, err)
		}
		if len(sums) > MaxResources {
			return fmt.Errorf("its containers up to %s name %d resources: a pod may have %d, so split the pod", c.Name, len(sums), MaxResources)
		}
	}
	if !apps {
		return errors.New("it has no app container")
	}
	return nil
}

// check also adds the larger amount of each resource to sums.
func (c *Container) check(sums map[request.Resource]int64) error {
	if err := c.Resources.check(); err != nil {
		return err
	}
	for _, a := range defaulted(c.Resources) {
		limit, _ := c.Limits.Get(a.Resource)
		v := max(a.Value, limit)
		if v > math.MaxInt64/1000-sums[a.Resource] {
			return fmt.Errorf("%s: the containers together ask for more than %d", a.Resource, int64(math.MaxInt64/1000))
		}
		sums[a.Resource] += v
	}
	for i := range c.Given {
		if g := &c.Given[i]; g.Name == "" || (g.Resource == "") == (g.Driver == "") {
			return fmt.Errorf("given device %d: expected a name, and either a resource or a driver", i)
		}
	}
	return nil
}

func (r *Resources) check() error {
	for _, list := range []request.Amounts{r.Requests, r.Limits} {
		if len(list) > MaxResources {
			return fmt.Errorf("%d resources are listed: the limit is %d", len(list), MaxResources)
		}
		for i, a := range list {
			switch {
			case a.Value < 0:
				return fmt.Errorf("%s: %d is negative", a.Resource, a.Value)
			case a.Value > math.MaxInt64/1000:
				return fmt.Errorf("%s: %d is too large", a.Resource, a.Value)
			case i > 0 && list[i-1].Resource >= a.Resource:
				return fmt.Errorf("%s is listed twice, or not in order", a.Resource)
			case a.Resource != request.CPU && !request.IsMemory(a.Resource) && device.CheckName(a.Resource) != nil:
				return device.CheckName(a.Resource)
			}
		}
	}
	for _, a := range r.Requests {
		limit, limited := r.Limits.Get(a.Resource)
		fixed := a.Resource != request.CPU && a.Resource != request.Memory
		switch {
		case limited && (a.Value > limit || fixed && a.Value != limit):
			return fmt.Errorf("%s: %d is requested, and the limit is %d", a.Resource, a.Value, limit)
		case !limited && fixed:
			return fmt.Errorf("%s: a limit is required, equal to the request", a.Resource)
		}
	}
	return nil
}
