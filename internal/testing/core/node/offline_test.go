package node_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestHotplugHistories runs random histories in which CPUs go offline and come back, with restarts
// in between. In all of them, grants stay, no CPU has two pods, and when all CPUs are back, the
// state equals one that never missed any.
func TestHotplugHistories(t *testing.T) {
	setChecksTo(t, "100")
	rapid.Check(t, func(t *rapid.T) {
		h := start(t)
		full := h.state().Machine()
		for range h.intn(1, 12, "steps") {
			switch h.intn(0, 5, "kind") {
			case 0, 1:
				h.hotplug(full.AllCPUs())
			case 2:
				h.adoptStored()
			default:
				h.live()
			}
			h.checkOnline()
		}
		h.plug("online", full.AllCPUs())
		if !reflect.DeepEqual(h.state().Machine(), full) {
			h.fatalf("all CPUs are online, and the machine is another")
		}
		h.checkRestore()
		h.releaseAll()
		script := h.script()
		if again, err := scenario.Play("history", script, nil); err != nil || again != script {
			h.fatalf("played again it says something else: %v\n%s", err, again)
		}
	})
}

// live runs a step of pods: a pod comes, or a pod or a part of it goes.
func (h *history) live() {
	grants := h.state().Grants()
	what := h.intn(0, 6, "step")
	if what < 4 || len(grants) == 0 {
		if name := h.describePod(); name != "" {
			h.do("admit " + name)
		}
		return
	}
	g := grants[h.intn(0, len(grants)-1, "pod")]
	c := g.Pod.Containers[h.intn(0, len(g.Pod.Containers)-1, "container")].Name
	h.do([]string{"remove " + g.Pod.Name, "remove-container " + g.Pod.Name + "/" + c, "created " + g.Pod.Name + "/" + c}[what-4])
}

// hotplug takes some CPUs offline or online.
func (h *history) hotplug(all cpuset.Set) {
	ids := all.IDs()
	var some cpuset.Builder
	for range h.intn(1, max(1, len(ids)/2), "how many") {
		some.Add(ids[h.intn(0, len(ids)-1, "CPU")])
	}
	cpus := some.Set()
	if direction := h.pick("direction", "offline", "online"); direction == "online" || !cpus.Contains(h.state().Machine().AllCPUs()) {
		h.plug(direction, cpus)
	}
}

func (h *history) plug(direction string, cpus cpuset.Set) {
	before := h.state().Grants()
	h.do(direction + " " + cpus.String())
	if !slices.Equal(before, h.state().Grants()) {
		h.fatalf("%s %s changed a grant", direction, cpus)
	}
}

// adoptStored starts the agent: it reads the file and adopts its grants. The grants are the same,
// byte for byte.
func (h *history) adoptStored() {
	s := h.state()
	data, err := statefile.Encode(s)
	if err != nil {
		h.fatalf("%v", err)
	}
	file, err := statefile.Decode("state", data)
	if err != nil {
		h.fatalf("%v", err)
	}
	again, findings, err := node.Adopt(s.Machine(), s.Policy(), s.Devices().Inventory(), file.Grants)
	if err != nil {
		h.fatalf("%v", err)
	}
	for _, f := range findings {
		if !f.Kept {
			h.fatalf("%s", f)
		}
	}
	again = again.Resume(file.Generation)
	h.sameBooks(s, again)
	if written, err := statefile.Encode(again); err != nil || !bytes.Equal(grantsIn(written), grantsIn(data)) {
		h.fatalf("%v: the state was\n%s\nand is after a start\n%s", err, data, written)
	}
	h.do("restart")
}

// grantsIn returns the lines of a state file that are about grants.
func grantsIn(data []byte) []byte {
	_, grants, _ := bytes.Cut(data, []byte("\n\"grants\":"))
	grants, _, _ = bytes.Cut(grants, []byte("\n\"checksum\":"))
	return grants
}

