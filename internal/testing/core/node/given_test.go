package node_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestGivenDevicesDecideAsTheTopologyManagerDoes plans random pods with given devices, under each
// policy and scope, and compares each alignment with a literal Topology Manager. That one combines
// the hints that the device manager regenerates for allocated devices, as a list of masks, in every
// way with the hints of the other resources. To run more cases: make prop N=100000
// PKG=./internal/testing/core/node.
func TestGivenDevicesDecideAsTheTopologyManagerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGiven(t)
		plan := g.state.Plan(g.pod)
		if err := g.state.Check(); err != nil {
			t.Fatal(err)
		}
		for i := range plan.Trace.Alignments {
			g.compare(t, plan, &plan.Trace.Alignments[i])
		}
		next, err := g.state.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		g.keeps(t, next)
	})
}

// devicesCase is a node with other pods, all devices of each resource and driver, and a pod that
// has some of them.
type devicesCase struct {
	state *node.State
	all   map[string][]request.Given
	pod   request.Pod
}

func drawGiven(t *rapid.T) *devicesCase {
	numa := rapid.IntRange(1, 3).Draw(t, "NUMA nodes")
	d := machine.Description{}
	cpu := 0
	for id := range numa {
		n := machine.NodeDescription{ID: 2 * id, Memory: rapid.Int64Range(2, 6).Draw(t, "memory") << 30}
		for range rapid.IntRange(1, 5).Draw(t, "cores") {
			n.Cores = append(n.Cores, machine.CoreDescription{Socket: id, Uncore: machine.NoUncore, Threads: []int{cpu}})
			cpu++
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{
		Topology: rapid.SampledFrom([]node.TopologyPolicy{node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode}).Draw(t, "policy"),
		Scope:    rapid.SampledFrom([]node.Scope{node.ContainerScope, node.PodScope}).Draw(t, "scope"), StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		StaticMemory: true, PodLevelResources: true, PodLevelManagers: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "other pods") {
		if s, err = s.Apply(s.Plan(drawPlainPod(t, fmt.Sprint("other", i), 1))); err != nil {
			t.Fatal(err)
		}
	}
	c := &devicesCase{state: s, all: map[string][]request.Given{}, pod: drawPlainPod(t, "pod", rapid.IntRange(1, 3).Draw(t, "containers"))}
	if rapid.Bool().Draw(t, "pod-level") {
		c.pod.Kind = request.PodLevel
		c.pod.BudgetCPUs = rapid.IntRange(1, 5).Draw(t, "budget")
		c.pod.BudgetCPUMilli = 1000 * int64(c.pod.BudgetCPUs)
		c.pod.BudgetMemory = request.Amounts{{Resource: request.Memory, Value: rapid.Int64Range(1, 6).Draw(t, "budget memory") << 30}}
	}
	c.drawDevices(t, m.NodeMask())
	return c
}

func drawPlainPod(t *rapid.T, name string, containers int) request.Pod {
	p := request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed}}
	for i := range containers {
		p.Containers = append(p.Containers, request.Container{
			Name: fmt.Sprint("c", i), Type: request.App, CPUs: rapid.IntRange(1, 4).Draw(t, "CPUs"), Equivalent: true,
			Memory: request.Amounts{{Resource: request.Memory, Value: rapid.Int64Range(1, 5).Draw(t, "GiB") << 30}},
		})
	}
	for i := range rapid.IntRange(0, containers-1).Draw(t, "init containers") {
		p.Containers[i].Type = rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar}).Draw(t, "type")
	}
	return p
}

