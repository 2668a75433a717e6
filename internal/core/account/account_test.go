package account_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
)

// shares are those of two pods, of a reservation, and of a pod that has nothing.
var shares = []account.Share{
	{Holder: "default/small", CPUs: cpuset.Of(1), Blocks: []memory.Block{{Type: "memory", Size: 3, Nodes: mask.Of(0)}, {Type: "memory", Size: 1, Nodes: mask.Of(0)}}},
	{
		Holder: "default/large", CPUs: cpuset.Of(2, 3, 4), Blocks: []memory.Block{{Type: "memory", Size: 8, Nodes: mask.Of(0, 1)}, {Type: "hugepages-2Mi", Size: 2, Nodes: mask.Of(1)}},
		Devices: []device.Assigned{{Resource: "example.com/gpu", IDs: []string{"g1", "gone"}}},
	},
	{Holder: account.ReservedFor + "default/next", CPUs: cpuset.Of(5)},
	{Holder: "default/none"},
}

func twoNodes(t *testing.T) *machine.Machine {
	t.Helper()
	var d machine.Description
	for n := range 2 {
		at := machine.NodeDescription{ID: n, Memory: 1 << 30}
		for c := range 4 {
			at.Cores = append(at.Cores, machine.CoreDescription{Threads: []int{n*4 + c}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, at)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func expect(t *testing.T, got []account.Node, want string) {
	t.Helper()
	text := ""
	for _, n := range got {
		text += fmt.Sprintf("node %d: %d of %d free, %d unhealthy", n.Node, n.Free, n.Total, n.Unhealthy)
		for _, h := range n.Holders {
			text += fmt.Sprintf(", %s %d on %s", h.Pod, h.Amount, h.Nodes)
			if h.Reserved() {
				text += " reserved"
			}
		}
		text += "\n"
	}
	if text != want {
		t.Errorf("account\n%sexpected\n%s", text, want)
	}
}

func TestCPUs(t *testing.T) {
	m := twoNodes(t)
	expect(t, account.CPUs(m.CPUNodes(), m.AllCPUs().Difference(cpuset.Of(0)), cpuset.Of(6, 7), shares), `node 0: 0 of 3 free, 0 unhealthy, default/large 2 on {0}, default/small 1 on {0}
node 1: 2 of 4 free, 0 unhealthy, default/large 1 on {1}, reserved for pod default/next 1 on {1} reserved
`)
}

// TestMemory checks that blocks of a pod on the same NUMA nodes are added up, and that a block on
// two NUMA nodes is in both accounts.
func TestMemory(t *testing.T) {
	nodes := []account.Node{{Node: 0, Total: 20, Free: 8}, {Node: 1, Total: 20, Free: 20}}
	expect(t, account.Memory("memory", nodes, shares), `node 0: 8 of 20 free, 0 unhealthy, default/large 8 on {0-1}, default/small 4 on {0}
node 1: 20 of 20 free, 0 unhealthy, default/large 8 on {0-1}
`)
}

func TestDevices(t *testing.T) {
	inv, err := device.NewInventory(twoNodes(t), map[string][]device.Device{"example.com/gpu": {
		{ID: "g0", Healthy: true, Nodes: mask.Of(0)}, {ID: "g1", Healthy: true, Nodes: mask.Of(0)}, {ID: "g2", Nodes: mask.Of(0)}, {ID: "far", Healthy: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	usage, err := device.NewUsage(inv).Take("example.com/gpu", []string{"g1"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, account.Devices("example.com/gpu", usage, shares), "node 0: 1 of 3 free, 1 unhealthy, default/large 1 on {0}\n")
	if got := account.Devices("example.com/nic", usage, shares); got != nil {
		t.Errorf("an account of an unknown resource: %v", got)
	}
}
