package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// startIsolated is start on a machine with isolated CPUs, with a policy that has the option
// isolated-cpus if that is possible on the machine.
func startIsolated(t *rapid.T) *history { return startOn(t, true) }

// isolate draws isolated CPUs for a machine with n CPUs: whole ranges, as in a boot parameter. The
// lowest CPUs are rarely among them.
func (h *history) isolate(n int) string {
	if !h.isolated || n < 2 {
		return ""
	}
	var set cpuset.Builder
	for range h.intn(1, 3, "isolated ranges") {
		first := h.intn(1, n-1, "first isolated")
		for id, last := first, h.intn(first, n-1, "last isolated"); id <= last; id++ {
			set.Add(id)
		}
	}
	return " isolated=" + set.Set().String()
}

// usesIsolated reports whether the policy of the node has a use for isolated CPUs.
func (h *history) usesIsolated() bool {
	p := h.state().Policy()
	return p.StaticCPU && p.CPU.Isolated != cpu.IsolatedAlike && !h.state().Machine().Isolation().Isolated.IsEmpty()
}

// checkIsolated checks a pod that was admitted or resized: with only, no exclusive CPU is one that
// is not isolated. Containers that share run on no isolated CPU, unless their pod asks for it.
func (h *history) checkIsolated(g *node.Grant) {
	s := h.state()
	if !h.usesIsolated() {
		return
	}
	isolated := s.Machine().Isolation().Isolated
	for i, c := range g.Containers {
		name := g.Pod.Name + "/" + g.Pod.Containers[i].Name
		runs, _ := s.Cgroup(g, i)
		switch {
		case g.Isolation(i) != node.ContainerIsolation:
			if runs.Intersects(isolated) && !g.Pod.SharesIsolated {
				h.fatalf("%s shares CPUs %s, and %s are isolated", name, runs, isolated)
			}
		case s.Policy().CPU.Isolated == cpu.IsolatedOnly && !isolated.Contains(c.CPUs):
			h.fatalf("%s has CPUs %s, and only %s are isolated", name, c.CPUs, isolated)
		case s.Policy().CPU.Isolated == cpu.IsolatedFirst && g.Pool.IsEmpty():
			h.checkFirst(g, i)
		}
	}
}

// checkFirst checks that a container has no CPU that is not isolated while an isolated one was
// left on the NUMA nodes to which it is aligned. With whole cores, a core that is isolated in part
// does not count.
func (h *history) checkFirst(g *node.Grant, i int) {
	s, c := h.state(), &g.Containers[i]
	if g.Resized > 0 || c.Affinity.HasMask && s.Policy().CPU.AlignBySocket {
		return
	}
	isolated, left := s.Machine().Isolation().Isolated, s.AvailableCPUs()
	if c.Affinity.HasMask {
		left = left.Intersection(s.Machine().CPUsOf(c.Affinity.Mask))
	}
	left = left.Intersection(isolated)
	if s.Policy().CPU.FullPCPUsOnly {
		left = cpu.WholeCores(s.Machine(), left, cpuset.Set{})
	}
	if later := slices.ContainsFunc(g.Containers[i+1:], func(o node.ContainerGrant) bool { return !o.CPUs.IsEmpty() }); later {
		return // It may have left CPUs to it that an init container reuses.
	}
	if unneeded := c.CPUs.Difference(isolated); !unneeded.IsEmpty() && left.Len() >= max(1, s.Machine().CPUsPerCore()) && c.Affinity.Preferred {
		h.fatalf("%s/%s has CPUs %s, and isolated CPUs %s are free", g.Pod.Name, g.Pod.Containers[i].Name, c.CPUs, left)
	}
}

