package node_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestModelOfResizes is TestModel with mostly resizes, and some moves.
func TestModelOfResizes(t *testing.T) { modelResizes(t, start, startTight) }

// TestModelOfIsolatedResizes is TestModelOfResizes on machines with isolated CPUs.
func TestModelOfIsolatedResizes(t *testing.T) { modelResizes(t, startIsolated, startIsolated) }

func modelResizes(t *testing.T, start, startTight func(*rapid.T) *history) {
	t.Helper()
	setChecksTo(t, modelled)
	resized, moved, rejected := 0, 0, map[rejection.Cause]int{}
	rapid.Check(t, func(t *rapid.T) {
		from := start
		if rapid.IntRange(0, 3).Draw(t, "tight") == 3 {
			from = startTight
		}
		h := from(t)
		m := newModel(h)
		for range h.intn(1, 12, "steps") {
			done, before := len(h.blocks), h.state()
			if grants := before.Grants(); len(grants) > 0 && h.chance(2, "resize") {
				cause := h.resize(grants[h.intn(0, len(grants)-1, "pod")])
				if resized++; cause != rejection.NoCause {
					rejected[cause]++
				}
			} else if len(grants) > 0 && h.chance(5, "move") {
				h.do("move " + grants[h.intn(0, len(grants)-1, "moved")].Pod.Name)
				moved++
			} else {
				h.step()
			}
			m.follow(before, done)
			m.compare()
			m.compareBaselines()
			h.checkRestart()
		}
		h.releaseAll()
	})
	t.Logf("%d resizes, rejected by cause: %v; %d moves", resized, rejected, moved)
}

// resize describes a pod with other amounts and resizes it. It returns the cause of the rejection,
// if any.
func (h *history) resize(g *node.Grant) rejection.Cause {
	name := g.Pod.Name
	if !h.describeResized(name) {
		return rejection.NoCause
	}
	asked, err := h.n.Request(name)
	if err != nil {
		h.fatalf("%v", err)
	}
	before := h.state()
	first, second := before.Resize(name, asked), before.Resize(name, asked)
	if !reflect.DeepEqual(first.Grant, second.Grant) || !reflect.DeepEqual(first.Rejection, second.Rejection) {
		h.fatalf("resizing %s is decided in two ways", name)
	}
	h.checkResizeTwin(g, asked, first)
	h.do("resize " + name)
	if r := first.Rejection; r != nil {
		if h.state() != before {
			h.fatalf("%s changed the state", r)
		}
		h.checkResizeRejection(g, asked, first)
		return first.Trace.Cause
	}
	after, _ := h.state().Grant(name)
	if after.Pool.Len() > 0 && after.Pool.Len() != asked.BudgetCPUs {
		h.fatalf("%s has pool %s, want %d CPUs", name, after.Pool, asked.BudgetCPUs)
	}
	if !reflect.DeepEqual(g.Devices(), after.Devices()) {
		h.fatalf("%s had devices %v and has %v", name, g.Devices(), after.Devices())
	}
	for i := range g.Containers {
		h.checkResized(g, after, i)
	}
	for _, other := range before.Grants() {
		if now, there := h.state().Grant(other.Pod.UID); other != g && (!there || now != other) {
			h.fatalf("resizing %s changed %s", name, other.Pod.Name)
		}
	}
	h.checkIsolated(after)
	return rejection.NoCause
}

// describeResized describes a pod again, with other amounts. It reports whether the API server
// accepts it.
func (h *history) describeResized(name string) bool {
	at := len(h.blocks) - 1
	for ; at >= 0; at-- {
		c := h.blocks[at].Command
		if c.Name == "pod" && c.Args[0] == name && !strings.HasPrefix(h.blocks[at].Answer[0], "invalid") {
			break
		}
	}
	old := h.blocks[at].Command
	lines := slices.Clone(old.Input)
	pool := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "given ") {
			continue
		}
		words := strings.Fields(line)
		pool += h.changeAmounts(words)
		lines[i] = strings.Join(words, " ")
	}
	words := slices.Clone(old.Args)
	for k, w := range words {
		// A pool changes with its slices, or by itself.
		var n int
		if _, err := fmt.Sscanf(w, "cpu=%d", &n); err == nil && k > 0 && w == fmt.Sprintf("cpu=%d", n) {
			words[k] = fmt.Sprintf("cpu=%d", max(1, n+pool+h.intn(-2, 2, "more for the pool")))
		}
	}
	return !strings.HasPrefix(h.do("pod "+strings.Join(words, " "), lines...), "invalid")
}

