package predict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/spec"
)

// MaxContainers is the largest number of containers of a pod, and MaxGiven of devices that others
// chose for it.
const (
	MaxContainers = spec.MaxContainers
	MaxGiven      = spec.MaxGiven
)

// Pod is a pod as its owner wrote it, in numbers. What the API server and the kubelet conclude from
// it (missing requests, the QoS class, who qualifies for exclusive CPUs) is concluded here.
type Pod struct {
	// UID identifies the pod on a node. Two pods of a node must not have the same one.
	UID, Namespace, Name string
	// Resources is spec.resources of the pod, its pod-level budget.
	Resources Resources
	// EmptyResources is set if spec.resources is there and empty. Under the feature gate
	// PodLevelResources, such a pod is of the class BestEffort.
	EmptyResources bool
	// SharesIsolatedCPUs is set by the annotation paddock-project.github.io/shared-pool: isolated:
	// the containers that share the pod's pool may run on isolated CPUs. No kubelet reads it.
	SharesIsolatedCPUs bool
	// Containers are the init containers in the order of the pod, then the app containers.
	Containers []Container
}

// Resources are the requests and limits of a container or a pod. A request that is zero is missing:
// it becomes the limit.
type Resources struct{ Requests, Limits Amounts }

// Amounts are amounts of resources. Zero means none.
type Amounts struct {
	// CPUMilli is in thousandths of a CPU, Memory in bytes. Both are rounded up from quantities
	// with more digits.
	CPUMilli, Memory int64
	// Others are bytes of huge pages, by names such as "hugepages-1Gi", and numbers of devices, by
	// the name of their extended resource.
	Others map[string]int64
}

// ContainerType is when a container runs.
type ContainerType int

const (
	// App is a container of spec.containers. It is the zero value.
	App ContainerType = iota
	// Init containers run one after the other, and end before the app containers start.
	Init
	// Sidecar is an init container with restartPolicy Always, which runs until the pod ends.
	Sidecar
)

// Container is one container of a pod.
type Container struct {
	Name string
	Type ContainerType
	Resources
	// Given are the devices that others chose for the container before the node decides: the
	// scheduler for a ResourceClaim, or a kubelet for an extended resource.
	Given []GivenDevice
}

// GivenDevice is a device that a container has already, with which its CPUs and its memory are
// aligned.
type GivenDevice struct {
	// Resource is the extended resource of a device plugin's device. Driver, Pool and Claim
	// identify the device of a claim. Either Resource or Driver is set.
	Resource            string
	Driver, Pool, Claim string
	Name                string
	// NUMANodes are the NUMA nodes that the device is near. Empty means that they are not known.
	NUMANodes []int
}

// QoSClass is the QoS class of a pod.
type QoSClass string

// The classes.
const (
	Guaranteed QoSClass = "Guaranteed"
	Burstable  QoSClass = "Burstable"
	BestEffort QoSClass = "BestEffort"
)

// Request is a pod as a policy counts it. It is immutable.
type Request struct {
	pod   request.Pod
	gates spec.Gates
}

// NewRequest returns what a pod asks for on nodes of a policy. The error wraps ErrInvalid and names
// the container and the resource.
func NewRequest(pod Pod, p *Policy) (*Request, error) {
	in := spec.Pod{
		Identity: request.Identity{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name},
		PodLevel: pod.Resources.spec(), EmptyLevel: pod.EmptyResources, SharesIsolated: pod.SharesIsolatedCPUs,
	}
	if pod.UID == "" {
		return nil, fmt.Errorf("pod %s/%s: %w: it has no UID", pod.Namespace, pod.Name, ErrInvalid)
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		out := spec.Container{Name: c.Name, Resources: c.Resources.spec(), Type: -1}
		switch c.Type {
		case App:
			out.Type = request.App
		case Init:
			out.Type = request.Init
		case Sidecar:
			out.Type = request.Sidecar
		}
		for _, d := range c.Given {
			nodes, err := mask.Collect(d.NUMANodes)
			if err != nil {
				return nil, fmt.Errorf("pod %s/%s: container %s: device %s: %w: %w", pod.Namespace, pod.Name, c.Name, d.Name, ErrInvalid, err)
			}
			out.Given = append(out.Given, request.Given{Resource: d.Resource, Driver: d.Driver, Pool: d.Pool, Claim: d.Claim, Name: d.Name, Nodes: nodes})
		}
		in.Containers = append(in.Containers, out)
	}
	out, err := in.Request(p.gates)
	if err != nil {
		return nil, unusableError{err}
	}
	return &Request{out, p.gates}, nil
}

// unusableError is an error whose text already has that the pod is not usable. It wraps ErrInvalid
// without its text.
type unusableError struct{ error }

func (e unusableError) Unwrap() []error { return []error{ErrInvalid, e.error} }

func (r *Resources) spec() spec.Resources {
	return spec.Resources{Requests: r.Requests.amounts(), Limits: r.Limits.amounts()}
}

func (a *Amounts) amounts() (out request.Amounts) {
	add := func(name string, value int64) {
		if value != 0 {
			out = append(out, request.Amount{Resource: name, Value: value})
		}
	}
	add(request.CPU, a.CPUMilli)
	add(request.Memory, a.Memory)
	for _, name := range slices.Sorted(maps.Keys(a.Others)) {
		add(name, a.Others[name])
	}
	slices.SortFunc(out, func(x, y request.Amount) int { return strings.Compare(x.Resource, y.Resource) })
	return out
}

// UID returns the UID of the pod.
func (r *Request) UID() string { return r.pod.UID }

// QoS returns the QoS class of the pod.
func (r *Request) QoS() QoSClass { return QoSClass(r.pod.QoS.String()) }

// ExclusiveCPUs returns for how many exclusive CPUs a container qualifies if the CPU policy is
// static, and the reason if it is 0.
func (r *Request) ExclusiveCPUs(container string) (n int, why string) {
	c, i := r.pod.Container(container)
	switch {
	case i < 0:
		return 0, "the pod has no container " + container
	case c.Sharing == request.GateOff:
		return 0, c.Sharing.String()
	}
	return c.CPUs, c.Sharing.String()
}
