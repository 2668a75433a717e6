package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/paddock-project/paddock/internal/core/request"
)

// timeout bounds the search for the devices of one pod. The scheduler uses the same limit for a
// node (KubeSchedulerConfiguration, DynamicResourcesArgs.filterTimeout).
const timeout = 10 * time.Second

// Allocator returns an Allocation for a Kubernetes node in which every device of the objects is
// free. It does not change the objects. Package allocation provides one.
type Allocator func(objects *Objects, node *v1.Node) Allocation

// Allocation tracks which devices are free on one Kubernetes node.
type Allocation interface {
	// Take marks the devices of a claim as allocated.
	Take(*resourceapi.AllocationResult)
	// Allocate finds free devices for all claims together, as the scheduler does for a pod. It
	// returns an allocation for each claim, in the order of the claims, or none if the free devices
	// do not satisfy all of them. It does not mark the devices as allocated. For objects that no
	// API server would accept it returns an error and does not panic.
	Allocate(ctx context.Context, pending []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error)
}

// errNoAllocator is the error for a pending claim in a program without an Allocator.
var errNoAllocator = errors.New("it is not allocated, and the paddock in the container image does not allocate claims: " +
	`run the paddock of cmd/paddock (docs/commands.md)`)

// Resolved are the devices of a pod.
type Resolved struct {
	// Containers maps the name of each container to its devices, in the order of
	// request.Container.Given.
	Containers map[string][]request.Given
	// Stock has the devices of the Kubernetes node that belong to the drivers of these devices.
	Stock []request.Stock
	// Notes describe what could not be resolved, in one sentence each.
	Notes []string
}

// In returns a copy of the pod with these devices.
func (r Resolved) In(pod request.Pod) request.Pod {
	pod.Containers, pod.Stock = slices.Clone(pod.Containers), r.Stock
	for i := range pod.Containers {
		pod.Containers[i].Given = r.Containers[pod.Containers[i].Name]
	}
	return pod
}

// id identifies a device, independent of its claim.
type id struct{ driver, pool, name string }

// Resolver finds the devices of pods on one Kubernetes node. It must be used by one goroutine only.
type Resolver struct {
	objects *Objects
	node    *v1.Node
	places  *Places
	// claims has copies of the claims of the manifests, and the claims that the resolver created.
	// It includes allocations made by the resolver.
	claims map[string]*resourceapi.ResourceClaim
	// allocation is nil if the node is not known or the program has no Allocator.
	allocation Allocation
}

// NodeName returns the name of the Kubernetes node if the ResourceSlices name exactly one, and ""
// otherwise.
func (o *Objects) NodeName() string {
	name := ""
	for _, s := range o.slices {
		switch n := s.Spec.NodeName; {
		case n == nil || *n == "" || *n == name:
		case name != "":
			return ""
		default:
			name = *n
		}
	}
	return name
}

// NodeNames returns the names of the Kubernetes nodes that the Nodes and ResourceSlices name. If
// anyNode is true, there are ResourceSlices that other nodes can match, too.
func (o *Objects) NodeNames() (names []string, anyNode bool) {
	names = slices.AppendSeq(names, maps.Keys(o.nodes))
	for _, s := range o.slices {
		if n := s.Spec.NodeName; n != nil && *n != "" {
			names = append(names, *n)
		} else {
			anyNode = true
		}
	}
	return names, anyNode
}

// On returns a resolver for a Kubernetes node. If name is empty, claims without an allocation
// cannot be resolved.
func (o *Objects) On(name string) *Resolver {
	r := &Resolver{objects: o, claims: map[string]*resourceapi.ResourceClaim{}}
	if r.node = o.nodes[name]; r.node == nil && name != "" {
		r.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
	}
	var kept []*Slice
	for _, s := range o.slices {
		kept = append(kept, sliceOf(s, nil)) // The slices may be from another machine.
	}
	r.places = PlacesOf(kept, name)
	if o.Allocator != nil && r.node != nil {
		r.allocation = o.Allocator(o, r.node)
	}
	for name, c := range o.claims {
		r.claims[name] = c.DeepCopy() // The resolver may allocate it.
		r.take(c.Status.Allocation)
	}
	return r
}

// take marks devices as allocated, so that the resolver does not allocate them to other claims.
func (r *Resolver) take(a *resourceapi.AllocationResult) {
	if a != nil && r.allocation != nil {
		r.allocation.Take(a)
	}
}

