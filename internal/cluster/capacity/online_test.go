package capacity

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/largepods"
)

// largeKind returns a node of the generated fleets, with NUMA nodes of 94 and 96 CPUs.
func largeKind(t *testing.T, count int) Kind {
	t.Helper()
	facts, err := discover.ParseFacts("sockets=2,cores=48,threads=2,memory=1536Gi,gpus=8")
	if err != nil {
		t.Fatal(err)
	}
	found, err := discover.Made("large", facts)
	if err != nil {
		t.Fatal(err)
	}
	m := found.Machine
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 96),
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {request.Memory: 4 * gib}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var gpus []device.Device
	for i := range facts.GPUs {
		gpus = append(gpus, device.Device{ID: fmt.Sprint("gpu", i), Healthy: true, Nodes: mask.Of(facts.GPUNode(i))})
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{gpu: gpus})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(inventory); err != nil {
		t.Fatal(err)
	}
	return Kind{Name: "large", Count: count, State: s, Allocatable: fleet.Amounts{
		Milli: 190_000, Memory: 1532 * gib, Pods: fleet.DefaultPods, Others: request.Amounts{{Resource: gpu, Value: 8}},
	}}
}

// largeItems returns the pods of a generated fleet that one NUMA node has room for.
func largeItems(t *testing.T, seed uint64, pods int) (items []Item) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(largepods.New(seed, pods).Pods)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows[1:] {
		var n [4]int64
		for k, text := range row {
			if n[k], err = strconv.ParseInt(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		it := item(fmt.Sprint("p", i), int(n[0]), n[3])
		c := &it.Pod.Containers[0]
		c.Memory[0].Value, it.Pod.Asks.Memory = n[1]*gib, n[1]*gib
		if n[2] > 0 {
			c.Devices = request.Amounts{{Resource: gpu, Value: n[2]}}
			it.Pod.Asks.Others = c.Devices
		}
		if n[0] <= 96 && n[1] < 768 && n[2] <= 4 {
			items = append(items, it)
		}
	}
	return items
}

// TestOnline places large pods in a random order, as they come to a scheduler, with the ranking of
// the scheduler, which does not know the pods that follow. There are as many nodes as best fit with
// the largest pods first needs for all of them. It compares the CPUs that the pods get.
func TestOnline(t *testing.T) {
	for seed := range uint64(3) {
		items := largeItems(t, 3*seed+3, 5000)
		best, err := Size(t.Context(), largeKind(t, 0), items, 10_000, Options{Scoring: fleet.BestFit, Order: LargestFirst})
		if err != nil {
			t.Fatal(err)
		}
		nodes := best.Nodes
		var single []Item
		for _, i := range items {
			for k := range i.Count {
				one := i
				one.Name, one.Count, one.Pod.UID = fmt.Sprint(i.Name, "-", k), 1, fmt.Sprint(i.Name, "-", k)
				single = append(single, one)
			}
		}
		random := rand.New(rand.NewPCG(seed, 1))
		random.Shuffle(len(single), func(i, k int) { single[i], single[k] = single[k], single[i] })
		o := Options{Scoring: fleet.BestFit, ranking: fleet.NewRanking(fleet.BestFit, nil)}
		come, err := Fit(t.Context(), []Kind{largeKind(t, nodes)}, single, o)
		if err != nil {
			t.Fatal(err)
		}
		less := 1 - float64(come.PlacedMilli)/float64(best.PlacedMilli)
		_, _ = fmt.Fprintf(t.Output(), "online: fleet %d, %d pods on %d nodes: %d placed as they come, %d largest first; %.2f %% fewer CPUs\n",
			seed+1, come.Asked, nodes, come.Placed, best.Placed, less*100)
		if less > 0.02 {
			t.Error("they get more than 2 % fewer")
		}
	}
}