// drawDevices draws the devices of two resources and a driver, and gives some to containers. Claims
// share devices, and two containers may have the same device.
func (c *devicesCase) drawDevices(t *rapid.T, nodes mask.Mask) {
	for _, of := range []string{"example.com/gpu", "example.com/nic", "driver.example.com"} {
		if rapid.IntRange(0, 3).Draw(t, "without "+of) == 0 {
			continue
		}
		for i := range rapid.IntRange(1, 5).Draw(t, of) {
			g := request.Given{Resource: of, Name: fmt.Sprint("d", i), Nodes: mask.Mask(rapid.Uint64().Draw(t, "nodes")) & nodes}
			if of == "driver.example.com" {
				g.Resource, g.Driver, g.Pool = "", of, "pool"
			}
			c.all[of] = append(c.all[of], g)
		}
		var near []mask.Mask
		for _, g := range c.all[of] {
			near = append(near, g.Nodes)
		}
		if rapid.IntRange(0, 4).Draw(t, "stock") > 0 {
			c.pod.Stock = append(c.pod.Stock, request.StockOf(of, near))
		} else {
			c.all[of] = nil // Only the pod's own devices are known.
		}
		for i := range c.pod.Containers {
			for k, n := range near {
				if rapid.IntRange(0, 2).Draw(t, "given") > 0 {
					continue
				}
				g := request.Given{Resource: of, Name: fmt.Sprint("d", k), Nodes: n}
				if of == "driver.example.com" {
					g.Resource, g.Driver, g.Pool, g.Claim = "", of, "pool", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "claim")
				}
				c.pod.Containers[i].Given = append(c.pod.Containers[i].Given, g)
			}
		}
	}
	slices.SortFunc(c.pod.Stock, func(a, b request.Stock) int { return cmpText(a.Of, b.Of) })
	for i := range c.pod.Containers {
		slices.SortFunc(c.pod.Containers[i].Given, func(a, b request.Given) int { return a.Compare(&b) })
	}
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// given returns the devices that an alignment is about, by resource or driver, each once.
func (c *devicesCase) given(container string) map[string]map[string]mask.Mask {
	found := map[string]map[string]mask.Mask{}
	for _, k := range c.pod.Containers {
		for _, g := range k.Given {
			if container == "" || container == k.Name {
				of := g.Resource + g.Driver
				if found[of] == nil {
					found[of] = map[string]mask.Mask{}
				}
				found[of][g.Name] = g.Nodes
			}
		}
	}
	return found
}

// compare checks one alignment, and what its rejection names.
func (c *devicesCase) compare(t *rapid.T, plan *node.Plan, a *node.Alignment) {
	if a.Outcome == node.MemoryApart {
		return // The Topology Manager does not know about it.
	}
	nodes := c.state.Machine().NodeMask()
	var lists [][]listed
	for of, devices := range c.given(a.Container) {
		lists = append(lists, regenerated(devices, c.all[of], nodes))
	}
	for _, f := range a.HintSets[len(a.Given):] {
		lists = append(lists, listOf(f, nodes))
	}
	want := merged(lists, nodes, c.state.Policy().Topology)
	got := a.Choice
	same := got.Mask == want.Mask && got.HasMask == want.HasMask || !want.Admit // a rejection needs no mask
	if !same || got.Preferred != want.Preferred || got.Admit != want.Admit {
		t.Fatalf("pod %s of %v: got %+v, want %+v", c.pod, c.pod.Stock, got, want)
	}
	m := c.state.Misfit(plan, a)
	if m != nil && (got.Preferred || len(m.Devices) == 0 || m.Nodes.IsEmpty() || m.String() == "") {
		t.Fatalf("pod %s: misfit %+v of %+v", c.pod, m, got)
	}
	r := plan.Rejection
	given := plan.Trace.Cause == rejection.GivenApart || plan.Trace.Cause == rejection.GivenElsewhere
	if !got.Admit && (given != (m != nil) || given && r.Detail != m.String() || given && r.Misfit == nil) {
		t.Fatalf("pod %s: misfit %+v, rejection %+v for cause %v", c.pod, m, r, plan.Trace.Cause)
	}
}

// keeps checks that the grant has the devices, even after it was restored and adopted.
func (c *devicesCase) keeps(t *rapid.T, s *node.State) {
	restored, err := node.Restore(s.Machine(), s.Policy(), s.Grants())
	if err != nil {
		t.Fatal(err)
	}
	adopted, findings, err := node.Adopt(s.Machine(), s.Policy(), nil, s.Grants())
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	for _, s := range []*node.State{s, restored, adopted} {
		g, admitted := s.Grant(c.pod.UID)
		if !admitted {
			continue
		}
		for i, k := range g.Pod.Containers {
			if s.Farthest(g) > node.Near && s.Policy().Topology == node.TopologySingleNUMANode {
				t.Fatalf("pod %s is remote: %v", c.pod, s.DevicesOf(g))
			}
			if !slices.Equal(k.Given, c.pod.Containers[i].Given) {
				t.Fatalf("container %s was given %v and has %v", k.Name, c.pod.Containers[i].Given, k.Given)
			}
		}
	}
}

