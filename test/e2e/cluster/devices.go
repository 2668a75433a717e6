package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// These are the sockets of the PodResources API on a node.
const (
	kubeletSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	agentSocket   = "/run/paddock/podresources.sock"
)

// devices prints the devices of containers according to the PodResources APIs of the kubelet and of
// the agent. It prints one line per device, or per container without devices. Lines that both
// report begin with a space. Those of the kubelet alone begin with -, those of the agent alone with
// +. The words are those of cpus.
func devices(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	var listed [2][]string
	for i, socket := range []string{kubeletSocket, agentSocket} {
		assigned, err := vm.Do[[]wire.Assigned](ctx, n.vm, wire.OpPodResources, wire.PodResources{Socket: socket})
		if err != nil {
			return wire.Ended{}, fmt.Errorf("%s: %w", socket, err)
		}
		for _, a := range assigned {
			if named(a.Namespace+"/"+a.Pod, words) {
				listed[i] = append(listed[i], devicesOf(a)...)
			}
		}
	}
	var out strings.Builder
	for _, line := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(listed[:]...)))) {
		sign := " "
		switch {
		case !slices.Contains(listed[0], line):
			sign = "+"
		case !slices.Contains(listed[1], line):
			sign = "-"
		}
		fmt.Fprintln(&out, sign, line)
	}
	return wire.Ended{Stdout: out.String()}, nil
}

func devicesOf(a wire.Assigned) (lines []string) {
	container := a.Namespace + "/" + a.Pod + " " + a.Container
	// A device near several NUMA nodes may be in several lists.
	near := map[string][]int64{}
	for _, d := range a.Devices {
		for _, id := range d.IDs {
			name := d.Resource + " " + id
			near[name] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(near[name], d.Nodes))))
		}
	}
	for name, nodes := range near {
		lines = append(lines, fmt.Sprintf("%s  %s  NUMA %v", container, name, nodes))
	}
	for _, c := range a.Claims {
		lines = append(lines, fmt.Sprintf("%s  claim %s: %s/%s/%s  CDI %s", container, c.Claim, c.Driver, c.Pool, c.Device, strings.Join(c.CDI, " ")))
	}
	if lines == nil {
		lines = []string{container + "  no devices"}
	}
	return lines
}
