// Program record is the recorder of Kubernetes 1.34.
package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/paddock-project/paddock/test/record"
)

func main() { record.Main(minor{}) }

type minor struct{}

func (minor) Machine(raw []byte) (record.Machine, error) {
	info := &cadvisorapi.MachineInfo{}
	return machine{info}, json.Unmarshal(raw, info)
}

type machine struct{ info *cadvisorapi.MachineInfo }

func (m machine) Capacity() v1.ResourceList { return cadvisor.CapacityFromMachineInfo(m.info) }

func (m machine) OnlineCPUs() (cpuset.CPUSet, error) {
	found, err := topology.Discover(m.info)
	if err != nil {
		return cpuset.New(), err
	}
	return found.CPUDetails.CPUs(), nil
}

// managers have what is between them and the shared recorder.
type managers struct {
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	// devices is nil if the node has no device manager.
	devices *devicemanager.ManagerImpl
	ctx     context.Context
}

// newDeviceManager makes a device manager with its socket and its checkpoint file in any directory.
// The kubelet's exported constructor has the directory of a node.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, topology []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

func (m machine) Managers(s *record.Settings, dir string) (record.Managers, error) {
	c, k := s.Config, &managers{ctx: context.Background()}
	var err error
	if k.topology, err = topologymanager.NewManager(m.info.Topology, c.TopologyManagerPolicy, c.TopologyManagerScope, c.TopologyManagerPolicyOptions); err != nil {
		return nil, err
	}
	if s.Devices {
		if k.devices, err = newDeviceManager(filepath.Join(dir, "device-plugins", "kubelet.sock"), m.info.Topology, k.topology); err != nil {
			return nil, err
		}
		k.topology.AddHintProvider(k.devices)
	}
	if k.cpu, err = cpumanager.NewManager(c.CPUManagerPolicy, c.CPUManagerPolicyOptions, record.RoundPeriod, m.info, s.Explicit, s.Reservation, dir, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(k.cpu)
	if k.memory, err = memorymanager.NewManager(k.ctx, c.MemoryManagerPolicy, m.info, s.Reservation, c.ReservedMemory, dir, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(k.memory)
	return k, nil
}

func (k *managers) StartCPU(_ context.Context, w record.World, running containermap.ContainerMap) error {
	return k.cpu.Start(w.ActivePods, w.Sources, w.Statuses, w.Runtime, running)
}

func (k *managers) StartMemory(ctx context.Context, w record.World, running containermap.ContainerMap) error {
	return k.memory.Start(ctx, w.ActivePods, w.Sources, w.Statuses, w.Runtime, running)
}

func (k *managers) StartDevices(w record.World, running containermap.ContainerMap, runs sets.Set[string]) error {
	return k.devices.Start(w.ActivePods, w.Sources, running, runs)
}

func (k *managers) StopDevices() {
	_ = k.devices.Stop() // It returns no error in any version.
}

func (k *managers) Connect(p *record.Plugin) error {
	if err := k.devices.PluginConnected(p.Resource(), p); err != nil {
		return err
	}
	k.devices.PluginListAndWatchReceiver(p.Resource(), &pluginapi.ListAndWatchResponse{Devices: p.Devices})
	return nil
}

func (k *managers) CreateDevices(pod *v1.Pod, c *v1.Container) error {
	_, err := k.devices.GetDeviceRunContainerOptions(pod, c)
	return err
}

func (k *managers) Devices(uid, name string) map[string][]string {
	return record.DeviceIDs(k.devices.GetDevices(uid, name))
}

func (k *managers) Admit(pod *v1.Pod, others []*v1.Pod) record.Decision {
	d := k.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others})
	return record.Decision{Admitted: d.Admit, Reason: d.Reason, Message: d.Message}
}

func (k *managers) Hint(uid, name string) topologymanager.TopologyHint {
	return k.topology.GetAffinity(uid, name)
}

func (k *managers) Created(pod *v1.Pod, c *v1.Container) (cpus cpuset.CPUSet, mems []int) {
	return k.cpu.GetCPUAffinity(string(pod.UID), c.Name), sets.List(k.memory.GetMemoryNUMANodes(k.ctx, pod, c))
}

func (k *managers) AddContainer(pod *v1.Pod, c *v1.Container, id string) {
	k.cpu.AddContainer(pod, c, id)
	k.memory.AddContainer(k.ctx, pod, c, id)
	k.topology.AddContainer(pod, c, id)
}

func (k *managers) StopContainer(id string) error { return k.topology.RemoveContainer(id) }

func (k *managers) RemoveContainer(id string) error {
	if err := k.cpu.RemoveContainer(id); err != nil {
		return err
	}
	if err := k.memory.RemoveContainer(k.ctx, id); err != nil {
		return err
	}
	return k.topology.RemoveContainer(id)
}

func (k *managers) DropStale(probe *v1.Pod) {
	k.cpu.GetTopologyHints(probe, &probe.Spec.Containers[0])
	k.memory.GetTopologyHints(probe, &probe.Spec.Containers[0])
}

func (k *managers) AllocatableCPUs() cpuset.CPUSet { return k.cpu.GetAllocatableCPUs() }

func (k *managers) ExclusiveCPUs(uid, name string) cpuset.CPUSet {
	return k.cpu.GetExclusiveCPUs(uid, name)
}

func (k *managers) Isolation(*v1.Pod, *v1.Container) string { return "" }

func (k *managers) CPUs() (shared cpuset.CPUSet, containers cpustate.ContainerCPUAssignments, pools map[string]cpuset.CPUSet) {
	s := k.cpu.State()
	return s.GetDefaultCPUSet(), s.GetCPUAssignments(), nil
}

func (k *managers) Memory() (numa memorystate.NUMANodeMap, containers memorystate.ContainerMemoryAssignments, pools map[string][]memorystate.Block) {
	s := k.memory.State()
	return s.GetMachineState(), s.GetMemoryAssignments(), nil
}
