// Package podspec converts Kubernetes pods into the requests with which the resource managers
// calculate.
//
// It has three steps, each usable alone. Read and ReadFiles parse manifests strictly into pods.
// Default and Validate apply the defaults and the checks of the API server to a pod's resources
// (docs/rules/demand.md, sections 7 to 9). Request returns the request.Pod: the QoS class, the
// container types, which containers qualify for exclusive CPUs and memory, and how much. No package
// behind this one uses quantities or feature gates.
//
// No function changes a pod that it is given, and the same input always yields the same output.
package podspec

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/spec"
)

// Gates are the feature gates that determine how a pod is read, and an option for what a kubelet
// reads differently.
type Gates struct {
	// PodLevelResources allows spec.resources in pods.
	PodLevelResources bool
	// PodLevelManagers is the gate PodLevelResourceManagers, which lets the managers act on
	// spec.resources. It has no effect without PodLevelResources (R-DEM-26).
	PodLevelManagers bool
	// MarkFractions marks requests for memory that have a fraction of a byte
	// (request.Container.FractionalMemory). A kubelet does not read such amounts
	// (node.Behavior.UnreadFractions).
	MarkFractions bool
}

func (g Gates) gates() spec.Gates {
	return spec.Gates{PodLevelResources: g.PodLevelResources, PodLevelManagers: g.PodLevelManagers}
}

// GatesOf returns the gates with which a policy was resolved.
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

// isMemory reports whether the Memory Manager manages the resource.
func isMemory(name v1.ResourceName) bool { return request.IsMemory(string(name)) }

// isPodLevel reports whether the resource can be requested at pod level.
func isPodLevel(name v1.ResourceName) bool { return name == v1.ResourceCPU || isMemory(name) }

// HasPodLevelResources reports whether the pod asks for cpu, memory or huge pages at pod level, in
// any amount and with any gates (R-DEM-1). If the gate PodLevelResources is off, such a pod must
// not be admitted (R-DEM-2). The caller must reject it.
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

// typeOf returns the container type of an init container.
func typeOf(c *v1.Container) request.ContainerType {
	if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return request.Sidecar
	}
	return request.Init
}

// DecodePod decodes one pod from JSON without applying defaults. Field names are case-sensitive.
// Quantities are checked before they are parsed, because parsing some of them would take too long
// (see maxExponent).
func DecodePod(raw []byte) (*v1.Pod, error) {
	if err := findQuantity(raw, outOfRange); err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, pod); err != nil {
		return nil, cmp.Or(wrongQuantity(raw), err)
	}
	return pod, nil
}
