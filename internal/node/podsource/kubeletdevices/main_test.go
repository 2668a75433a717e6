package kubeletdevices

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/mask"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kubelet answers as a kubelet does, or as a test requires.
type kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	pods []*podresourcesv1.PodResources
	// get and list are called before a call is answered. If nil, they are not called.
	get, list   func() error
	gets, lists atomic.Int32
	devices     []*podresourcesv1.ContainerDevices
}

func (k *kubelet) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	return &podresourcesv1.AllocatableResourcesResponse{CpuIds: []int64{1, 2}, Devices: k.devices}, nil
}

func (k *kubelet) Get(_ context.Context, r *podresourcesv1.GetPodResourcesRequest) (*podresourcesv1.GetPodResourcesResponse, error) {
	k.gets.Add(1)
	if k.get != nil {
		if err := k.get(); err != nil {
			return nil, err
		}
	}
	for _, p := range k.pods {
		if p.GetName() == r.GetPodName() && p.GetNamespace() == r.GetPodNamespace() {
			return &podresourcesv1.GetPodResourcesResponse{PodResources: p}, nil
		}
	}
	return nil, errors.New("pod " + r.GetPodName() + " in namespace " + r.GetPodNamespace() + " not found") // as the kubelet does, with code Unknown
}

func (k *kubelet) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	k.lists.Add(1)
	if k.list != nil {
		if err := k.list(); err != nil {
			return nil, err
		}
	}
	return &podresourcesv1.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// serve starts the kubelet and returns a client of it.
func (k *kubelet) serve(t *testing.T, options ...grpc.ServerOption) *Client {
	t.Helper()
	l := listen(t)
	server := grpc.NewServer(options...)
	podresourcesv1.RegisterPodResourcesListerServer(server, k)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return client(t, l.Addr().String())
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func client(t *testing.T, socket string) *Client {
	t.Helper()
	c, err := New(socket, time.After)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func topology(nodes ...int64) *podresourcesv1.TopologyInfo {
	info := &podresourcesv1.TopologyInfo{}
	for _, n := range nodes {
		info.Nodes = append(info.Nodes, &podresourcesv1.NUMANode{ID: n})
	}
	return info
}

func cdi(names ...string) []*podresourcesv1.CDIDevice {
	var list []*podresourcesv1.CDIDevice
	for _, n := range names {
		list = append(list, &podresourcesv1.CDIDevice{Name: n})
	}
	return list
}

// train returns a pod as a kubelet lists it, with the kubelet's two faults: CDI devices accumulate,
// and entries are repeated.
func train() *podresourcesv1.PodResources {
	share := "part-a"
	gpu := func(name string, names ...string) *podresourcesv1.ClaimResource {
		return &podresourcesv1.ClaimResource{DriverName: "gpu.example.com", PoolName: "node7", DeviceName: name, CdiDevices: cdi(names...)}
	}
	nic := &podresourcesv1.ClaimResource{DriverName: "nic.example.com", PoolName: "node7", DeviceName: "nic0", ShareId: &share, CdiDevices: cdi("n0")}
	return &podresourcesv1.PodResources{
		Namespace: "default", Name: "train", CpuIds: []int64{1, 2}, Memory: []*podresourcesv1.ContainerMemory{{MemoryType: "memory", Size: 1 << 30}},
		Containers: []*podresourcesv1.ContainerResources{
			{Name: "proxy"},
			{
				Name: "app", CpuIds: []int64{3},
				Devices: []*podresourcesv1.ContainerDevices{
					{ResourceName: "example.com/nic", DeviceIds: []string{"a"}, Topology: topology(0)},
					{ResourceName: "example.com/nic", DeviceIds: []string{"b", "a"}, Topology: topology(1, 1)},
					{ResourceName: "example.com/fuse", DeviceIds: []string{"a"}},
					{ResourceName: "example.com/odd", DeviceIds: []string{"x"}, Topology: topology(1, 64)},
					{ResourceName: "example.com/odd", DeviceIds: []string{"y"}, Topology: topology(-1)},
				},
				DynamicResources: []*podresourcesv1.DynamicResource{
					{ClaimNamespace: "default", ClaimName: "gpus", ClaimResources: []*podresourcesv1.ClaimResource{
						gpu("gpu0", "g0", "u0"), gpu("gpu1", "g0", "u0", "g1"), nic, gpu("gpu0", "g0", "u0"), gpu("gpu1", "g0", "u0", "g1"),
					}},
					{ClaimNamespace: "default", ClaimName: "empty"},
					{ClaimNamespace: "default", ClaimName: "gpus", ClaimResources: []*podresourcesv1.ClaimResource{gpu("gpu2")}},
				},
			},
		},
	}
}

// trained is the expected value of train.
var trained = Pod{Namespace: "default", Name: "train", Containers: []Container{{Name: "proxy"}, {
	Name: "app",
	Devices: []Device{
		{"example.com/nic", "a", mask.Of(0, 1)},
		{"example.com/nic", "b", mask.Of(1)},
		{"example.com/fuse", "a", 0},
		{"example.com/odd", "x", 0},
		{"example.com/odd", "y", 0},
	},
	Claims: []Claim{
		{"default", "gpus", []ClaimDevice{
			{Driver: "gpu.example.com", Pool: "node7", Device: "gpu0", CDI: []string{"g0", "u0"}},
			{Driver: "gpu.example.com", Pool: "node7", Device: "gpu1", CDI: []string{"g1"}},
			{Driver: "nic.example.com", Pool: "node7", Device: "nic0", ShareID: "part-a", CDI: []string{"n0"}},
			{Driver: "gpu.example.com", Pool: "node7", Device: "gpu2"},
		}},
		{Namespace: "default", Name: "empty"},
	},
}}}
