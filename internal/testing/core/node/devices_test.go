package node_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const gpu = "example.com/gpu"

// holder returns a grant that has only devices, with one container for each container type.
func holder(name string, containerTypes []request.ContainerType, ids ...[]string) *node.Grant {
	g := &node.Grant{Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}}}
	for i, containerType := range containerTypes {
		asks := request.Container{Name: string(rune('a' + i)), Type: containerType}
		c := node.ContainerGrant{}
		if len(ids[i]) > 0 {
			c.Devices = []device.Assigned{{Resource: gpu, IDs: ids[i]}}
			asks.Devices = request.Amounts{{Resource: gpu, Value: int64(len(ids[i]))}}
		}
		g.Pod.Containers, g.Containers = append(g.Pod.Containers, asks), append(g.Containers, c)
	}
	return g
}

// TestNoDeviceHasTwoHolders checks that containers can share only devices that a standard init
// container left.
func TestNoDeviceHasTwoHolders(t *testing.T) {
	x, y := []string{"x"}, []string{"y"}
	apps := []request.ContainerType{request.App, request.App}
	for _, c := range []struct {
		name   string
		grants []*node.Grant
		want   string // in the error; empty if the grants are valid
	}{
		{"each its own", []*node.Grant{holder("p", apps, x, y)}, ""},
		{"one app of another", []*node.Grant{holder("p", apps, x, x)}, `containers a and b both have device "x"`},
		{"left by an init container", []*node.Grant{holder("p", []request.ContainerType{request.Init, request.App}, x, x)}, ""},
		{"left by an init container to an init container", []*node.Grant{holder("p", []request.ContainerType{request.Init, request.Init}, x, x)}, ""},
		{"left by a sidecar", []*node.Grant{holder("p", []request.ContainerType{request.Sidecar, request.App}, x, x)}, `containers a and b both have device "x"`},
		{"of a sidecar that runs", []*node.Grant{holder("p", []request.ContainerType{request.Sidecar, request.Init, request.App}, x, x, y)}, `containers a and b both have device "x"`},
		{"left to two", []*node.Grant{holder("p", []request.ContainerType{request.Init, request.App, request.App}, x, x, x)}, `containers b and c both have device "x"`},
		{"of two pods", []*node.Grant{holder("p", apps, x, nil), holder("q", apps, y, x)}, `pod default/q: assignments contradict each other: device cannot be taken: device "x"`},
		{"gone", []*node.Grant{holder("p", apps, []string{"z"}, nil)}, ""},
	} {
		if err := restoreWithDevices(t, c.grants); (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, node.ErrInvariant) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func restoreWithDevices(t *testing.T, grants []*node.Grant) error {
	t.Helper()
	w := world{cpus: 2, reserved: cpuset.Of(0), static: true}
	m := w.machine(t)
	inv, err := device.NewInventory(m, map[string][]device.Device{gpu: {
		{ID: "x", Healthy: true, Nodes: mask.Of(0)}, {ID: "y", Healthy: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.Restore(m, w.policy(), grants)
	if err != nil {
		return err
	}
	if s, err = s.WithDevices(inv); err != nil {
		return err
	}
	return s.Check()
}