// Pod resolves the claims of a pod.
func (r *Resolver) Pod(ctx context.Context, pod *v1.Pod) Resolved {
	out := Resolved{Containers: map[string][]request.Given{}}
	note := func(format string, args ...any) { out.Notes = append(out.Notes, fmt.Sprintf(format, args...)) }
	byName := map[string]*resourceapi.ResourceClaim{}
	var pending []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		named := &pod.Spec.ResourceClaims[i]
		claim, err := r.claim(pod, named)
		switch {
		case err != nil:
			note("resource claim %s is not resolved, and its devices have no effect: %v", named.Name, err)
			continue
		case claim == nil:
			continue
		case claim.Status.Allocation == nil && !slices.Contains(pending, claim):
			pending = append(pending, claim)
		}
		byName[named.Name] = claim
	}
	if err := r.allocate(ctx, pending); err != nil {
		for _, c := range pending {
			note("resource claim %s is not resolved, and its devices have no effect: %v", c.Name, err)
		}
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			for _, use := range c.Resources.Claims {
				out.Containers[c.Name] = append(out.Containers[c.Name], r.devices(byName[use.Name], use.Request)...)
			}
		}
	}
	// For extended resources that are backed by a DeviceClass, the scheduler creates one claim for
	// the whole pod. The status of the pod maps its requests to containers.
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		claim := r.claims[key(pod.Namespace, status.ResourceClaimName)]
		if claim == nil {
			note("extended resources of the pod are devices of ResourceClaim %s, which is not among the manifests: they have no effect",
				key(pod.Namespace, status.ResourceClaimName))
		}
		for _, m := range status.RequestMappings {
			out.Containers[m.ContainerName] = append(out.Containers[m.ContainerName], r.devices(claim, m.RequestName)...)
		}
	}
	var all []request.Given
	for name, devices := range out.Containers {
		slices.SortFunc(devices, func(a, b request.Given) int { return a.Compare(&b) })
		out.Containers[name] = slices.CompactFunc(devices, func(a, b request.Given) bool { return a.Compare(&b) == 0 })
		all = append(all, devices...)
	}
	out.Stock = r.places.Stock(all)
	return out
}

// claim returns the ResourceClaim that a pod names: the existing one, or one made from its
// template. It returns nil if the pod does not need a claim.
func (r *Resolver) claim(pod *v1.Pod, named *v1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	name, _, err := resourceclaim.Name(pod, named)
	switch {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
		return r.made(pod, named)
	case err != nil:
		return nil, errors.New("it names neither a ResourceClaim nor a ResourceClaimTemplate")
	case name == nil:
		return nil, nil //nolint:nilnil // The API has this: a template that makes no claim for the pod.
	}
	if c := r.claims[key(pod.Namespace, *name)]; c != nil {
		return c, nil
	}
	if named.ResourceClaimTemplateName != nil {
		if c, err := r.made(pod, named); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("ResourceClaim %s is not among the manifests; kubectl get resourceclaims,resourceslices,deviceclasses -A -o json prints what is needed", key(pod.Namespace, *name))
}

// made returns the claim that a template makes for a pod.
func (r *Resolver) made(pod *v1.Pod, named *v1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	template := r.objects.templates[key(pod.Namespace, *named.ResourceClaimTemplateName)]
	if template == nil {
		return nil, fmt.Errorf("ResourceClaimTemplate %s is not among the manifests", key(pod.Namespace, *named.ResourceClaimTemplateName))
	}
	name := pod.Name + "-" + named.Name
	if c := r.claims[key(pod.Namespace, name)]; c != nil {
		return c, nil
	}
	c := &resourceapi.ResourceClaim{Spec: *template.Spec.Spec.DeepCopy()}
	c.Namespace, c.Name = cmp.Or(pod.Namespace, v1.NamespaceDefault), name
	r.claims[key(pod.Namespace, name)] = c
	return c, nil
}

// allocate allocates claims together, as the scheduler does for a pod, and stores the allocations.
func (r *Resolver) allocate(ctx context.Context, pending []*resourceapi.ResourceClaim) error {
	if len(pending) == 0 {
		return nil
	}
	if r.objects.Allocator == nil {
		return errNoAllocator
	}
	if r.node == nil {
		return errors.New("it is not allocated, and the ResourceSlices are of several Kubernetes nodes or of none: name the node with --node")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	results, err := r.allocation.Allocate(ctx, pending)
	switch {
	case err != nil:
		return err
	case len(results) != len(pending):
		byLabels := func(s *resourceapi.ResourceSlice) bool { return s.Spec.NodeSelector != nil }
		if r.objects.nodes[r.node.Name] == nil && slices.ContainsFunc(r.objects.slices, byLabels) {
			return fmt.Errorf("node %s has no free devices that satisfy it; ResourceSlices select nodes by their labels, and the Node is not among the manifests", r.node.Name)
		}
		return fmt.Errorf("node %s has no free devices that satisfy it", r.node.Name)
	}
	for i, c := range pending {
		c.Status.Allocation = &results[i]
		r.take(c.Status.Allocation)
	}
	return nil
}

// devices returns the devices of a claim, or of one of its requests if name is not empty.
func (r *Resolver) devices(claim *resourceapi.ResourceClaim, name string) []request.Given {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	var found []request.Given
	for _, d := range claim.Status.Allocation.Devices.Results {
		wanted := name == "" || d.Request == name || resourceclaim.BaseRequestRef(d.Request) == name
		if wanted && d.Driver != "" && d.Device != "" {
			nodes, _ := r.places.Nodes(d.Driver, d.Pool, d.Device)
			found = append(found, request.Given{Claim: claim.Name, Driver: d.Driver, Pool: d.Pool, Name: d.Device, Nodes: nodes})
		}
	}
	return found
}