// checkOnline checks that pods and the node shared pool are disjoint, and that every container runs
// on online CPUs: on its own ones if any is online. A container without one does not run on CPUs
// that another container has alone while there is a node shared pool.
func (h *history) checkOnline() {
	s := h.state()
	if !s.Policy().StaticCPU {
		return
	}
	taken, alone, online := s.SharedCPUs(), map[int]string{}, s.Machine().AllCPUs()
	for _, g := range s.Grants() {
		if taken.Intersects(g.CPUs()) {
			h.fatalf("%s has CPUs %s, of which others have %s", g.Pod.Name, g.CPUs(), taken.Intersection(g.CPUs()))
		}
		taken = taken.Union(g.CPUs())
		for i, c := range g.Containers {
			for id := range c.CPUs.All() {
				if s.RunsAlone(g, i) && g.Pod.Containers[i].Type != request.Init {
					alone[id] = g.Pod.Name + "/" + g.Pod.Containers[i].Name
				}
			}
		}
	}
	missing := online.Difference(taken).Difference(s.Policy().ReservedCPUs)
	if h.usesIsolated() { // Isolated CPUs are free and in no shared pool.
		missing = missing.Difference(s.Machine().Isolation().Isolated)
	}
	if !missing.IsEmpty() {
		h.fatalf("CPUs %s are online, and in no pool", missing)
	}
	for _, g := range s.Grants() {
		for i, c := range g.Containers {
			cpus, _ := s.Cgroup(g, i)
			name := g.Pod.Name + "/" + g.Pod.Containers[i].Name
			switch own := c.CPUs.Intersection(online); {
			case c.CPUs.IsEmpty() && !s.SharedCPUs().IsEmpty() && !cpus.Equal(s.SharedCPUs()):
				h.fatalf("%s has no CPUs and runs on %s, not on the node shared pool", name, cpus)
			case c.CPUs.IsEmpty():
			case cpus.IsEmpty() || !online.Contains(cpus):
				h.fatalf("%s runs on %q; online are %s", name, cpus, online)
			case !own.IsEmpty() && !cpus.Equal(own):
				h.fatalf("%s has CPUs %s online and runs on %s", name, own, cpus)
			case own.IsEmpty() && !s.Displaced(g, i) || own.IsEmpty() && s.RunsAlone(g, i):
				h.fatalf("%s has no CPU left and is not displaced", name)
			case own.IsEmpty() && !s.SharedCPUs().IsEmpty() && g.Pod.Containers[i].Type != request.Init:
				for id := range cpus.All() {
					if who := alone[id]; who != "" {
						h.fatalf("%s has no CPU left and runs on CPU %d of %s", name, id, who)
					}
				}
			}
		}
	}
}

// TestRunsAlone checks that a container that has its own online CPU has no quota, and that it has
// one otherwise.
func TestRunsAlone(t *testing.T) {
	n := scenario.New(nil)
	for _, c := range []scenario.Command{
		{Name: "machine", Args: []string{"cores=8"}},
		{Name: "config", Args: []string{"topology=restricted", "scope=pod", "cpu=static"}},
		{Name: "pod", Args: []string{"p", "cpu=4", "memory=1Gi"}, Input: []string{"app own cpu=2 memory=512Mi", "app log"}},
		{Name: "admit", Args: []string{"p"}},
	} {
		if answer := n.Run(c); strings.Contains(answer, "error:") {
			t.Fatal(answer)
		}
	}
	for _, step := range []struct {
		command, cpus string
		own, log      string // what they run on
		alone         bool
	}{
		{"offline", "1", "2", "3-4", true},
		{"offline", "2", "3-4", "3-4", false},
		{"offline", "3-4", "0,5-7", "0,5-7", false},
		{"online", "1-2", "1-2", "0,5-7", true},
		{"online", "3", "1-2", "3", true},
	} {
		n.Run(scenario.Command{Name: step.command, Args: []string{step.cpus}})
		s := n.State()
		g := s.Grants()[0]
		own, _ := s.Cgroup(g, 0)
		log, _ := s.Cgroup(g, 1)
		if own.String() != step.own || log.String() != step.log || s.RunsAlone(g, 0) != step.alone || s.RunsAlone(g, 1) {
			t.Errorf("%s %s: own runs on %s (alone %v), log on %s; want %s (%v) and %s",
				step.command, step.cpus, own, s.RunsAlone(g, 0), log, step.own, step.alone, step.log)
		}
	}
}

