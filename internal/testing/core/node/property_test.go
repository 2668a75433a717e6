package node_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// histories is the number of histories that a test run makes. To run more, use -rapid.checks.
const histories = "1000"

// setChecksTo makes n rapid's default, unless the command line sets another number.
func setChecksTo(t *testing.T, n string) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f == checks })
	if given {
		return
	}
	old := checks.Value.String()
	if err := checks.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(old); err != nil {
			t.Error(err)
		}
	})
}

// TestHistories runs random histories on random machines, and checks at every step what must always
// be true.
func TestHistories(t *testing.T) {
	setChecksTo(t, histories)
	rapid.Check(t, func(t *rapid.T) {
		h := start(t)
		for range h.intn(1, 10, "steps") {
			h.step()
			h.checkCPUs()
			h.checkDevices()
		}
		h.checkRestart()
		h.checkRestore()
		h.releaseAll()
		script := h.script()
		if again, err := scenario.Play("history", script, nil); err != nil || again != script {
			h.fatalf("played again it says something else: %v\n%s", err, again)
		}
	})
}

func (h *history) step() {
	grants := h.state().Grants()
	what := h.intn(0, 11, "step")
	if what < 5 || len(grants) == 0 {
		if name := h.describePod(); name != "" {
			h.admit(name)
		}
		return
	}
	g := grants[h.intn(0, len(grants)-1, "pod")]
	c := g.Pod.Containers[h.intn(0, len(g.Pod.Containers)-1, "container")].Name
	switch what {
	case 5:
		h.do("remove " + g.Pod.Name)
	case 6:
		h.do("remove-container " + g.Pod.Name + "/" + c)
	case 7:
		h.do("created " + g.Pod.Name + "/" + c)
	case 8:
		h.admitAgain(g)
	case 9:
		h.restart()
	case 10:
		h.plugIn()
	case 11:
		h.resize(g)
	}
}

// admit plans twice and then admits. A plan changes nothing and is always the same. A rejection
// changes nothing either.
func (h *history) admit(name string) {
	before := h.state()
	_, known := before.Grant(name)
	first, second := h.do("plan "+name), h.do("plan "+name)
	if h.state() != before || first != second {
		h.fatalf("planning %s twice is not planning it once", name)
	}
	h.checkVerdictAbout(name)
	answer := h.do("admit " + name)
	switch {
	case answer != first:
		h.fatalf("admit %s does not do what was planned", name)
	case strings.HasPrefix(answer, "rejected") || known:
		if h.state() != before {
			h.fatalf("%s changed the state", answer)
		}
		h.checkAccount(name)
		return
	}
	g, ok := h.state().Grant(name)
	if !ok || !strings.HasPrefix(answer, "admitted") {
		h.fatalf("%s is neither admitted nor refused", name)
	}
	h.checkShape(g)
	h.checkDeviceShape(g)
	h.checkAligned(g)
	h.checkIsolated(g)
	h.checkCaches()
	h.checkClassesOf(g)
}

// checkAccount checks that the account of the CPUs or devices of a NUMA node in a rejection adds
// up: each is free, or assigned to a pod.
func (h *history) checkAccount(name string) {
	asked, err := h.n.Request(name)
	if err != nil {
		h.fatalf("%v", err)
	}
	r := h.state().Plan(asked).Rejection
	if r == nil {
		return
	}
	if r.Detail == "" || r.Rule == "" || r.Reason == "" {
		h.fatalf("%s is refused without saying why: %+v", name, r)
	}
	for _, n := range r.Nodes {
		assigned := n.Free
		for _, holder := range n.Holders {
			assigned += holder.Amount
		}
		if r.Resource == request.CPU && assigned != n.Total {
			h.fatalf("%s: NUMA node %d has %d CPUs, and the account says %+v", name, n.Node, n.Total, n)
		}
	}
	h.checkDeviceAccount(r)
}

func (h *history) admitAgain(g *node.Grant) {
	before := h.state()
	if answer := h.do("admit " + g.Pod.Name); h.state() != before || !strings.HasPrefix(answer, "already admitted") {
		h.fatalf("%s was known, and is admitted again", g.Pod.Name)
	}
}

// restart builds the state again, perhaps under other settings. Pods keep what they have.
func (h *history) restart() {
	before := h.state()
	change := h.pick("change", "", "", " scope=pod", " scope=container", " topology=restricted", " topology=best-effort",
		" topology=none", " topology=single-numa-node", " gates=PodLevelResourceManagers=false", " gates=PodLevelResourceManagers",
		" memory=None", " cpu=none", " reserved-cpus=0", " options=full-pcpus-only")
	answer := h.do("restart" + change)
	if strings.HasPrefix(answer, "rejected") {
		if change == "" || h.state() != before {
			h.fatalf("a restart was refused")
		}
		return
	}
	if !slices.Equal(before.Grants(), h.state().Grants()) {
		h.fatalf("a restart changed grants")
	}
	if change == "" {
		h.sameBooks(before, h.state())
	}
}

