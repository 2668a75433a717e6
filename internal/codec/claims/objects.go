package claims

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/paddock-project/paddock/internal/base/malformed"
)

// group is the API group of dynamic resource allocation.
const group = "resource.k8s.io/"

// Objects are the objects of dynamic resource allocation in a cluster. The zero value is empty.
type Objects struct {
	// Allocator allocates claims that have no allocation. If nil, such claims are not resolved.
	Allocator Allocator

	claims    map[string]*resourceapi.ResourceClaim
	templates map[string]*resourceapi.ResourceClaimTemplate
	classes   map[string]*resourceapi.DeviceClass
	nodes     map[string]*v1.Node
	slices    []*resourceapi.ResourceSlice
}

// versions are the API versions whose objects have the fields of v1.
var versions = map[string]bool{group + "v1": true, group + "v1beta2": true}

// Takes reports whether Add accepts objects of the kind.
func Takes(kind, apiVersion string) bool {
	switch kind {
	case "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass":
		return strings.HasPrefix(apiVersion, group)
	case "Node":
		return apiVersion == "v1"
	}
	return false
}

// Add adds an object given as JSON. If two objects have the same name, the later one replaces the
// earlier.
func (o *Objects) Add(kind, apiVersion string, data []byte) error {
	if kind != "Node" && !versions[apiVersion] {
		return fmt.Errorf("%s of %s is not read, only of v1 and v1beta2: kubectl get %ss.v1.resource.k8s.io -A -o json prints it", kind, apiVersion, strings.ToLower(kind))
	}
	switch kind {
	case "ResourceClaim":
		return add(&o.claims, data, func(c *resourceapi.ResourceClaim) string {
			c.Namespace = cmp.Or(c.Namespace, v1.NamespaceDefault)
			setDefaults(&c.Spec)
			return key(c.Namespace, c.Name)
		})
	case "ResourceClaimTemplate":
		return add(&o.templates, data, func(t *resourceapi.ResourceClaimTemplate) string {
			setDefaults(&t.Spec.Spec)
			return key(t.Namespace, t.Name)
		})
	case "DeviceClass":
		return add(&o.classes, data, func(c *resourceapi.DeviceClass) string { return c.Name })
	case "Node":
		return add(&o.nodes, data, func(n *v1.Node) string { return n.Name })
	}
	slice := &resourceapi.ResourceSlice{}
	if err := json.Unmarshal(data, slice); err != nil {
		return malformed.JSON(data, err)
	}
	o.slices = append(o.slices, slice)
	return nil
}

// add decodes an object and stores it under its name.
func add[T any](to *map[string]*T, data []byte, name func(*T) string) error {
	object := new(T)
	if err := json.Unmarshal(data, object); err != nil {
		return malformed.JSON(data, err)
	}
	if *to == nil {
		*to = map[string]*T{}
	}
	(*to)[name(object)] = object
	return nil
}

// setDefaults sets the default that the API server would set: one device for each request.
func setDefaults(spec *resourceapi.ResourceClaimSpec) {
	count := func(mode *resourceapi.DeviceAllocationMode, n *int64) {
		*mode = cmp.Or(*mode, resourceapi.DeviceAllocationModeExactCount)
		if *mode == resourceapi.DeviceAllocationModeExactCount {
			*n = cmp.Or(*n, 1)
		}
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			count(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for k := range r.FirstAvailable {
			count(&r.FirstAvailable[k].AllocationMode, &r.FirstAvailable[k].Count)
		}
	}
}

// key returns a name qualified by its namespace. kubectl omits the default namespace.
func key(namespace, name string) string { return cmp.Or(namespace, v1.NamespaceDefault) + "/" + name }

// Slices returns the ResourceSlices in the order in which they were added. Callers must not modify
// the list.
func (o *Objects) Slices() []*resourceapi.ResourceSlice { return o.slices }

// List returns all DeviceClasses. List and Get together are the class lister of an allocator.
func (o *Objects) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, c := range o.classes {
		all = append(all, c)
	}
	return all, nil
}

// Get returns a DeviceClass.
func (o *Objects) Get(name string) (*resourceapi.DeviceClass, error) {
	if c := o.classes[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("DeviceClass %s is not among the manifests", name)
}
