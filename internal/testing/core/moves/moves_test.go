package moves_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const mib = int64(1) << 20

// drawNode draws an empty node with up to 32 CPUs, sometimes with the options isolated-cpus or
// cache-allocation.
func drawNode(t *rapid.T) *node.State {
	numa := rapid.IntRange(1, 4).Draw(t, "numa")
	divides, spans := rapid.IntRange(0, 2).Draw(t, "cache-allocation") == 0, rapid.IntRange(1, 4).Draw(t, "cores of an L3 cache")
	cores, threads := rapid.IntRange(2, 4).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads")
	var d machine.Description
	for n := range numa {
		described := machine.NodeDescription{ID: n, Memory: int64(rapid.IntRange(4, 16).Draw(t, "memory")) * 256 * mib}
		for c := range cores {
			core := machine.CoreDescription{Socket: n / 2, Uncore: machine.NoUncore}
			if divides { // Some caches are those of several NUMA nodes.
				core.Uncore = (n*cores + c) / spans
			}
			for i := range threads {
				core.Threads = append(core.Threads, (n*cores+c)*threads+i)
			}
			described.Cores = append(described.Cores, core)
		}
		d.Nodes = append(d.Nodes, described)
	}
	isolated := rapid.SampledFrom([]cpu.Isolated{cpu.IsolatedAlike, cpu.IsolatedAlike, cpu.IsolatedOnly, cpu.IsolatedFirst}).Draw(t, "isolated-cpus")
	if isolated != cpu.IsolatedAlike {
		d.Isolation.Isolated = drawIsolated(t, d)
	}
	if divides {
		d.Caches = machine.Caches{Classes: rapid.IntRange(2, 8).Draw(t, "classes"), Ways: rapid.IntRange(4, 8).Draw(t, "ways"), LeastWays: 1}
		if rapid.Bool().Draw(t, "bandwidth") {
			d.Caches.LeastBandwidth, d.Caches.BandwidthStep = 10, 10
		}
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	p := node.Policy{
		Topology:  rapid.SampledFrom([]node.TopologyPolicy{node.TopologySingleNUMANode, node.TopologyRestricted, node.TopologySingleNUMANode, node.TopologyBestEffort, node.TopologyNone}).Draw(t, "topology"),
		Scope:     rapid.SampledFrom([]node.Scope{node.PodScope, node.PodScope, node.ContainerScope}).Draw(t, "scope"),
		StaticCPU: true, ReservedCPUs: cpuset.Of(0), PodLevelResources: true, PodLevelManagers: true,
		CPU: cpu.Options{FullPCPUsOnly: rapid.IntRange(0, 4).Draw(t, "whole cores") == 0, Isolated: isolated, DividesCaches: divides},
	}
	if rapid.IntRange(0, 2).Draw(t, "memory policy") > 0 {
		p.StaticMemory, p.ReservedMemory = true, map[int]map[string]int64{0: {machine.Memory: 64 * mib}}
	}
	s, err := node.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawIsolated draws isolated CPUs: the last cores of some NUMA nodes, or any CPUs but the reserved
// one.
func drawIsolated(t *rapid.T, d machine.Description) cpuset.Set {
	var b cpuset.Builder
	whole := rapid.Bool().Draw(t, "whole cores isolated")
	for _, n := range d.Nodes {
		first := rapid.IntRange(1, len(n.Cores)).Draw(t, "first isolated core")
		for c, core := range n.Cores {
			for _, id := range core.Threads {
				if whole && c >= first || !whole && id > 0 && rapid.Bool().Draw(t, "isolated") {
					b.Add(id)
				}
			}
		}
	}
	return b.Set()
}

func drawPod(t *rapid.T, uid string, most int) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed}}
	pod.Moves = max(0, request.MoveMemory-request.Consent(max(0, rapid.IntRange(0, 9).Draw(t, "consent")-7)))
	container := func(name string, kind request.ContainerType) request.Container {
		n := rapid.IntRange(1, most).Draw(t, name)
		memory := int64(rapid.IntRange(1, 8).Draw(t, "memory")) * 64 * mib
		c := request.Container{Name: name, Type: kind, CPUs: n, CPURequest: int64(n) * 1000, CPULimit: int64(n) * 1000, Equivalent: true, Memory: request.Amounts{{Resource: machine.Memory, Value: memory}}}
		if kind != request.Init {
			c.Cache = drawCache(t)
		}
		return c
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		pod.Containers = []request.Container{container("init", request.Init), container("app", request.App)}
	case 1:
		pod.Containers = []request.Container{container("app", request.App), container("second", request.App)}
	case 2:
		app := container("app", request.App)
		pod.Kind, pod.BudgetCPUs, pod.BudgetMemory = request.PodLevel, app.CPUs+1, request.Amounts{{Resource: machine.Memory, Value: app.Memory[0].Value + 64*mib}}
		pod.BudgetCPUMilli, pod.CPULimit = int64(pod.BudgetCPUs)*1000, int64(pod.BudgetCPUs)*1000
		pod.Containers = []request.Container{app, {Name: "log", Type: request.App}}
		pod.PoolCache = drawCache(t)
	default:
		pod.Containers = []request.Container{container("app", request.App)}
	}
	return pod
}