func (h *history) sameBooks(a, b *node.State) {
	if !a.SharedCPUs().Equal(b.SharedCPUs()) || !a.Memory().Equal(b.Memory()) {
		h.fatalf("the state is another: shared pool %s and %s, memory %v and %v",
			a.SharedCPUs(), b.SharedCPUs(), a.Memory().Nodes(), b.Memory().Nodes())
	}
	if !a.Devices().Equal(b.Devices()) {
		h.fatalf("other devices are held: %v and %v", a.Devices().Assigned(), b.Devices().Assigned())
	}
}

// checkCPUs checks that the node shared pool, the CPUs of pods and, under strict reservation, the
// reserved CPUs are disjoint and cover the machine, that no pod has a reserved CPU, and that
// containers are within their pod.
func (h *history) checkCPUs() {
	s := h.state()
	if !s.Policy().StaticCPU {
		return
	}
	holders := map[int]int{}
	count := func(set cpuset.Set) {
		for _, c := range s.Machine().CPUs() {
			if set.Has(c.ID) {
				holders[c.ID]++
			}
		}
	}
	count(s.SharedCPUs())
	if s.Policy().CPU.StrictReservation {
		count(s.Policy().ReservedCPUs)
	}
	if h.usesIsolated() {
		isolated := s.Machine().Isolation().Isolated
		if s.SharedCPUs().Intersects(isolated) {
			h.fatalf("the node shared pool %s has some of the isolated CPUs %s", s.SharedCPUs(), isolated)
		}
		count(isolated.Intersection(s.FreeCPUs()))
	}
	for _, g := range s.Grants() {
		assigned := g.CPUs()
		count(assigned)
		if assigned.Intersects(s.Policy().ReservedCPUs) {
			h.fatalf("%s holds reserved CPUs of %s", g.Pod.Name, assigned)
		}
		for i, c := range g.Containers {
			if !assigned.Contains(c.CPUs) {
				h.fatalf("%s/%s has CPUs %s outside its pod's %s", g.Pod.Name, g.Pod.Containers[i].Name, c.CPUs, assigned)
			}
		}
	}
	for _, c := range s.Machine().CPUs() {
		if holders[c.ID] != 1 {
			h.fatalf("CPU %d has %d holders", c.ID, holders[c.ID])
		}
	}
}

// checkShape checks that a new grant has the amounts that were asked for.
func (h *history) checkShape(g *node.Grant) {
	pool := g.Pod.Kind == request.PodLevel && h.state().Policy().Topology != node.TopologyNone && h.state().Policy().Scope == node.PodScope
	if want := g.Pod.BudgetCPUs; pool && h.state().Policy().StaticCPU && g.Pool.Len() != want {
		h.fatalf("%s has a pool of %s, want %d CPUs", g.Pod.Name, g.Pool, want)
	}
	if !pool && g.HasPool() {
		h.fatalf("%s has a pool", g.Pod.Name)
	}
	for i, c := range g.Containers {
		asked := g.Pod.Containers[i]
		if got := c.CPUs.Len(); asked.Exclusive() && got != 0 && got != asked.CPUs {
			h.fatalf("%s/%s has CPUs %s, want %d", g.Pod.Name, asked.Name, c.CPUs, asked.CPUs)
		}
		if pool && !g.Pool.IsEmpty() && c.CPUs.IsEmpty() {
			h.fatalf("%s/%s has no CPUs: it would run on the whole node", g.Pod.Name, asked.Name)
		}
	}
}

// checkAligned checks that what restricted and single-numa-node admit is really aligned. CPUs are
// on the chosen NUMA nodes, and so are devices that report a NUMA node. Memory is on exactly these
// NUMA nodes. No fewer NUMA nodes could ever have the CPUs, or the devices.
func (h *history) checkAligned(g *node.Grant) {
	p, m := h.state().Policy(), h.state().Machine()
	if p.Topology != node.TopologyRestricted && p.Topology != node.TopologySingleNUMANode {
		return
	}
	for i, c := range g.Containers {
		name, choice := g.Pod.Name+"/"+g.Pod.Containers[i].Name, c.Affinity
		if !choice.Preferred || !choice.Admit {
			h.fatalf("%s is admitted without a preferred alignment", name)
		}
		h.checkDevicesAligned(g, i, choice)
		if c.CPUs.IsEmpty() || !p.StaticCPU {
			continue
		}
		if !p.CPU.AlignBySocket && !choice.Mask.Contains(m.NodesOf(c.CPUs)) {
			h.fatalf("%s is aligned to %s and has CPUs %s", name, choice.Mask, c.CPUs)
		}
		if !c.MemoryNodes.IsEmpty() && c.MemoryNodes != choice.Mask {
			h.fatalf("%s is aligned to %s and has memory on %s", name, choice.Mask, c.MemoryNodes)
		}
		if p.Topology == node.TopologySingleNUMANode && choice.Mask.Len() != 1 {
			h.fatalf("%s is aligned to %s", name, choice.Mask)
		}
		if !p.CPU.AlignBySocket {
			h.checkFewest(g, i, choice)
		}
	}
}

