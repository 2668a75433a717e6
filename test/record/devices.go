package record

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// inventory has the devices of a scenario, as device plugins report them.
type inventory struct {
	Resources map[string][]deviceEntry `json:"resources"`
}

// deviceEntry is a device, in a form that Paddock's devices files allow too.
type deviceEntry struct {
	ID string `json:"id"`
	// NUMANodes are the NUMA nodes that the plugin reports. It may report none.
	NUMANodes []int `json:"numaNodes,omitempty"`
	// Healthy means true if it is absent.
	Healthy *bool `json:"healthy,omitempty"`
}

// Plugin is a device plugin that the device manager calls without a connection. It prefers the
// lowest ids, so that the devices of a container do not depend on chance: without preferences, the
// order of a map would decide.
type Plugin struct {
	pluginapi.DevicePluginClient // The device manager calls only the methods below.

	resource string
	Devices  []*pluginapi.Device
}

// plugins returns the plugins of an inventory, in the order of their resources.
func (i *inventory) plugins() []*Plugin {
	var all []*Plugin
	for _, name := range slices.Sorted(maps.Keys(i.Resources)) {
		p := &Plugin{resource: name}
		for _, d := range i.Resources[name] {
			device := &pluginapi.Device{ID: d.ID, Health: pluginapi.Healthy}
			if d.Healthy != nil && !*d.Healthy {
				device.Health = pluginapi.Unhealthy
			}
			if len(d.NUMANodes) > 0 {
				device.Topology = &pluginapi.TopologyInfo{}
				for _, id := range d.NUMANodes {
					device.Topology.Nodes = append(device.Topology.Nodes, &pluginapi.NUMANode{ID: int64(id)})
				}
			}
			p.Devices = append(p.Devices, device)
		}
		all = append(all, p)
	}
	return all
}

// API, Resource and SocketPath implement what the device manager expects of a plugin that connects.
func (p *Plugin) API() pluginapi.DevicePluginClient { return p }

// Resource returns the name of the extended resource.
func (p *Plugin) Resource() string { return p.resource }

// SocketPath distinguishes plugins. Nothing listens at the path.
func (p *Plugin) SocketPath() string { return "/" + p.resource }

// GetDevicePluginOptions makes the device manager ask for preferences.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// GetPreferredAllocation prefers the devices that must be included, and then the lowest ids.
func (p *Plugin) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		order := slices.Clone(c.AvailableDeviceIDs)
		rank := func(id string) int {
			if slices.Contains(c.MustIncludeDeviceIDs, id) {
				return 0
			}
			return 1
		}
		slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
		order = order[:min(len(order), int(c.AllocationSize))]
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: order})
	}
	return response, nil
}

// Allocate allows every choice.
func (p *Plugin) Allocate(context.Context, *pluginapi.AllocateRequest, ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

// DeviceIDs returns the ids of devices by resource, sorted. all is what a device manager returns
// for a container; the type of a device differs between versions.
func DeviceIDs[D any, S ~map[string]D, M ~map[string]S](all M) map[string][]string {
	ids := map[string][]string{}
	for resource, devices := range all {
		ids[resource] = slices.Sorted(maps.Keys(devices))
	}
	return ids
}

// ready reports to the device manager whether the kubelet has seen all its pods. While the kubelet
// admits running pods again after its restart, it has not.
type ready struct{ k *kubelet }

func (ready) AddSource(string) {}

func (r ready) AllReady() bool { return !r.k.again }

// connect registers the device plugins. After a restart of the kubelet, they connect again either
// at once, or late, that is, after the running pods have been admitted again.
func (k *kubelet) connect() error {
	if k.connected || k.devices == nil {
		return nil
	}
	k.connected = true
	for _, p := range k.devices.plugins() {
		if err := k.managers.Connect(p); err != nil {
			return fmt.Errorf("device plugin of %s: %w", p.resource, err)
		}
	}
	return nil
}

// deviceView returns the devices of active pods by pod, container and resource, or nil if no pod
// has any.
func (k *kubelet) deviceView() map[string]map[string]map[string][]string {
	if k.devices == nil {
		return nil
	}
	var all map[string]map[string]map[string][]string
	for _, uid := range k.active {
		for _, c := range containers(k.pods[uid]) {
			ids := k.managers.Devices(uid, c.Name)
			if len(ids) == 0 {
				continue
			}
			if all == nil {
				all = map[string]map[string]map[string][]string{}
			}
			if all[uid] == nil {
				all[uid] = map[string]map[string][]string{}
			}
			all[uid][c.Name] = ids
		}
	}
	return all
}

// running returns the ids of the containers that run. Standard init containers have ended.
func (k *kubelet) running() []string {
	var ids []string
	for uid, names := range k.started {
		for i, c := range containers(k.pods[uid]) {
			ended := i < len(k.pods[uid].Spec.InitContainers) && c.RestartPolicy == nil
			if names[c.Name] && !ended {
				ids = append(ids, containerID(uid, c.Name))
			}
		}
	}
	return ids
}

// create gives a container its devices, as the kubelet does before it creates the container. It
// reports false if the kubelet cannot create the container.
func (k *kubelet) create(pod *v1.Pod, c *v1.Container, a *answer) bool {
	if k.devices == nil {
		return true
	}
	err := k.managers.CreateDevices(pod, c)
	if err == nil {
		return true
	}
	if a.Uncreated == nil {
		a.Uncreated = map[string]string{}
	}
	a.Uncreated[c.Name] = err.Error()
	return false
}