// wantedParts returns what a pod asks for of the NUMA nodes by a literal reading of R-CPU-134 and
// R-CPU-135: the size of each NUMA node and the amount that count, in two dimensions.
func (h *history) wantedParts(g *node.Grant, wanted int) (sizes func(machine.Unit) [2]int, want [2]int) {
	s := h.state()
	isolated := s.Machine().Isolation().Isolated
	inside := func(u machine.Unit) int { return u.CPUs.IntersectionLen(isolated) }
	only := s.Policy().CPU.Isolated == cpu.IsolatedOnly
	shares := slices.ContainsFunc(g.Pod.Containers, func(c request.Container) bool { return c.CPUs == 0 })
	switch {
	case g.Pool.IsEmpty() || g.Pod.SharesIsolated || !shares:
		return func(u machine.Unit) [2]int {
			if only {
				return [2]int{inside(u), 0}
			}
			return [2]int{u.Size, 0}
		}, [2]int{wanted, 0}
	case only:
		exclusive := h.whole(together(g.Pod))
		return func(u machine.Unit) [2]int { return [2]int{inside(u), u.Size - inside(u)} }, [2]int{exclusive, wanted - exclusive}
	}
	running := 0
	for _, c := range g.Pod.Containers {
		if c.Type != request.Init {
			running += c.CPUs
		}
	}
	return func(u machine.Unit) [2]int { return [2]int{u.Size, u.Size - inside(u)} }, [2]int{wanted, wanted - h.whole(running)}
}

// whole rounds up to whole cores, if the policy has only those.
func (h *history) whole(n int) int {
	core := max(1, h.state().Machine().CPUsPerCore())
	if !h.state().Policy().CPU.FullPCPUsOnly {
		return n
	}
	return (n + core - 1) / core * core
}

// fewestOf tries every set of NUMA nodes.
func fewestOf(m *machine.Machine, sizes func(machine.Unit) [2]int, want [2]int) int {
	nodes := m.CPUNodes()
	best := len(nodes)
	for subset := 1; subset < 1<<len(nodes); subset++ {
		var sum [2]int
		size := 0
		for i, unit := range nodes {
			if subset>>i&1 == 1 {
				sum[0], sum[1], size = sum[0]+sizes(unit)[0], sum[1]+sizes(unit)[1], size+1
			}
		}
		if sum[0] >= want[0] && sum[1] >= want[1] {
			best = min(best, size)
		}
	}
	return best
}

// TestIsolatedHistories is TestHistories on machines with isolated CPUs.
func TestIsolatedHistories(t *testing.T) {
	setChecksTo(t, histories)
	admitted := 0
	rapid.Check(t, func(t *rapid.T) {
		h := startIsolated(t)
		for range h.intn(1, 10, "steps") {
			h.step()
			h.checkCPUs()
			h.checkDevices()
		}
		if h.usesIsolated() {
			admitted += h.state().NumGrants()
		}
		h.checkRestart()
		h.checkRestore()
		h.releaseAll()
	})
	if admitted == 0 {
		t.Error("no pod was admitted on a node with the option isolated-cpus")
	}
}

// TestModelOfIsolated is TestModel on machines with isolated CPUs.
func TestModelOfIsolated(t *testing.T) { modelHistories(t, startIsolated) }

// TestIsolatedWithoutOption plays histories of nodes without the option again, on the same machine
// with isolated CPUs: every answer is the same.
func TestIsolatedWithoutOption(t *testing.T) {
	setChecksTo(t, modelled)
	rapid.Check(t, func(t *rapid.T) {
		h := startOn(t, false)
		for range h.intn(1, 8, "steps") {
			h.step()
		}
		h.isolated = true
		isolated := strings.TrimSpace(h.isolate(len(h.state().Machine().CPUs())))
		if isolated == "" {
			return
		}
		n := scenario.New(nil)
		for _, b := range h.blocks {
			c := b.Command
			if c.Name == "machine" {
				c.Args = append(slices.Clone(c.Args), isolated)
			}
			answer := n.Run(c)
			if c.Name == "machine" || c.Name == "config" || c.Name == "restart" { // They describe the machine, and have a warning.
				continue
			}
			if want := strings.Join(b.Answer, "\n"); answer != want {
				h.fatalf("with %s, %s %v is answered with\n%s\nwithout, with\n%s", isolated, c.Name, c.Args, answer, want)
			}
		}
		if a, b := n.State(), h.state(); fmt.Sprint(a.SharedCPUs()) != fmt.Sprint(b.SharedCPUs()) || a.NumGrants() != b.NumGrants() {
			h.fatalf("with %s, the node shared pool is %s, without it is %s", isolated, a.SharedCPUs(), b.SharedCPUs())
		}
	})
}