// drawCache draws what a container asks of its caches. Without the option it means nothing.
func drawCache(t *rapid.T) request.Cache {
	none := request.Cache{}
	return rapid.SampledFrom([]request.Cache{none, none, none, {Ways: 1}, {Ways: 2}, {Ways: 3}, {Bandwidth: 40}}).Draw(t, "cache")
}

// fragment fills a node with pods and removes some of them.
func fragment(t *rapid.T, s *node.State) *node.State {
	for i := range rapid.IntRange(4, 20).Draw(t, "pods") {
		next, err := s.Apply(s.Plan(drawPod(t, fmt.Sprintf("p%02d", i), rapid.SampledFrom([]int{2, 1, 3, 4}).Draw(t, "most"))))
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	for _, g := range slices.Clone(s.Grants()) {
		switch rapid.IntRange(0, 9).Draw(t, "then") {
		case 0, 1:
			s = s.Release(g.Pod.UID)
		case 2:
			s = s.RemoveContainer(g.Pod.UID, "app")
		case 3:
			s = s.ContainerCreated(g.Pod.UID, "app")
		case 4:
			pod := g.Pod
			pod.Containers = slices.Clone(pod.Containers)
			last := &pod.Containers[len(pod.Containers)-1]
			if pod.Kind == request.PodLevel {
				last = &pod.Containers[0]
				pod.BudgetCPUs, pod.BudgetCPUMilli, pod.CPULimit = pod.BudgetCPUs+1, pod.BudgetCPUMilli+1000, pod.CPULimit+1000
			}
			last.CPUs, last.CPURequest, last.CPULimit = last.CPUs+1, last.CPURequest+1000, last.CPULimit+1000
			if p := s.Resize(pod.UID, pod); p.Rejection == nil {
				s, _ = s.Apply(p)
			}
		}
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

// exhaustive tries every set of at most two pods, in every order of planning and of moving, and
// returns the fewest bytes with which the pod fits, or -1.
func exhaustive(s *node.State, pod request.Pod, limit int64) int64 {
	now := s.Plan(pod)
	if preferred(now) {
		return -1
	}
	fits := func(p *node.Plan) bool { return p.Rejection == nil && (now.Rejection != nil || preferred(p)) }
	best := int64(-1)
	grants := s.Grants()
	for i := range grants {
		for k := range grants {
			members := []*node.Grant{grants[i], grants[k]}
			if i == k {
				members = members[:1]
			}
			if slices.ContainsFunc(members, func(g *node.Grant) bool { return g.Pod.Moves == request.NoMoves || len(g.Devices()) > 0 }) {
				continue
			}
			for first := range len(members) + 1 { // the pod comes before, between or after them
				if cost := planned(s, pod, members, first, fits); cost >= 0 && cost <= limit && (best < 0 || cost < best) {
					best = cost
				}
			}
		}
	}
	return best
}

func largest(d node.Demand) int {
	n := d.Together.CPUs
	for i := range d.Containers {
		n = max(n, d.Containers[i].CPUs)
	}
	return n
}

func preferred(p *node.Plan) bool {
	return p.Rejection == nil && !slices.ContainsFunc(p.Trace.Alignments, func(a node.Alignment) bool { return !a.Choice.Preferred })
}

// planned returns the cost of one set in one order, or -1.
func planned(s *node.State, pod request.Pod, members []*node.Grant, first int, fits func(*node.Plan) bool) int64 {
	at := s
	for _, g := range members {
		at = at.Release(g.Pod.UID)
	}
	var to []*node.Grant
	cost := int64(0)
	for i := range len(members) + 1 {
		p := at.Plan(pod)
		if i != first {
			g := members[min(i, len(members)-1)]
			if i > first {
				g = members[i-1]
			}
			if p = at.Replan(g); p.Rejection != nil || worse(g, p.Grant) {
				return -1
			}
			bytes, across := difference(s, g, p.Grant)
			if across && g.Pod.Moves < request.MoveMemory {
				return -1
			}
			cost += bytes
			if !samePlace(g, p.Grant) { // Other ways on the same CPUs are no move (R-CACHE-31).
				to = append(to, p.Grant)
			}
		} else if !fits(p) {
			return -1
		}
		var err error
		if at, err = at.Apply(p); err != nil {
			return -1
		}
	}
	for range to {
		at, ok := s, true
		for _, g := range to {
			next, err := at.Move(g)
			if ok = ok && err == nil; ok {
				at = next
			}
		}
		if ok && fits(at.Plan(pod)) {
			return cost
		}
		slices.Reverse(to)
	}
	return -1
}

func samePlace(a, b *node.Grant) bool {
	return a.Pool.Equal(b.Pool) && slices.EqualFunc(a.Containers, b.Containers, func(c, d node.ContainerGrant) bool {
		return c.CPUs.Equal(d.CPUs) && c.MemoryNodes == d.MemoryNodes
	})
}

func worse(from, to *node.Grant) bool {
	for i := range from.Containers {
		if from.Containers[i].Affinity.Preferred && !to.Containers[i].Affinity.Preferred && !to.Containers[i].Removed {
			return true
		}
	}
	return false
}

func difference(s *node.State, from, to *node.Grant) (bytes int64, across bool) {
	across = s.Machine().NodesOf(from.CPUs()) != s.Machine().NodesOf(to.CPUs())
	for i := range from.Containers {
		a, b := from.Containers[i], to.Containers[i]
		if a.MemoryNodes != b.MemoryNodes {
			across = true
			for _, block := range b.Memory {
				if len(to.PoolMemory) == 0 {
					bytes += block.Size
				}
			}
		}
	}
	if len(from.PoolMemory) > 0 && len(to.PoolMemory) > 0 && from.PoolMemory[0].Nodes != to.PoolMemory[0].Nodes {
		for _, block := range to.PoolMemory {
			bytes += block.Size
		}
	}
	return bytes, across
}

// TestFindAgainstExhaustiveSearch checks that Find finds every result that moves of at most two
// pods can give, at the least cost.
func TestFindAgainstExhaustiveSearch(t *testing.T) {
	cured, none, pairs := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := fragment(t, drawNode(t))
		pod := drawPod(t, "new", 8)
		for range 6 { // Most pods fit, or never can.
			if s.Plan(pod).Rejection != nil && largest(s.Demand(&pod)) <= s.AvailableCPUs().Len() {
				break
			}
			pod = drawPod(t, "new", 8)
		}
		limit := rapid.SampledFrom([]int64{0, 256 * mib, 1 << 40}).Draw(t, "limit")
		found := moves.Find(s, pod, moves.Terms{Bytes: limit})
		want := exhaustive(s, pod, limit)
		switch {
		case found.Cut:
			t.Fatalf("%d plans are not enough", found.Plans)
		case found.Set == nil && want >= 0:
			t.Fatalf("moves of %d bytes cure it, and none are found:\n%s\n%v", want, describe(s), pod)
		case found.Set != nil && found.Set.Bytes != want:
			t.Fatalf("found moves of %d bytes, the least is %d:\n%s\n%v", found.Set.Bytes, want, describe(s), pod)
		case found.Set == nil:
			none++
			return
		}
		cured++
		pairs += len(found.Set.Moves) - 1
		checkSet(t, s, pod, found.Set)
		held := moves.Find(s, pod, moves.Terms{Bytes: limit, BothPlaces: true})
		if held.Set != nil {
			if held.Set.Bytes < want {
				t.Fatalf("holding both places costs %d bytes, and not holding them %d", held.Set.Bytes, want)
			}
			checkBothPlaces(t, s, pod, held.Set)
		}
	})
	t.Logf("%d cured, %d of them by two moves, %d not", cured, pairs, none)
}

// checkSet carries a set out.
func checkSet(t *rapid.T, s *node.State, pod request.Pod, set *moves.Set) {
	for _, m := range set.Moves {
		if g, _ := s.Grant(m.From.Pod.UID); g != m.From {
			t.Fatalf("%s does not move from where it is", m.From.Pod.Name)
		}
		for _, other := range s.Grants() {
			if other != m.From && other.CPUs().Intersects(m.To.CPUs()) {
				t.Fatalf("%s moves to CPUs %s, and %s has %s", m.From.Pod.Name, m.To.CPUs(), other.Pod.Name, other.CPUs())
			}
		}
		for i := range m.From.Containers {
			if a, b := m.From.BaselineOf(i).Len(), m.To.BaselineOf(i).Len(); a != b {
				t.Fatalf("%s had a baseline of %d CPUs and has %d", m.From.Pod.Name, a, b)
			}
		}
		if a, b := m.From.BaselineOfPool().Len(), m.To.BaselineOfPool().Len(); a != b {
			t.Fatalf("the pool of %s had a baseline of %d CPUs and has %d", m.From.Pod.Name, a, b)
		}
		var err error
		if s, err = s.Move(m.To); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if p := s.Plan(pod); p.Rejection != nil {
		t.Fatalf("after the moves: %v", p.Rejection)
	}
}

// checkBothPlaces carries a set out while both places are assigned, as a node does.
func checkBothPlaces(t *rapid.T, s *node.State, pod request.Pod, set *moves.Set) {
	nothing, err := device.NewInventory(s.Machine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range set.Moves {
		uid := m.From.Pod.UID
		held, err := s.BeginMove(m.To)
		if err != nil {
			t.Fatal(err)
		}
		both, _ := held.Grant(uid)
		if !both.CPUs().Equal(m.From.CPUs().Union(m.To.CPUs())) {
			t.Fatalf("%s has CPUs %s during a move from %s to %s", m.From.Pod.Name, both.CPUs(), m.From.CPUs(), m.To.CPUs())
		}
		for _, step := range []node.MoveStep{node.MoveWidened, node.MoveSwitched, node.MoveNarrowed, node.MoveReturned} {
			g, _ := held.During(uid, step).Grant(uid)
			place := m.From
			if step == node.MoveSwitched || step == node.MoveNarrowed {
				place = m.To
			}
			for i := range g.Containers {
				if !g.Containers[i].CPUs.Equal(place.Containers[i].CPUs) || !g.CPUs().Equal(both.CPUs()) {
					t.Fatalf("%s has CPUs %s in step %s, want %s", m.From.Pod.Name, g.Containers[i].CPUs, step, place.Containers[i].CPUs)
				}
			}
		}
		restarted, findings, err := node.Adopt(held.Machine(), held.Policy(), nothing, held.Grants())
		if err != nil || len(findings) > 0 {
			t.Fatal(err, findings)
		}
		if back := restarted.EndMove(uid, false); !back.SharedCPUs().Equal(s.SharedCPUs()) || !back.Memory().Equal(s.Memory()) || !back.Caches().Equal(s.Caches()) {
			t.Fatalf("a cancelled move of %s leaves %s and not %s", m.From.Pod.Name, back.SharedCPUs(), s.SharedCPUs())
		}
		offline := rapid.SampledFrom(s.Machine().AllCPUs().Difference(s.Policy().ReservedCPUs).IDs()).Draw(t, "offline")
		if less, err := s.Machine().Without(cpuset.Of(offline)); err == nil { // Not the last CPU of a NUMA node.
			lost, err := held.OnMachine(less)
			if err != nil {
				t.Fatal(err)
			}
			for _, next := range []*node.State{lost, lost.EndMove(uid, true), lost.EndMove(uid, false), lost.During(uid, node.MoveSwitched)} {
				if err := next.Check(); err != nil {
					t.Fatal(err)
				}
				if back, err := next.OnMachine(s.Machine()); err != nil || !back.AvailableCPUs().Equal(held.AvailableCPUs()) && next == lost {
					t.Fatalf("CPU %d went offline and came back: %v", offline, err)
				}
			}
		}
		for _, next := range []*node.State{held, held.RemoveContainer(uid, "app"), held.ContainerCreated(uid, "app"), held.EndMove(uid, true), held.Release(uid)} {
			if err := next.Check(); err != nil {
				t.Fatal(err)
			}
		}
		s = held.EndMove(uid, true)
	}
	if p := s.Plan(pod); p.Rejection != nil {
		t.Fatalf("after the moves: %v", p.Rejection)
	}
}

func describe(s *node.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "free CPUs %s of %s, policy %+v\n", s.AvailableCPUs(), s.Machine().AllCPUs(), s.Policy())
	if s.Caches().Divides() {
		fmt.Fprintf(&b, "L3 caches %v %+v\n", s.Machine().Uncores(), s.Machine().Caches())
	}
	for _, g := range s.Grants() {
		fmt.Fprintf(&b, "%s: CPUs %s, consent %s", g.Pod.Name, g.CPUs(), g.Pod.Moves)
		for i, c := range g.Containers {
			fmt.Fprintf(&b, ", %s %s %v %v", g.Pod.Containers[i].Name, c.CPUs, c.Memory, c.Affinity)
		}
		if classes := g.Classes(); len(classes) > 0 {
			fmt.Fprintf(&b, ", classes %s", classes)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestUnclearCaches checks that no moves are looked for if a pod asks for a part of the caches that
// it can never have.
func TestUnclearCaches(t *testing.T) {
	m := scenario.Machine("numa=2 cores=8 uncore=8 memory=8Gi caches=ways:8,classes:4")
	s, err := node.New(m, node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), CPU: cpu.Options{DividesCaches: true}})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string, ways int) request.Pod {
		p := request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS:        request.Guaranteed,
			Containers: []request.Container{{Name: "app", Type: request.App, CPUs: 1, CPURequest: 1000, CPULimit: 1000, Equivalent: true, Cache: request.Cache{Ways: ways}}},
		}}
		p.Moves = request.MoveMemory
		return p
	}
	for i := range 8 {
		if s, err = s.Apply(s.Plan(pod(fmt.Sprintf("p%d", i), 0))); err != nil {
			t.Fatal(err)
		}
	}
	if found := moves.Find(s, pod("new", 7), moves.Terms{Bytes: 1 << 40}); found.Plans != 1 || found.Set != nil {
		t.Errorf("%d plans were made, want only that of the pod", found.Plans)
	}
}