// checkFewest compares with a literal reading of R-HINT-24.
func (h *history) checkFewest(g *node.Grant, i int, choice hint.Choice) {
	wanted := g.Pod.Containers[i].CPUs
	if h.state().Policy().Scope == node.PodScope {
		if wanted = g.Pod.BudgetCPUs; g.Pod.Kind != request.PodLevel {
			wanted = together(g.Pod)
		}
	}
	want := fewestNodes(h.state().Machine(), wanted)
	if h.usesIsolated() {
		sizes, amount := h.wantedParts(g, wanted)
		want = fewestOf(h.state().Machine(), sizes, amount)
	}
	if choice.Mask.Len() != want {
		h.fatalf("%s is aligned to %s, and %d CPUs fit on %d NUMA nodes", g.Pod.Name, choice.Mask, wanted, want)
	}
}

// together returns what the containers need at the moment of the highest demand, found by
// simulating the pod's life.
func together(p request.Pod) int {
	worst, running := 0, 0
	for _, c := range p.Containers {
		if c.Type == request.Init {
			worst = max(worst, running+c.CPUs)
			continue
		}
		running += c.CPUs
	}
	return max(worst, running)
}

func fewestNodes(m *machine.Machine, cpus int) int {
	nodes := m.CPUNodes()
	best := len(nodes)
	for subset := range 1 << len(nodes) {
		n, size := 0, 0
		for i, unit := range nodes {
			if subset>>i&1 == 1 {
				n, size = n+unit.Size, size+1
			}
		}
		if n >= cpus && size > 0 {
			best = min(best, size)
		}
	}
	return best
}

// checkRestore checks that grants in any order, and the devices, make the same state, whether they
// are restored or adopted.
func (h *history) checkRestore() {
	grants := slices.Clone(h.state().Grants())
	shuffle := rand.New(rand.NewPCG(uint64(len(h.blocks)), 1))
	shuffle.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
	restored, err := node.Restore(h.state().Machine(), h.state().Policy(), grants)
	if err == nil {
		restored, err = restored.WithDevices(h.state().Devices().Inventory())
	}
	if err != nil {
		h.fatalf("the grants make no state: %v", err)
	}
	adopted, findings, err := node.Adopt(h.state().Machine(), h.state().Policy(), h.state().Devices().Inventory(), grants)
	if err != nil || len(findings) > 0 {
		h.fatalf("nothing changed, and Adopt finds %v, %v", findings, err)
	}
	for _, again := range []*node.State{restored, adopted} {
		h.sameBooks(h.state(), again)
		if !slices.Equal(again.Grants(), h.state().Grants()) {
			h.fatalf("the grants are others when they are restored")
		}
	}
}

// releaseAll removes every pod in a random order. The node is then as it was at the beginning.
func (h *history) releaseAll() {
	for len(h.state().Grants()) > 0 {
		grants := h.state().Grants()
		h.do("remove " + grants[h.intn(0, len(grants)-1, "remove")].Pod.Name)
		h.checkCPUs()
	}
	fresh, err := node.New(h.state().Machine(), h.state().Policy())
	if err == nil {
		fresh, err = fresh.WithDevices(h.state().Devices().Inventory())
	}
	if err != nil {
		h.fatalf("%v", err)
	}
	h.sameBooks(fresh, h.state())
	for _, n := range h.state().Memory().Nodes() {
		if n.Assignments != 0 || n.Group != mask.Of(n.ID) || slices.ContainsFunc(n.Reserved, func(b int64) bool { return b != 0 }) {
			h.fatalf("nobody is there, and NUMA node %d has %+v", n.ID, n)
		}
	}
}

// TestAFailingHistoryPrintsAsAScenario checks that a history can fail, and that it prints a
// scenario that plays.
func TestAFailingHistoryPrintsAsAScenario(t *testing.T) {
	h := &history{n: scenario.New(nil)}
	for _, line := range []string{"machine sockets=2 cores=4", "config topology=restricted scope=pod cpu=static", "pod a cpu=2 memory=1Gi", "admit a"} {
		words := strings.Fields(line)
		c := scenario.Command{Name: words[0], Args: words[1:]}
		if words[0] == "pod" {
			c.Input = []string{"app c"}
		}
		h.blocks = append(h.blocks, scenario.Block{Command: c, Answer: []string{h.n.Run(c)}})
	}
	script := h.script()
	got, err := scenario.Play("history", script, nil)
	if err != nil || got != script || !strings.Contains(script, "admitted: pool of CPUs 1-2\n") {
		t.Errorf("error %v, script:\n%s\nplayed:\n%s", err, script, got)
	}
}
