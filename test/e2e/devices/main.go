// Command devices gives a node of the tests devices that do not exist. It reads a file and runs a
// device plugin for each extended resource, and a DRA driver for each driver in it. It changes no
// files of the kernel. A container finds an environment variable DEVICE_ID for each of its devices.
//
//	devices KUBECONFIG NODE FILE
//
// It runs until SIGTERM. After that, the ResourceSlices stay, and the kubelet removes the resources
// of the device plugins from its node after some minutes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// inventory is the content of the file.
type inventory struct {
	// Plugins has the devices of each extended resource, in the order in which containers get them.
	Plugins map[string][]pluginDevice `json:"plugins"`
	// Drivers has the devices of each DRA driver, as in its ResourceSlices.
	Drivers map[string][]resourcev1.Device `json:"drivers"`
	// Metadata lists the drivers that describe the devices of claims in files (KEP-5304).
	Metadata []string `json:"metadata"`
}

// pluginDevice is a device of a device plugin.
type pluginDevice struct {
	ID string `json:"id"`
	// Nodes are the NUMA nodes that the device is near. If empty, the plugin reports none.
	Nodes []int64 `json:"nodes"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "devices:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: devices KUBECONFIG NODE FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	data, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	var all inventory
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return fmt.Errorf("%s: %w", args[2], err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return serve(ctx, client, args[1], all)
}

// serve serves all devices until ctx ends.
func serve(ctx context.Context, client kubernetes.Interface, node string, all inventory) error {
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for name, devices := range all.Drivers {
		end, err := startDriver(ctx, client, node, &driver{name: name, devices: devices, metadata: slices.Contains(all.Metadata, name)})
		if err != nil {
			return fmt.Errorf("driver %s: %w", name, err)
		}
		ends = append(ends, end)
	}
	for resource, devices := range all.Plugins {
		end, err := startPlugin(ctx, resource, devices)
		if err != nil {
			return fmt.Errorf("resource %s: %w", resource, err)
		}
		ends = append(ends, end)
	}
	fmt.Println("devices: ready")
	<-ctx.Done()
	return nil
}