// listed is one hint of a list. A hint without a mask has no preference for NUMA nodes.
type listed struct {
	nodes     mask.Mask
	hasMask   bool
	preferred bool
}

// regenerated returns the answer of the device manager for allocated devices (R-HINT-41, R-HINT-43,
// R-DEV-4). It tries every mask and every device.
func regenerated(devices map[string]mask.Mask, all []request.Given, nodes mask.Mask) []listed {
	var known []mask.Mask
	for _, n := range devices {
		if n != 0 {
			known = append(known, n)
		}
	}
	if len(known) == 0 {
		return []listed{{preferred: true}}
	}
	stock := known
	if all != nil {
		stock = nil
		for _, g := range all {
			stock = append(stock, g.Nodes)
		}
	}
	var hosting mask.Mask
	for _, n := range slices.Concat(known, stock) {
		hosting |= n
	}
	near := func(m mask.Mask, devices []mask.Mask) (count int) {
		for _, n := range devices {
			if n&m != 0 {
				count++
			}
		}
		return count
	}
	fewest := hosting.Len()
	var list []listed
	for m := mask.Mask(1); m <= nodes; m++ {
		if m&^hosting != 0 {
			continue
		}
		if near(m, stock) >= len(known) {
			fewest = min(fewest, m.Len())
		}
		if near(m, known) == len(known) {
			list = append(list, listed{nodes: m, hasMask: true})
		}
	}
	for i := range list {
		list[i].preferred = list[i].nodes.Len() == fewest
	}
	return list
}

// listOf returns the hints of another resource as a list.
func listOf(f hint.Set, nodes mask.Mask) []listed {
	var list []listed
	for m := mask.Mask(1); m <= nodes; m++ {
		if m&^nodes == 0 && f.Kind == hint.Fits && f.Has(m) {
			list = append(list, listed{nodes: m, hasMask: true, preferred: f.Prefers(m)})
		}
	}
	if len(list) == 0 {
		return []listed{{preferred: f.Kind == hint.Any}}
	}
	return list
}

// merged applies R-HINT-50 to R-HINT-63 literally, to every combination of one hint of each list.
func merged(lists [][]listed, all mask.Mask, policy node.TopologyPolicy) hint.Choice {
	wanted := 0
	for i, list := range lists {
		narrowest := 0
		for _, h := range list {
			if h.hasMask && (narrowest == 0 || h.nodes.Len() < narrowest) {
				narrowest = h.nodes.Len()
			}
		}
		wanted = max(wanted, narrowest)
		if policy == node.TopologySingleNUMANode {
			lists[i] = slices.DeleteFunc(list, func(h listed) bool { return !h.preferred || h.hasMask && h.nodes.Len() != 1 })
		}
	}
	var best *listed
	var walk func(i int, merged listed, same mask.Mask)
	walk = func(i int, merged listed, same mask.Mask) {
		if i == len(lists) {
			if !merged.nodes.IsEmpty() && (best == nil || replaces(*best, merged, wanted)) {
				best = &merged
			}
			return
		}
		for _, h := range lists[i] {
			next := listed{nodes: merged.nodes, preferred: merged.preferred && h.preferred}
			first := same
			if h.hasMask {
				next.nodes &= h.nodes
				next.preferred = next.preferred && (same == 0 || same == h.nodes)
				first = h.nodes
			}
			walk(i+1, next, first)
		}
	}
	walk(0, listed{nodes: all, preferred: true}, 0)
	c := hint.Choice{Mask: all}
	if best != nil {
		c.Mask, c.Preferred = best.nodes, best.preferred
	}
	c.HasMask = policy != node.TopologySingleNUMANode || c.Mask != all
	c.Admit = c.Preferred || policy == node.TopologyBestEffort
	return c
}

// replaces applies R-HINT-52 and R-HINT-53.
func replaces(current, candidate listed, wanted int) bool {
	narrower := candidate.nodes.NarrowerThan(current.nodes)
	if current.preferred || candidate.preferred {
		return candidate.preferred && (!current.preferred || narrower)
	}
	switch c, k := current.nodes.Len(), candidate.nodes.Len(); {
	case c > wanted:
		return narrower
	case c == wanted:
		return k == wanted && narrower
	case k > wanted || k < c:
		return false
	case k == c:
		return narrower
	}
	return true
}
