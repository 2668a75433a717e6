package capacity

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const gpu = "example.com/gpu"

// question is a fleet and pods, like a user's question about them.
type question struct {
	kinds   []Kind
	items   []Item
	options Options
}

// drawQuestion draws one to three kinds of nodes and one to five kinds of pods.
func drawQuestion(t *rapid.T) question {
	q := question{options: Options{Placements: true, Scoring: drawScoring(t)}}
	for i := range rapid.IntRange(1, 3).Draw(t, "kinds") {
		q.kinds = append(q.kinds, drawKind(t, fmt.Sprint("k", i)))
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "items") {
		q.items = append(q.items, drawItem(t, fmt.Sprint("p", i), len(q.kinds)))
	}
	return q
}

func drawScoring(t *rapid.T) fleet.Scoring {
	return rapid.SampledFrom(fleet.Scorings()).Draw(t, "scoring")
}

// drawKind draws hardware with devices, a policy, and some pods. Some of the pods are gone again.
func drawKind(t *rapid.T, name string) Kind {
	var d machine.Description
	threads := rapid.IntRange(1, 2).Draw(t, "threads")
	next := 0
	for id := range rapid.IntRange(1, 4).Draw(t, "NUMA nodes") {
		n := machine.NodeDescription{ID: id, Memory: rapid.Int64Range(4, 32).Draw(t, "memory") * gib}
		for range rapid.IntRange(1, 6).Draw(t, "cores") {
			core := machine.CoreDescription{Socket: id / 2, Uncore: id}
			for range threads {
				core.Threads = append(core.Threads, next)
				next++
			}
			n.Cores = append(n.Cores, core)
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, drawPolicy(t, m))
	if err != nil {
		t.Fatal(err)
	}
	var devices []device.Device
	for i := range rapid.IntRange(0, 4).Draw(t, "devices") {
		devices = append(devices, device.Device{ID: fmt.Sprint("d", i), Healthy: true, Nodes: mask.Of(i % len(d.Nodes))})
	}
	inventory, err := device.NewInventory(m, map[string][]device.Device{gpu: devices})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithDevices(inventory); err != nil {
		t.Fatal(err)
	}
	k := Kind{Name: name, Count: rapid.IntRange(1, 3).Draw(t, "count"), State: s, Allocatable: fleet.Amounts{
		Milli: int64(m.AllCPUs().Len()-1) * 1000, Memory: rapid.Int64Range(8, 96).Draw(t, "allocatable") * gib, Pods: rapid.Int64Range(2, 12).Draw(t, "pods"),
		Others: request.Amounts{{Resource: gpu, Value: int64(len(devices))}},
	}}
	for i := range rapid.IntRange(0, 3).Draw(t, "running") {
		pod := drawItem(t, fmt.Sprint("r", i), 0).Pod
		plan := k.State.Plan(pod.Pod)
		if plan.Rejection != nil || short(k.Allocatable, k.Used, pod.Asks) {
			continue
		}
		if k.State, err = k.State.Apply(plan); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "gone") {
			k.State = k.State.Release(pod.UID)
			continue
		}
		k.Used = k.Used.Plus(pod.Asks)
	}
	return k
}

func drawPolicy(t *rapid.T, m *machine.Machine) node.Policy {
	p := node.Policy{
		Topology:  rapid.SampledFrom([]node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}).Draw(t, "policy"),
		Scope:     rapid.SampledFrom([]node.Scope{node.ContainerScope, node.PodScope}).Draw(t, "scope"),
		StaticCPU: true, ReservedCPUs: cpuset.Of(0), PodLevelResources: true, PodLevelManagers: true,
		CPU: cpu.Options{FullPCPUsOnly: rapid.Bool().Draw(t, "full"), DistributeAcrossNUMA: rapid.Bool().Draw(t, "distribute"), PreferUncore: rapid.Bool().Draw(t, "uncore")},
	}
	if rapid.Bool().Draw(t, "static memory") {
		p.StaticMemory, p.ReservedMemory = true, map[int]map[string]int64{0: {request.Memory: gib}}
	}
	if len(p.Conflicts(m)) > 0 {
		p.CPU = cpu.Options{}
	}
	return p
}

