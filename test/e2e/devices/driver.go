package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// cdi is the directory in which runtimes look for CDI files.
const cdi = "/var/run/cdi"

// driver is a DRA driver with one pool. The pool has the name of the node.
type driver struct {
	name     string
	devices  []resourcev1.Device
	metadata bool
}

// startDriver registers a driver with the kubelet and publishes its devices. The returned function
// stops the driver.
func startDriver(ctx context.Context, client kubernetes.Interface, node string, d *driver) (func(), error) {
	data := filepath.Join(kubeletplugin.KubeletPluginsDir, d.name)
	if err := errors.Join(os.MkdirAll(data, 0o750), os.MkdirAll(cdi, 0o755)); err != nil {
		return nil, err
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(d.name), kubeletplugin.NodeName(node),
		kubeletplugin.KubeClient(client), kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.HealthService(false),
		kubeletplugin.EnableDeviceMetadata(d.metadata, []schema.GroupVersion{v1beta1.SchemeGroupVersion}))
	if err != nil {
		return nil, err
	}
	err = helper.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: d.devices}}}},
	})
	return helper.Stop, err
}

// PrepareResourceClaims writes a CDI file for each claim, with an entry for each of its devices.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var result kubeletplugin.PrepareResult
		type object map[string]any
		var edits []object
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver != d.name {
				continue
			}
			// The name is never used twice, because runtimes cache what they read.
			name := string(claim.UID) + "-" + r.Device
			edits = append(edits, object{"name": name, "containerEdits": object{"env": []string{"DEVICE_" + r.Device + "=" + d.name}}})
			result.Devices = append(result.Devices, kubeletplugin.Device{
				Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID, CDIDeviceIDs: []string{d.kind() + "=" + name},
				Metadata: d.describe(r.Device),
			})
		}
		file, err := json.Marshal(object{"cdiVersion": "0.6.0", "kind": d.kind(), "devices": edits})
		if err == nil {
			err = os.WriteFile(d.file(claim.UID), file, 0o644)
		}
		result.Err = err
		results[claim.UID] = result
	}
	return results, nil
}

// UnprepareResourceClaims removes the files.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		if results[claim.UID] = os.Remove(d.file(claim.UID)); errors.Is(results[claim.UID], fs.ErrNotExist) {
			results[claim.UID] = nil
		}
	}
	return results, nil
}

// HandleError prints an error of a background operation, which is tried again.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintf(os.Stderr, "devices: driver %s: %s: %v\n", d.name, msg, err)
}

// WatchHealthStatus returns that the driver does not report health.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// describe returns the attributes of a device.
func (d *driver) describe(name string) *kubeletplugin.DeviceMetadata {
	described := &kubeletplugin.DeviceMetadata{Attributes: map[string]resourcev1.DeviceAttribute{}}
	for _, device := range d.devices {
		if device.Name != name {
			continue
		}
		for attribute, value := range device.Attributes {
			described.Attributes[string(attribute)] = value
		}
	}
	return described
}

func (d *driver) kind() string { return d.name + "/device" }

func (d *driver) file(claim types.UID) string {
	return filepath.Join(cdi, d.name+"-"+string(claim)+".json")
}