// changeAmounts changes the amounts of a container, and returns the change of its number of CPUs.
func (h *history) changeAmounts(words []string) (cpus int) {
	for k, w := range words {
		var n int
		switch {
		case h.chance(2, "same"):
		case strings.HasPrefix(w, "cpu=") && !strings.ContainsAny(w, "m."):
			if _, err := fmt.Sscanf(w, "cpu=%d", &n); err == nil {
				more := h.intn(max(1, n-3), n+4, "cpus") - n
				cpus += more
				words[k] = fmt.Sprintf("cpu=%d", n+more)
				if h.chance(12, "to shared") {
					words[k] = fmt.Sprintf("cpu=%d", n*1000+500) + "m"
				}
			}
		case strings.HasPrefix(w, "memory=") && !strings.Contains(w, ".."):
			if _, err := fmt.Sscanf(w, "memory=%dMi", &n); err == nil {
				words[k] = fmt.Sprintf("memory=%dMi", max(64, n+64*h.intn(-8, 12, "memory")))
			}
		}
	}
	return cpus
}

// checkResized checks that a container that grows keeps all that it had, and that one that shrinks
// gets nothing else.
func (h *history) checkResized(old, now *node.Grant, i int) {
	a, b, c := &old.Containers[i], &now.Containers[i], &now.Pod.Containers[i]
	name := now.Pod.Name + "/" + c.Name
	if a.Removed != b.Removed || b.Removed && !b.CPUs.IsEmpty() {
		h.fatalf("%s was removed: %v, and is: %v with CPUs %s", name, a.Removed, b.Removed, b.CPUs)
	}
	alone := old.Isolation(i) == node.ContainerIsolation
	if !b.Removed && alone && !a.CPUs.Contains(b.CPUs) && !b.CPUs.Contains(a.CPUs) {
		h.fatalf("%s had CPUs %s and has %s", name, a.CPUs, b.CPUs)
	}
	if !b.Removed && alone != (now.Isolation(i) == node.ContainerIsolation) {
		h.fatalf("%s crossed between shared and exclusive", name)
	}
	if !b.Removed && !b.MemoryNodes.Contains(a.MemoryNodes) {
		h.fatalf("%s had memory on %s and has it on %s", name, a.MemoryNodes, b.MemoryNodes)
	}
	if alone && !b.Removed && b.CPUs.Len() != c.CPUs || !now.Pool.IsEmpty() && !b.Removed && b.CPUs.IsEmpty() {
		h.fatalf("%s has CPUs %s, want %d", name, b.CPUs, c.CPUs)
	}
	if !old.Pool.Contains(now.Pool) && !now.Pool.Contains(old.Pool) && !h.usesIsolated() { // Its parts change by themselves.
		h.fatalf("%s had pool %s and has %s", name, old.Pool, now.Pool)
	}
	p, m := h.state().Policy(), h.state().Machine()
	more := b.CPUs.Difference(a.CPUs)
	if allowed := cpu.Local(m, p.CPU, b.Affinity.Mask|m.NodesOf(a.CPUs)); p.Strict() && alone && now.Pool.IsEmpty() && !allowed.Contains(more) {
		h.fatalf("%s is aligned to %s, had CPUs %s and got %s", name, b.Affinity.Mask, a.CPUs, more)
	}
}

// checkResizeRejection checks that a rejection has all texts, and that it is deferred if other pods
// are the cause.
func (h *history) checkResizeRejection(g *node.Grant, asked request.Pod, p *node.Plan) {
	r := p.Rejection
	if r.Detail == "" || r.Rule == "" || p.Trace.Cause == rejection.NoCause || r.Reason != rejection.Infeasible && r.Reason != rejection.Deferred {
		h.fatalf("%s is not resized without an explanation: %+v", g.Pod.Name, r)
	}
	s := h.state()
	for _, other := range s.Grants() {
		if other.Pod.UID != g.Pod.UID {
			s = s.Release(other.Pod.UID)
		}
	}
	if alone := s.Resize(asked.UID, asked).Rejection == nil; alone != (r.Reason == rejection.Deferred) {
		h.fatalf("%s is rejected as %s, and without the other pods it is possible: %v", g.Pod.Name, r.Reason, alone)
	}
	if r.Resource == request.CPU {
		for _, n := range r.Nodes {
			assigned := n.Free
			for _, holder := range n.Holders {
				assigned += holder.Amount
			}
			if assigned != n.Total {
				h.fatalf("%s: NUMA node %d has %d CPUs, and the account is %+v", g.Pod.Name, n.Node, n.Total, n)
			}
		}
	}
}

