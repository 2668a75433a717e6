// Package record runs scenarios through the Topology, CPU and Memory Managers of a minor version
// of Kubernetes and writes their answers. README.md describes how recordings are made and checked.
//
// The managers are the packages of k8s.io/kubernetes. Two minor versions cannot be linked together,
// so each has a module of its own below this directory. Such a module has one file with the methods
// whose signatures differ between versions (Minor). Everything else is in this package:
//
//   - command.go reads and writes lines, worker.go gives each scenario a bounded time;
//   - config.go leads from a KubeletConfiguration to the settings of the managers;
//   - kubelet.go is what surrounds the managers in a kubelet, as far as it affects their decisions;
//   - devices.go has the device plugins;
//   - events.go carries out the events of docs/rules/format.md;
//   - state.go reads the state of the managers.
//
// This module requires the oldest recorded minor. The module of a minor selects its own version,
// which is the same or newer, so this package uses only what all of them export.
package record

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
)

// Minor is one minor version of Kubernetes.
type Minor interface {
	// Machine parses a MachineInfo of cAdvisor. The package of MachineInfo differs between
	// versions.
	Machine(raw []byte) (Machine, error)
}

// Machine is a node as the kubelet sees it at its start.
type Machine interface {
	Capacity() v1.ResourceList
	OnlineCPUs() (cpuset.CPUSet, error)
	// Managers makes the managers on the files in dir, in the kubelet's order. It does not
	// start them.
	Managers(s *Settings, dir string) (Managers, error)
}

// Managers are the managers with the method signatures of one version. A method calls the Topology,
// CPU and Memory Managers, unless its comment names a manager.
type Managers interface {
	// StartCPU and StartMemory start the managers on their state files.
	StartCPU(ctx context.Context, w World, running containermap.ContainerMap) error
	StartMemory(ctx context.Context, w World, running containermap.ContainerMap) error

	// StartDevices starts the device manager on its checkpoint file. runs has the ids of the
	// containers that run. This method and the next four are called only if the node has a device
	// manager (Settings.Devices).
	StartDevices(w World, running containermap.ContainerMap, runs sets.Set[string]) error
	StopDevices()
	// Connect connects a device plugin, and reports its devices.
	Connect(p *Plugin) error
	// CreateDevices gives a container that is being created the devices that it did not get at
	// admission.
	CreateDevices(pod *v1.Pod, c *v1.Container) error
	// Devices returns the ids of a container's devices by resource, sorted.
	Devices(uid, name string) map[string][]string

	// Admit decides on a pod. others are the active pods without it.
	Admit(pod *v1.Pod, others []*v1.Pod) Decision
	// Hint returns the merged hint of a container.
	Hint(uid, name string) topologymanager.TopologyHint
	// Created returns the cgroup settings of a container that is being created.
	Created(pod *v1.Pod, c *v1.Container) (cpus cpuset.CPUSet, mems []int)
	AddContainer(pod *v1.Pod, c *v1.Container, id string)
	// StopContainer does what the kubelet does when a container ends: it calls only the Topology
	// Manager.
	StopContainer(id string) error
	// RemoveContainer calls the CPU and Memory Managers, and then the Topology Manager.
	RemoveContainer(id string) error
	// DropStale makes the CPU and Memory Managers release what inactive pods have. The function for
	// this is not exported, but it runs before the hints for any pod, and probe is a pod that
	// requests nothing.
	DropStale(probe *v1.Pod)

	AllocatableCPUs() cpuset.CPUSet
	ExclusiveCPUs(uid, name string) cpuset.CPUSet
	// Isolation returns the isolation level of a container. It is empty for versions without
	// levels.
	Isolation(pod *v1.Pod, c *v1.Container) string
	// CPUs and Memory return the state. Pools are keyed by the UID of the pod, and nil for versions
	// without pools.
	CPUs() (shared cpuset.CPUSet, containers cpustate.ContainerCPUAssignments, pools map[string]cpuset.CPUSet)
	Memory() (numa memorystate.NUMANodeMap, containers memorystate.ContainerMemoryAssignments, pools map[string][]memorystate.Block)
}

// World is the part of the kubelet that the managers see.
type World struct {
	// ActivePods returns the pods that the managers must keep.
	ActivePods func() []*v1.Pod
	Sources    interface {
		AddSource(source string)
		AllReady() bool
	}
	Statuses interface {
		GetPodStatus(uid types.UID) (v1.PodStatus, bool)
	}
	Runtime interface {
		UpdateContainerResources(ctx context.Context, id string, r *runtimev1.ContainerResources) error
	}
}

// Decision is the answer to an admission.
type Decision struct {
	Admitted        bool
	Reason, Message string
}
