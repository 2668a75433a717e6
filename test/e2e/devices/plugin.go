package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// registration is the time limit for a registration. The kubelet calls the plugin back before it
// answers.
const registration = time.Minute

// plugin is a device plugin for one extended resource. All its devices are always healthy.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	devices []pluginDevice
	end     context.Context //nolint:containedctx // A stream to the kubelet ends with it.
}

// startPlugin serves a plugin and registers it with the kubelet. The returned function stops the
// plugin.
func startPlugin(ctx context.Context, resource string, devices []pluginDevice) (func(), error) {
	socket := filepath.Join(v1beta1.DevicePluginPath, strings.ReplaceAll(resource, "/", "_")+".sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	p := &plugin{devices: devices, end: ctx}
	v1beta1.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }() // It ends with the listener.
	conn, err := grpc.NewClient("unix://"+v1beta1.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, registration)
	defer cancel()
	options, err := p.GetDevicePluginOptions(ctx, nil)
	if err != nil {
		return nil, err
	}
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: filepath.Base(socket), ResourceName: resource, Options: options,
	}, grpc.WaitForReady(true))
	return server.Stop, err
}

// GetDevicePluginOptions returns that the plugin chooses its devices.
func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch sends the devices once.
func (p *plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	list := &v1beta1.ListAndWatchResponse{}
	for _, d := range p.devices {
		device := &v1beta1.Device{ID: d.ID, Health: v1beta1.Healthy}
		if len(d.Nodes) > 0 {
			device.Topology = &v1beta1.TopologyInfo{}
		}
		for _, n := range d.Nodes {
			device.Topology.Nodes = append(device.Topology.Nodes, &v1beta1.NUMANode{ID: n})
		}
		list.Devices = append(list.Devices, device)
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-p.end.Done():
	}
	return nil
}

// GetPreferredAllocation chooses the first devices.
func (p *plugin) GetPreferredAllocation(_ context.Context, in *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	out := &v1beta1.PreferredAllocationResponse{}
	for _, c := range in.ContainerRequests {
		chosen := slices.Clone(c.MustIncludeDeviceIDs)
		for _, d := range p.devices {
			if len(chosen) < int(c.AllocationSize) && slices.Contains(c.AvailableDeviceIDs, d.ID) && !slices.Contains(chosen, d.ID) {
				chosen = append(chosen, d.ID)
			}
		}
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return out, nil
}

// Allocate returns the environment variables of a container's devices.
func (p *plugin) Allocate(_ context.Context, in *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for _, c := range in.ContainerRequests {
		response := &v1beta1.ContainerAllocateResponse{Envs: map[string]string{}}
		for _, id := range c.DevicesIds {
			if !slices.ContainsFunc(p.devices, func(d pluginDevice) bool { return d.ID == id }) {
				return nil, fmt.Errorf("device %s is unknown", id)
			}
			response.Envs["DEVICE_"+id] = "plugin"
		}
		out.ContainerResponses = append(out.ContainerResponses, response)
	}
	return out, nil
}