// checkResizeTwin compares the answer with a literal reading of the rules, for a pod that is
// aligned as one and has only CPUs: a single container, or a pool without exclusive containers.
func (h *history) checkResizeTwin(g *node.Grant, asked request.Pod, p *node.Plan) {
	s := h.state()
	policy, m := s.Policy(), s.Machine()
	has, n := g.Containers[0].CPUs, asked.Containers[0].CPUs
	if !g.Pool.IsEmpty() {
		has, n = g.Pool, asked.BudgetCPUs
	}
	exclusive := func(c request.Container) bool { return c.Exclusive() }
	single := g.Pool.IsEmpty() && len(asked.Containers) == 1 && g.Pod.Containers[0].Exclusive() || !g.Pool.IsEmpty() && !slices.ContainsFunc(asked.Containers, exclusive) &&
		!slices.ContainsFunc(g.Pod.Containers, exclusive)
	cause := p.Trace.Cause
	switch {
	case !single || h.usesIsolated() || policy.StaticMemory || policy.CPU.AlignBySocket || has.IsEmpty() || n == 0 || len(g.Devices()) > 0 || len(p.Trace.Demand.Together.Given) > 0:
		return
	case cause == rejection.OtherPolicy || cause == rejection.NotResizable || cause == rejection.Crossing || cause == rejection.PoolEmpty || cause == rejection.PoolOverdrawn:
		return
	case slices.ContainsFunc(asked.Containers, func(c request.Container) bool { return len(c.Given) > 0 }):
		return
	}
	free := map[int]int{} // by NUMA node
	for _, unit := range m.CPUNodes() {
		for _, core := range m.Cores() {
			local := core.CPUs.Intersection(unit.CPUs)
			mine := s.AvailableCPUs().Union(has)
			if !policy.CPU.FullPCPUsOnly || mine.Contains(core.CPUs) {
				free[unit.ID] += local.Intersection(s.AvailableCPUs()).Len()
			}
		}
	}
	want := h.resizeTwin(g, has, n, free)
	if policy.CPU.FullPCPUsOnly && n != has.Len() && n%max(1, m.CPUsPerCore()) != 0 {
		want = false
	}
	if got := p.Rejection == nil; got != want {
		h.fatalf("%s with CPUs %s to %d: possible is %v, want %v; free %v: %v", g.Pod.Name, has, n, got, want, free, p.Rejection)
	}
}

func (h *history) resizeTwin(g *node.Grant, has cpuset.Set, n int, free map[int]int) bool {
	policy, m := h.state().Policy(), h.state().Machine()
	base := g.BaselineOf(0)
	if !g.Pool.IsEmpty() {
		base = g.BaselineOfPool()
	}
	extra, total := n-has.Len(), 0
	for _, k := range free {
		total += k
	}
	on := func(nodes mask.Mask) (sum int) {
		for id := range nodes.All() {
			sum += free[id]
		}
		return sum
	}
	here := m.NodesOf(has)
	if policy.Topology != node.TopologyNone && g.Containers[0].Affinity.HasMask {
		here |= g.Containers[0].Affinity.Mask
	}
	switch {
	case extra <= 0:
		return n >= base.Len()
	case on(here) >= extra || !policy.Strict():
		return total >= extra
	}
	fewest := fewestNodes(m, n)
	if policy.Topology == node.TopologySingleNUMANode {
		fewest = min(1, fewest)
	}
	nodes := m.CPUNodes()
	for subset := range 1 << len(nodes) {
		var some mask.Mask
		for i, unit := range nodes {
			if subset>>i&1 == 1 {
				some = some.With(unit.ID)
			}
		}
		if some.Len() == fewest && some.Contains(m.NodesOf(has)) && on(some) >= extra {
			return true
		}
	}
	return false
}

