// Package podspec turns Kubernetes pods into what the resource managers calculate with.
//
// It has three steps, each usable alone. Read and ReadFiles take manifests apart into
// pods, strictly. Default and Validate do to a pod what the API server would do and
// check about its resources (docs/rules/demand.md, sections 7 to 9). Request makes the
// request.Pod: QoS class, container types, who qualifies for exclusive CPUs and memory, and how
// much. Quantities and feature gates end here.
//
// Nothing in this package changes a pod that it is given, and the same input always
// gives the same output.
package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Gates are the feature gates that decide how a pod is read, and what a kubelet reads otherwise.
type Gates struct {
	// PodLevelResources lets pods have spec.resources.
	PodLevelResources bool
	// PodLevelResourceManagers lets the managers act on it. It has no effect without
	// PodLevelResources (R-DEM-26).
	PodLevelManagers bool
	// MarkFractions marks amounts of memory with a fraction of a byte in the request
	// (request.Container.FractionalMemory), which a kubelet does not read
	// (node.Behavior.UnreadFractions).
	MarkFractions bool
}

// GatesOf are the gates that a policy was resolved with.
func GatesOf(p node.Policy) Gates {
	return Gates{PodLevelResources: p.PodLevelResources, PodLevelManagers: p.PodLevelManagers, MarkFractions: p.Behavior.UnreadFractions}
}

const (
	hugePagesPrefix = v1.ResourceHugePagesPrefix
	memory          = v1.ResourceMemory
)

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), hugePagesPrefix)
}

// isMemory reports whether the memory manager cares for the resource.
func isMemory(name v1.ResourceName) bool { return request.IsMemory(string(name)) }

// isPodLevel reports whether the resource can be asked for at pod level.
func isPodLevel(name v1.ResourceName) bool { return name == v1.ResourceCPU || isMemory(name) }

// HasPodLevelResources reports whether the pod asks for cpu, memory or huge pages at pod
// level, in any amount and with any gates (R-DEM-1). With the gate
// PodLevelResources off such a pod is not admitted (R-DEM-2): that is for the caller
// to reject.
func HasPodLevelResources(pod *v1.Pod) bool {
	r := pod.Spec.Resources
	if r == nil {
		return false
	}
	for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if isPodLevel(name) {
				return true
			}
		}
	}
	return false
}

// typeOf is the container type of an init container.
func typeOf(c *v1.Container) request.ContainerType {
	if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return request.Sidecar
	}
	return request.Init
}

// DecodePod reads one pod of JSON as it is, without defaults. Field names must have their case, and
// quantities are looked at before they are parsed, which for some takes for ever: see maxExponent.
func DecodePod(raw []byte) (*v1.Pod, error) {
	if err := findQuantity(raw, textOutOfRange); err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, pod); err != nil {
		return nil, err
	}
	return pod, nil
}