// play runs commands and fails if one of them is wrong.
func play(t *testing.T, commands ...scenario.Command) *scenario.Node {
	t.Helper()
	n := scenario.New(nil)
	for _, c := range commands {
		if answer := n.Run(c); strings.Contains(answer, "error:") {
			t.Fatal(answer)
		}
	}
	return n
}

func command(line string, input ...string) scenario.Command {
	words := strings.Fields(line)
	return scenario.Command{Name: words[0], Args: words[1:], Input: input}
}

// TestNodeSharedPoolThatIsOffline checks that a container without its own CPUs runs on CPUs that no
// container has alone, if the node shared pool has only reserved CPUs and these are offline.
func TestNodeSharedPoolThatIsOffline(t *testing.T) {
	n := play(t,
		command("machine cores=6"), command("config topology=restricted scope=pod cpu=static reserved-cpus=1"),
		command("pod pool cpu=4 memory=1Gi", "app own cpu=2 memory=512Mi", "app log"), command("admit pool"),
		command("pod one", "app c cpu=1 memory=1Gi"), command("admit one"), command("pod web", "app c"), command("admit web"),
	)
	for _, c := range []struct{ command, web string }{{"offline 0", "1"}, {"offline 1", "3-4"}, {"offline 3-4", "2,5"}, {"online 1", "1"}, {"online 0-5", "1"}} {
		n.Run(command(c.command))
		g, _ := n.State().Grant("web")
		if cpus, _ := n.State().Cgroup(g, 0); cpus.String() != c.web {
			t.Errorf("%s: web runs on %q, want %q", c.command, cpus, c.web)
		}
	}
}

// TestDisplacedBesideInitContainers checks that a standard init container has ended before the
// others start: its CPUs do not count as its own for them any more, and theirs do not count for it
// yet.
func TestDisplacedBesideInitContainers(t *testing.T) {
	n := play(t,
		command("machine cores=6"), command("config topology=restricted scope=pod cpu=static reserved-cpus=0"),
		command("pod p cpu=4 memory=1Gi", "init setup cpu=3 memory=512Mi", "sidecar proxy cpu=1 memory=64Mi", "app own cpu=1 memory=256Mi", "app log"), command("admit p"),
	)
	g, _ := n.State().Grant("p")
	named := func(i int) string { return g.Containers[i].CPUs.String() }
	if named(0) != "1-3" || named(1) != "1" || named(2) != "2" || named(3) != "3-4" {
		t.Fatalf("the containers have %s, %s, %s and %s", named(0), named(1), named(2), named(3))
	}
	for _, c := range []struct {
		offline string
		want    [4]string
	}{
		{"2", [4]string{"1,3", "1", "3-4", "3-4"}},
		{"1-3", [4]string{"4", "4", "4", "4"}},
		{"3-4", [4]string{"1-2", "1", "2", "0,5"}},
		{"1,3-4", [4]string{"2", "0,5", "2", "0,5"}},
	} {
		n.Run(command("offline " + c.offline))
		for i, want := range c.want {
			if cpus, _ := n.State().Cgroup(g, i); cpus.String() != want {
				t.Errorf("%s offline: %s runs on %s, want %s", c.offline, g.Pod.Containers[i].Name, cpus, want)
			}
		}
		n.Run(command("online 0-5"))
	}
}

// TestOnMachine checks that another machine gives another state, and that the same machine gives
// the same state.
func TestOnMachine(t *testing.T) {
	s := play(t, command("machine cores=4"), command("config cpu=static"), command("pod p", "app c cpu=1 memory=1Gi"), command("admit p"), command("remove p")).State()
	m, err := s.Machine().Without(cpuset.Of(3))
	if err != nil {
		t.Fatal(err)
	}
	less, err := s.OnMachine(m)
	if err != nil || less.Generation() <= s.Generation() {
		t.Errorf("generation %d after %d: %v", less.Generation(), s.Generation(), err)
	}
	if again, err := less.OnMachine(m); again != less || err != nil {
		t.Errorf("the same machine makes another state: %v", err)
	}
}