// resize records what a pod has after a resize. Baselines stay.
func (m *model) resize(name string) {
	g, there := m.h.state().Grant(name)
	p := m.pods[name]
	if !there || p == nil {
		m.h.fatalf("%s is not on the node any more", name)
	}
	next := m.pod(g)
	next.base, next.poolBase, next.admitted, next.policy = p.base, p.poolBase, p.admitted, p.policy
	m.pods[name] = next
}

// move records what a pod has after a move: a baseline of as many CPUs as before, in its new place.
func (m *model) move(name string) {
	g, there := m.h.state().Grant(name)
	p := m.pods[name]
	if !there || p == nil {
		m.h.fatalf("%s is not on the node any more", name)
	}
	next := m.pod(g)
	next.admitted, next.policy, next.poolBase = p.admitted, p.policy, m.numbers(g.BaselineOfPool())
	for i := range g.Containers {
		next.base = append(next.base, m.numbers(g.BaselineOf(i)))
		if alone := g.Isolation(i) == node.ContainerIsolation; alone && !g.Containers[i].Removed && len(next.base[i]) != len(p.base[i]) {
			m.h.fatalf("%s/%s was admitted with %d CPUs and has a baseline of %d after a move", name, g.Pod.Containers[i].Name, len(p.base[i]), len(next.base[i]))
		}
	}
	m.pods[name] = next
}

// compareBaselines checks that every container and pool has the CPUs that it was admitted with, and
// can go back to them.
func (m *model) compareBaselines() {
	for name, p := range m.pods {
		g, _ := m.h.state().Grant(name)
		if !maps.Equal(m.numbers(g.BaselineOfPool()), p.poolBase) && len(p.cpuPool) > 0 || !contains(p.cpuPool, p.poolBase) && len(p.cpuPool) > 0 {
			m.h.fatalf("the pool of %s was admitted with %v and has %s, baseline %s", name, p.poolBase, g.Pool, g.BaselineOfPool())
		}
		for i, base := range p.base {
			if c := g.Containers[i]; !c.Removed && g.Isolation(i) == node.ContainerIsolation &&
				(!maps.Equal(m.numbers(g.BaselineOf(i)), base) || !contains(p.containers[i].cpus, base)) {
				m.h.fatalf("%s/%s was admitted with %v and has %s, baseline %s", name, g.Pod.Containers[i].Name, base, c.CPUs, g.BaselineOf(i))
			}
		}
		m.checkWayBack(g, p)
	}
}

// checkWayBack checks that a resize to the sizes of the admission is always possible under its
// policy, with the present memory.
func (m *model) checkWayBack(g *node.Grant, p *modelPod) {
	back := p.admitted
	back.BudgetMemory, back.Containers = g.Pod.BudgetMemory, slices.Clone(back.Containers)
	for i := range back.Containers {
		now := &g.Pod.Containers[i]
		back.Containers[i].Memory, back.Containers[i].Equivalent, back.Containers[i].Devices = now.Memory, now.Equivalent, now.Devices
	}
	plan := m.h.state().Resize(g.Pod.UID, back)
	if !reflect.DeepEqual(p.policy, m.h.state().Policy()) {
		return // After a restart.
	}
	if plan.Rejection != nil {
		m.h.fatalf("%s cannot go back to %v: %v", g.Pod.Name, back, plan.Rejection)
	}
	if plan.Rejection == nil && !maps.Equal(m.numbers(plan.Grant.Pool), p.poolBase) && len(p.cpuPool) > 0 {
		m.h.fatalf("%s goes back to pool %s and was admitted with %v", g.Pod.Name, plan.Grant.Pool, p.poolBase)
	}
	for i := range back.Containers {
		if plan.Rejection == nil && !g.Containers[i].Removed && g.Isolation(i) == node.ContainerIsolation && !maps.Equal(m.numbers(plan.Grant.Containers[i].CPUs), p.base[i]) {
			m.h.fatalf("%s/%s goes back to %s and was admitted with %v", g.Pod.Name, back.Containers[i].Name, plan.Grant.Containers[i].CPUs, p.base[i])
		}
	}
}

func contains(all, some map[int]bool) bool {
	for id := range some {
		if !all[id] {
			return false
		}
	}
	return true
}