// drawItem draws pods with one to three containers or with a pool, some with devices, and some that
// only one of the kinds may run.
func drawItem(t *rapid.T, name string, kinds int) Item {
	pod := request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed}}
	asks := fleet.Amounts{Pods: 1}
	containers := rapid.IntRange(1, 3).Draw(t, "containers")
	for i := range containers {
		cpus, bytes := rapid.IntRange(0, 6).Draw(t, "CPUs"), rapid.Int64Range(1, 10).Draw(t, "GiB")*gib
		c := request.Container{Name: fmt.Sprint("c", i), Type: request.App, CPUs: cpus, Equivalent: true, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Memory: request.Amounts{{Resource: request.Memory, Value: bytes}}}
		if cpus == 0 {
			c.Sharing, c.CPURequest, c.CPULimit = request.FractionalCPU, 500, 500
		}
		if i < containers-1 {
			c.Type = rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar, request.App}).Draw(t, "type")
		}
		if n := rapid.Int64Range(-4, 2).Draw(t, "devices"); n > 0 {
			c.Devices = request.Amounts{{Resource: gpu, Value: n}}
			asks.Others = asks.Others.With(gpu, n)
		}
		asks.Milli, asks.Memory = asks.Milli+c.CPURequest, asks.Memory+bytes
		pod.Containers = append(pod.Containers, c)
	}
	if budget := rapid.IntRange(-6, 8).Draw(t, "budget"); budget > 0 {
		pod.Kind, pod.BudgetCPUs, pod.BudgetCPUMilli, pod.CPULimit = request.PodLevel, budget, int64(budget)*1000, int64(budget)*1000
		pod.BudgetMemory = request.Amounts{{Resource: request.Memory, Value: asks.Memory}}
		asks.Milli = pod.BudgetCPUMilli
	}
	out := Item{Name: name, Pod: fleet.Pod{Pod: pod, Asks: asks}, Count: rapid.Int64Range(1, 8).Draw(t, "count")}
	if only := rapid.IntRange(0, 3*kinds).Draw(t, "only"); only < kinds {
		kind := fmt.Sprint("k", only)
		out.Pod.Constraint, out.Pod.Allowed = kind, func(n *fleet.Node) bool { return n.Kind == kind }
	}
	return out
}

// short is written separately from the fleet's implementation.
func short(allocatable, used, asks fleet.Amounts) bool {
	gpus, _ := used.Plus(asks).Others.Get(gpu)
	has, _ := allocatable.Others.Get(gpu)
	wants, _ := asks.Others.Get(gpu)
	return used.Pods+asks.Pods > allocatable.Pods || asks.Milli > 0 && used.Milli+asks.Milli > allocatable.Milli ||
		asks.Memory > 0 && used.Memory+asks.Memory > allocatable.Memory || wants > 0 && gpus > has
}

// alone has nodes that are planned individually, without a fleet.
type alone struct {
	uids  int
	names []string
	nodes map[string]*fleet.Node
}

func aloneOf(kinds []Kind) *alone {
	out := &alone{nodes: map[string]*fleet.Node{}}
	for _, k := range kinds {
		for i := range k.Count {
			n := &fleet.Node{Name: nodeName(k, i), Kind: k.Name, State: k.State, Allocatable: k.Allocatable, Used: k.Used}
			out.names, out.nodes[n.Name] = append(out.names, n.Name), n
		}
	}
	return out
}

// replay plans every pod again, in the same order, on only its node. The grants must be the same.
// Every node must reject a pod that is not placed, at that moment.
func (a *alone) replay(t *rapid.T, items []Item, placements []Placement) {
	for _, p := range placements {
		pod := podOf(items, p.Pod)
		a.uids++ // A new UID, because a node keeps the grant of a pod that it knows.
		pod.UID = fmt.Sprint("alone-", a.uids)
		for _, name := range a.names {
			n := a.nodes[name]
			plan := n.State.Plan(pod.Pod)
			takes := plan.Rejection == nil && !short(n.Allocatable, n.Used, pod.Asks) && (pod.Allowed == nil || pod.Allowed(n))
			switch {
			case name == p.Node && !takes:
				t.Fatalf("pod %s is on %s, which alone rejects it: %v", p.Pod, name, plan.Rejection)
			case name == p.Node:
				samePlan(t, plan.Grant, p)
				var err error
				if n.State, err = n.State.Apply(plan); err != nil {
					t.Fatal(err)
				}
				n.Used = n.Used.Plus(pod.Asks)
			case p.Node == "" && takes:
				t.Fatalf("pod %s has no node (%s), and %s alone takes it", p.Pod, p.Reason, name)
			}
		}
	}
}

