package node_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// lie is a change to one of the grants of TestAdopt that makes it contradict itself.
type lie struct {
	name string
	uid  string
	tell func(g *node.Grant)
	// restore is a part of the error of Restore.
	restore string
	// finding is the beginning of Adopt's finding about the pod. want is what pods have then.
	finding, want string
}

const asTheyWere = "one 1, pool 2-5, shared 0,6-7"

var lies = []lie{
	{
		"an exclusive container without its CPUs", "one", func(g *node.Grant) { g.Containers[0].CPUs = cpuset.Set{} },
		"container c asks for 1 exclusive CPUs and has none",
		"keeps what it has: container c asks for 1 exclusive CPUs and has none", "one , pool 2-5, shared 0-1,6-7",
	},
	{
		"an exclusive container of a pool without its CPUs", "pool", func(g *node.Grant) { g.Containers[0].CPUs = cpuset.Set{} },
		"container app has no CPUs, and other containers of its pod have theirs",
		"is forgotten: container app has no CPUs", "one 1, shared 0,2-7",
	},
	{
		"with fewer CPUs", "pool", func(g *node.Grant) { g.Containers[0].CPUs = cpuset.Of(2) },
		"container app asks for 2 exclusive CPUs and has 2",
		"keeps what it has: container app asks for 2 exclusive CPUs and has 2", asTheyWere,
	},
	{
		"with more CPUs", "one", func(g *node.Grant) { g.Containers[0].CPUs = cpuset.Of(1, 6) },
		"container c has CPUs 1,6 and asks for 1", "is forgotten: container c has CPUs 1,6 and asks for 1", "pool 2-5, shared 0-1,6-7",
	},
	{
		"a container that asks for no CPUs has some", "one", func(g *node.Grant) { g.Pod.Containers[0].CPUs = 0 },
		"container c has CPUs 1 and asks for 0", "is forgotten: container c has CPUs 1 and asks for 0", "pool 2-5, shared 0-1,6-7",
	},
	{
		"a removed container with CPUs", "one", func(g *node.Grant) { g.Containers[0].Removed = true },
		`container c is removed and has CPUs "1", memory [{memory 2147483648 {0}}]`,
		`keeps what it has: container c is marked as removed and has CPUs "1": it keeps what it has until the pod ends`, asTheyWere,
	},
	{
		"a removed container with another pod's CPUs", "one", func(g *node.Grant) {
			g.Containers[0].Removed, g.Containers[0].CPUs, g.Sequence = true, cpuset.Of(2), 9
		},
		"it has CPUs 2, which another pod has",
		`keeps what it has: container c is marked as removed and had CPUs "2": it has nothing now`, "one , pool 2-5, shared 0-1,6-7",
	},
	{
		"a budget larger than CPUs can be", "pool", func(g *node.Grant) { g.Pod.BudgetCPUs = 1 << 40 },
		"its budget is 1099511627776 CPUs and also 4000 thousandths",
		"keeps what it has: its pool has CPUs 2-5, and its budget is 1099511627776 CPUs and 4000 thousandths: the budget is that of the pool", asTheyWere,
	},
	{
		"a budget smaller than the pool", "pool", func(g *node.Grant) { g.Pod.BudgetCPUs, g.Pod.BudgetCPUMilli = 3, 3000 },
		"its pool has CPUs 2-5, and its budget is 3", "keeps what it has: its pool has CPUs 2-5, and its budget is 3 CPUs", asTheyWere,
	},
	{
		"a budget larger than the pool", "pool", func(g *node.Grant) { g.Pod.BudgetCPUs, g.Pod.BudgetCPUMilli = 40, 40000 },
		"its pool has CPUs 2-5, and its budget is 40", "keeps what it has: its pool has CPUs 2-5, and its budget is 40", asTheyWere,
	},
	{
		"an absurd budget of memory", "pool", func(g *node.Grant) { g.Pod.BudgetMemory = request.Amounts{{Resource: "memory", Value: 1 << 62}} },
		"its pool has [{memory 6442450944 {0}}], and its budget is memory=4Ei", "keeps what it has: its pool has [{memory 6442450944 {0}}]", asTheyWere,
	},
	{
		"an absurd pool of memory", "pool", func(g *node.Grant) {
			g.Pod.BudgetMemory, g.PoolMemory = request.Amounts{{Resource: "memory", Value: 1 << 62}}, []memory.Block{{Type: "memory", Size: 1 << 62, Nodes: mask.Of(0)}}
		},
		"its pool has [{memory 4611686018427387904 {0}}]", "is forgotten: its pool has [{memory 4611686018427387904 {0}}]", "one 1, shared 0,2-7",
	},
	{
		"a pool of a plain pod", "pool", func(g *node.Grant) { g.Pod.Kind = request.Plain },
		"it is a plain pod and has a pool", "is forgotten: it is a plain pod and has a pool", "one 1, shared 0,2-7",
	},
	{
		"exclusive CPUs of a Burstable pod", "one", func(g *node.Grant) { g.Pod.QoS = request.Burstable },
		"container c has CPUs 1, and its pod is plain and Burstable", "is forgotten: container c has CPUs 1", "pool 2-5, shared 0-1,6-7",
	},
	{
		"a pool without a container", "pool", func(g *node.Grant) {
			g.Containers[0], g.Containers[1] = node.ContainerGrant{Removed: true}, node.ContainerGrant{Removed: true}
		},
		"it has a pool, and all its containers are removed", "is forgotten: it has a pool", "one 1, shared 0,2-7",
	},
	{
		"a baseline that it does not have", "one", func(g *node.Grant) { g.Containers[0].Baseline = cpuset.Of(6) },
		"container c was admitted with CPUs 6 and has 1",
		"keeps what it has: container c has CPUs \"1\" and was admitted with 6: no resize takes any of them away", asTheyWere,
	},
	{
		"a baseline of the pool that is not less than the pool", "pool", func(g *node.Grant) { g.PoolBaseline = g.Pool },
		"its pool was admitted with CPUs 2-5 and has 2-5",
		"keeps what it has: its pool has CPUs \"2-5\" and was admitted with 2-5: no resize takes any of them away", asTheyWere,
	},
	{
		"more memory than it asks for", "one", func(g *node.Grant) { g.Containers[0].Memory = blocks(7 * gib) },
		"container c has 7Gi of memory on NUMA node 0, and has a right to 2Gi",
		"keeps what it has: container c has 7Gi of memory and asks for 2Gi of memory: it counts as what it asks for", asTheyWere,
	},
	{
		"memory that it does not ask for", "one", func(g *node.Grant) { g.Pod.Containers[0].Memory = nil },
		"container c has 2Gi of memory", "is forgotten: container c has 2Gi of memory", "pool 2-5, shared 0-1,6-7",
	},
	{
		"memory on other NUMA nodes than it is pinned to", "one", func(g *node.Grant) { g.Containers[0].MemoryNodes = mask.Of(5) },
		"container c is pinned to NUMA node 5, and its memory is on NUMA node 0",
		"keeps what it has: container c is pinned to NUMA node 5, and its memory is on NUMA node 0: it is pinned there", asTheyWere,
	},
	{
		"devices that it does not ask for", "one", func(g *node.Grant) {
			g.Containers[0].Devices = []device.Assigned{{Resource: "a.io/gpu", IDs: []string{"x"}}}
		},
		"container c has devices [x] of a.io/gpu and asks for 0", "is forgotten: container c has devices [x]", "pool 2-5, shared 0-1,6-7",
	},
}

func blocks(size int64) []memory.Block {
	return []memory.Block{{Type: machine.Memory, Size: size, Nodes: mask.Of(0)}}
}

// TestLies checks that Restore rejects a state in which one grant contradicts itself, and that
// Adopt names the pod and corrects what can be corrected.
func TestLies(t *testing.T) {
	w := world{cpus: 8, reserved: cpuset.Of(0), static: true}
	for _, c := range lies {
		t.Run(c.name, func(t *testing.T) {
			list := slices.Clone(grants(t, w))
			at := slices.IndexFunc(list, func(g *node.Grant) bool { return g.Pod.UID == c.uid })
			lying := *list[at]
			lying.Containers, lying.Pod.Containers = slices.Clone(lying.Containers), slices.Clone(lying.Pod.Containers)
			c.tell(&lying)
			list[at] = &lying
			_, err := node.Restore(w.machine(t), w.policy(), list)
			if !errors.Is(err, node.ErrInvariant) || !strings.Contains(err.Error(), "pod default/"+c.uid+": ") || !strings.Contains(err.Error(), c.restore) {
				t.Errorf("Restore: %v\nwant    %s", err, c.restore)
			}
			testAdopt(t, list, w, c.want, []string{"pod default/" + c.uid + " " + c.finding})
		})
	}
}

// TestAdmittedUnderPolicyNone checks that a pod that was admitted before CPUs were managed is
// reported, and continues to run where it runs.
func TestAdmittedUnderPolicyNone(t *testing.T) {
	none, static := world{cpus: 8}, world{cpus: 8, reserved: cpuset.Of(0), static: true}
	list := grants(t, none)
	if _, err := node.Restore(none.machine(t), none.policy(), list); err != nil {
		t.Errorf("under the policy that it was made by: %v", err)
	}
	testAdopt(t, list, none, "one , pool , shared ", nil)
	if _, err := node.Restore(static.machine(t), static.policy(), list); !errors.Is(err, node.ErrInvariant) {
		t.Errorf("under static: %v", err)
	}
	testAdopt(t, list, static, "one , pool , shared 0-7", []string{
		"pod default/one keeps what it has: container c asks for 1 exclusive CPUs and has none: delete the pod",
		"pod default/pool keeps what it has: container app asks for 2 exclusive CPUs and has none: delete the pod",
	})
}