// samePlan compares the assignments of two plans of a pod.
func samePlan(t *rapid.T, want *node.Grant, p Placement) {
	x, y := *want, *p.Grant
	x.Pod, y.Pod = request.Pod{}, request.Pod{} // Names are not part of an answer.
	if !reflect.DeepEqual(x, y) {
		t.Fatalf("pod %s on %s has\n%+v\nand the node alone gives it\n%+v", p.Pod, p.Node, y, x)
	}
}

// podOf returns the pod of a placement.
func podOf(items []Item, id string) fleet.Pod {
	i := slices.IndexFunc(items, func(i Item) bool {
		return id == i.Pod.ID() || len(id) > len(i.Pod.ID()) && id[:len(i.Pod.ID())+1] == i.Pod.ID()+"-"
	})
	return items[i].Pod
}

// TestFitIsPlanningNodeByNode checks that every placement of a whole run equals that of planning on
// the single node in the same order.
func TestFitIsPlanningNodeByNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		r, err := Fit(t.Context(), q.kinds, q.items, q.options)
		if err != nil {
			t.Fatal(err)
		}
		if want := r.Placed + r.Rejected; r.Asked != want || int64(len(r.Placements)) != want {
			t.Fatalf("%d pods asked, %d placed, %d rejected, %d placements", r.Asked, r.Placed, r.Rejected, len(r.Placements))
		}
		aloneOf(q.kinds).replay(t, q.items, r.Placements)
	})
}

// TestFillIsPlanningNodeByNode checks the same for pods that are drawn until none fits. At the end,
// no shape may fit on any node.
func TestFillIsPlanningNodeByNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		r, err := Fill(t.Context(), q.kinds, q.items, 0, rapid.Uint64().Draw(t, "seed"), q.options)
		if err != nil {
			t.Fatal(err)
		}
		nodes := aloneOf(q.kinds)
		nodes.replay(t, q.items, r.Placements)
		for _, i := range q.items {
			nodes.replay(t, q.items, []Placement{{Pod: i.Pod.ID(), Reason: "the fleet is full"}})
		}
	})
}

// TestSizeIsPlanningNodeByNode checks the same for the number of nodes that takes all pods. With
// one node fewer, every node on its own rejects some pod.
func TestSizeIsPlanningNodeByNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		k := q.kinds[0]
		ways := []Way{{fleet.LeastStranded, Given}, {q.options.Scoring, LargestFirst}, {fleet.BestFit, MostMemoryFirst}}
		r, way, err := Fewest(t.Context(), k, q.items, 60, ways, q.options)
		if r == nil {
			t.Fatal(err)
		}
		k.Count = r.Nodes
		if r.Nodes == 0 { // No node takes some pod, however empty the node is.
			k.Count = 1
		}
		if (err == nil) != (r.Rejected == 0) {
			t.Fatalf("%d pods rejected: %v", r.Rejected, err)
		}
		aloneOf([]Kind{k}).replay(t, q.items, r.Placements)
		q.options.Scoring, q.options.Order = way.Scoring, way.Order
		again, wrong := Fit(t.Context(), []Kind{k}, q.items, q.options)
		if wrong != nil || (again.Rejected == 0) != (err == nil) {
			t.Fatalf("Fit on as many nodes: %+v, %v; Fewest: %v", again, wrong, err)
		}
		if k.Count--; err != nil || k.Count == 0 {
			return
		}
		less, err := Fit(t.Context(), []Kind{k}, q.items, q.options)
		if err != nil || less.Rejected == 0 {
			t.Fatalf("%d nodes do as well: %v", k.Count, err)
		}
		aloneOf([]Kind{k}).replay(t, q.items, less.Placements)
	})
}
