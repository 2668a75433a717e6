package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// startDivided is start on a machine whose caches can be divided, with a policy that has the option
// cache-allocation if that is possible on the machine.
func startDivided(t *rapid.T) *history {
	h := &history{t: t, n: scenario.New(nil), caches: true, isolated: rapid.IntRange(0, 9).Draw(t, "isolated") == 9}
	h.begin()
	return h
}

// divide draws how the caches of a machine can be divided.
func (h *history) divide() string {
	if !h.caches {
		return ""
	}
	ways := h.intn(1, 20, "ways")
	text := fmt.Sprintf(" caches=ways:%d,least:%d,classes:%d", ways, h.intn(1, min(2, ways), "least ways"), h.intn(2, 16, "classes"))
	if h.chance(2, "hardware ways") {
		first := h.intn(0, ways-1, "first hardware way")
		text += fmt.Sprintf(",hardware:%x", uint32(cache.Run(first, h.intn(1, min(2, ways-first), "hardware ways"))))
	}
	if h.chance(4, "sparse") {
		text += ",sparse"
	}
	return text + h.pick("bandwidth", "", ",mb:10", ",mb:20")
}

// onlyCaches returns the option cache-allocation of options alone.
func (h *history) onlyCaches(options string) string {
	if strings.Contains(options, "cache-allocation") {
		return " options=cache-allocation"
	}
	return ""
}

// cacheRequest draws what a container asks of its caches. A few ask for what they cannot have.
func (h *history) cacheRequest(containerType, kind string) string {
	if !h.caches || (containerType == "init" || kind != "whole") && !h.chance(30, "misplaced cache") || h.chance(3, "no cache") {
		return ""
	}
	return " cache=" + h.pick("cache", "l3=1way", "l3=1way", "l3=2ways", "l3=3ways", "l3=5ways", "l3=10%", "l3=50%", "mb=10%", "mb=30%", "l3=2ways,mb=20%", "l3=1way,mb=45%")
}

func (h *history) poolCache() string {
	if !h.caches || !h.chance(3, "cache of the pool") {
		return ""
	}
	return " shared-pool-cache=" + h.pick("pool cache", "l3=1way", "l3=2ways", "mb=10%", "l3=1way,mb=10%")
}

// usesCaches reports whether the node divides its caches.
func (h *history) usesCaches() bool { return h.state().Policy().CPU.DividesCaches }

// taken adds up what the classes of all pods have of each cache.
type taken struct {
	h         *history
	ways      map[int]cache.Ways
	bandwidth map[int]int
	classes   int
}

// checkCaches reads the rules R-CACHE-10, R-CACHE-13, R-CACHE-14 and R-CACHE-20 literally.
func (h *history) checkCaches() {
	if !h.usesCaches() {
		return
	}
	t := &taken{h: h, ways: map[int]cache.Ways{}, bandwidth: map[int]int{}}
	for _, g := range h.state().Grants() {
		if h.state().OfflineOf(g).Len() > 0 {
			continue
		}
		var shared cpuset.Builder
		for i := range g.Containers {
			if g.Containers[i].Removed {
				continue
			}
			if g.Isolation(i) == node.PodIsolation {
				shared.AddSet(g.Containers[i].CPUs)
			}
			t.add(g.Pod.Name+"/"+g.Pod.Containers[i].Name, g.Containers[i].Cache, g.Containers[i].CPUs, g.Pod.Containers[i].Cache)
		}
		if !slices.ContainsFunc(g.Containers, func(c node.ContainerGrant) bool { return c.Removed }) { // A class does not shrink with its containers.
			t.add(g.Pod.Name, g.PoolCache, shared.Set(), g.Pod.PoolCache)
		}
	}
	if most := h.state().Machine().Caches().Classes; t.classes >= most {
		h.fatalf("%d classes are in use, and the processor has %d with the default one", t.classes, most)
	}
	t.checkRest()
}

// add compares a class with what was asked for, and with the classes so far.
func (t *taken) add(who string, c cache.Class, cpus cpuset.Set, ask request.Cache) {
	if len(c) == 0 {
		return
	}
	t.classes++
	m := t.h.state().Machine()
	want, err := cache.Resolve(ask, m)
	if err != nil {
		t.h.fatalf("%s has %s: %v", who, c, err)
	}
	var used, has []int
	for _, unit := range m.Uncores() {
		if unit.CPUs.Intersects(cpus) {
			used = append(used, unit.ID)
		}
	}
	for _, share := range c {
		has = append(has, share.Cache)
		others := t.ways[share.Cache]
		switch {
		case share.Ways.Len() != want.Ways || share.Bandwidth != want.Bandwidth:
			t.h.fatalf("%s asks for %s and has %s", who, want.Words(), c)
		case !share.Ways.Contiguous():
			t.h.fatalf("%s has %s, with a gap", who, c)
		case others&share.Ways != 0:
			t.h.fatalf("%s has %s, and others have ways %s of L3 %d", who, c, others, share.Cache)
		}
		t.ways[share.Cache] |= share.Ways
		t.bandwidth[share.Cache] += share.Bandwidth
	}
	if !slices.Equal(used, has) {
		t.h.fatalf("%s runs on CPUs %s of the caches %v and has %s", who, cpus, used, c)
	}
}

// checkRest checks what the default class has.
func (t *taken) checkRest() {
	h, rules := t.h, t.h.state().Machine().Caches()
	least := max(rules.LeastWays, min(cache.Floor, max(1, rules.Ways/2)))
	for _, rest := range h.state().Caches().Rest() {
		others, sum := t.ways[rest.Cache], t.bandwidth[rest.Cache]
		switch {
		case rest.Ways&others != 0:
			h.fatalf("the default class has ways %s of L3 %d, and others have %s", rest.Ways, rest.Cache, others)
		case rest.Ways.Len() < least || !rules.Sparse && !rest.Ways.Contiguous():
			h.fatalf("the default class has ways %s of L3 %d", rest.Ways, rest.Cache)
		case uint32(rest.Ways)&rules.HardwareWays != rules.HardwareWays:
			h.fatalf("the default class has ways %s of L3 %d, and hardware uses %s", rest.Ways, rest.Cache, cache.Ways(rules.HardwareWays))
		case rules.DividesBandwidth() && (rest.Bandwidth < rules.LeastBandwidth || sum+rest.Bandwidth > 100):
			h.fatalf("the default class has %d%% of the bandwidth of L3 %d, and others have %d%%", rest.Bandwidth, rest.Cache, sum)
		}
	}
}

// checkClassesOf checks that a pod that was admitted has a class for everything that asks for one.
func (h *history) checkClassesOf(g *node.Grant) {
	if !h.usesCaches() {
		return
	}
	for i := range g.Containers {
		if asks := g.Pod.Containers[i].Cache; asks.IsZero() != (len(g.Containers[i].Cache) == 0) {
			h.fatalf("%s/%s asks for %q and has %s", g.Pod.Name, g.Pod.Containers[i].Name, asks, g.Containers[i].Cache)
		}
	}
	if g.Pod.PoolCache.IsZero() != (len(g.PoolCache) == 0) {
		h.fatalf("the pool of %s asks for %q and has %s", g.Pod.Name, g.Pod.PoolCache, g.PoolCache)
	}
}

// TestCacheHistories is TestHistories on machines whose caches can be divided.
func TestCacheHistories(t *testing.T) {
	setChecksTo(t, histories)
	classes, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := startDivided(t)
		for range h.intn(1, 12, "steps") {
			h.step()
			h.checkCPUs()
			h.checkCaches()
		}
		used, _ := h.state().Caches().Classes()
		classes += used
		if strings.Contains(h.script(), " of L3") {
			rejected++
		}
		h.checkRestart()
		h.checkRestore()
		h.releaseAll()
		if used, _ := h.state().Caches().Classes(); used != 0 {
			h.fatalf("%d classes are left without pods", used)
		}
	})
	if classes == 0 || rejected == 0 {
		t.Errorf("%d classes were given, and %d histories have a rejection for caches: want both", classes, rejected)
	}
}

// TestModelOfCaches is TestModel on machines whose caches can be divided.
func TestModelOfCaches(t *testing.T) { modelHistories(t, startDivided) }

// TestCachesWithoutOption plays histories of nodes without the option again, on a machine whose
// caches can be divided and with pods that ask for them: every answer is the same but for a note.
func TestCachesWithoutOption(t *testing.T) {
	setChecksTo(t, modelled)
	rapid.Check(t, func(t *rapid.T) {
		h := startOn(t, false)
		for range h.intn(1, 8, "steps") {
			h.step()
		}
		h.caches = true
		n, caches := scenario.New(nil), strings.TrimSpace(h.divide())
		for _, b := range h.blocks {
			c := b.Command
			switch c.Name {
			case "machine":
				c.Args = append(slices.Clone(c.Args), caches)
			case "pod":
				c.Input = slices.Clone(c.Input)
				for i, line := range c.Input {
					if words := strings.Fields(line); len(words) > 1 && words[0] != "given" {
						c.Input[i] = strings.Join(append([]string{words[0], words[1], "cache=l3=2ways,mb=20%"}, words[2:]...), " ")
					}
				}
			}
			answer := n.Run(c)
			if c.Name == "machine" || c.Name == "pod" { // They describe the caches.
				continue
			}
			if want := strings.Join(b.Answer, "\n"); withoutCacheNote(answer) != want {
				h.fatalf("with %s, %s %v is answered with\n%s\nwithout, with\n%s", caches, c.Name, c.Args, answer, want)
			}
		}
	})
}

func withoutCacheNote(answer string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(answer, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "note: the pod asks for a part of the caches")
	}), "\n")
}

// TestClassesOnOtherMachines adopts a pod on machines that divide their caches in another way: it
// keeps its class exactly if the class is possible there (R-CACHE-32).
func TestClassesOnOtherMachines(t *testing.T) {
	n := scenario.New(nil)
	for _, command := range []scenario.Command{
		{Name: "machine", Args: strings.Fields("cores=8 uncore=4 memory=8Gi caches=ways:8,classes:4,mb:10")},
		{Name: "config", Args: strings.Fields("cpu=static reserved-cpus=0 options=cache-allocation=true")},
		{Name: "pod", Args: []string{"a"}, Input: []string{"app one cache=l3=1way,mb=20% cpu=6 memory=1Gi"}},
		{Name: "admit", Args: []string{"a"}},
	} {
		if answer := n.Run(command); strings.HasPrefix(answer, "error") || strings.HasPrefix(answer, "rejected") {
			t.Fatal(answer)
		}
	}
	s := n.State()
	for _, c := range []struct{ machine, finding string }{
		{"cores=8 uncore=4 memory=8Gi caches=ways:8,classes:4,mb:10", ""},
		{"cores=8 uncore=4 memory=8Gi caches=ways:16,classes:16,mb:5", ""},
		{"cores=8 uncore=4 memory=8Gi", ""}, // The class is used again when the caches are.
		{"cores=8 uncore=2 memory=8Gi caches=ways:8,classes:4,mb:10", "container one has CPUs 1-6, of the L3 caches [2 3] too, and it has L3 0: way 0, 20% of the memory bandwidth; L3 1: way 0, 20% of the memory bandwidth"},
		{"cores=8 uncore=4 memory=8Gi caches=ways:8,classes:4", "class cannot be taken: the machine does not limit memory bandwidth in percent, and it has 20% of that of L3 0"},
		{"cores=8 uncore=4 memory=8Gi caches=ways:8,least:2,classes:4,mb:10", "class cannot be taken: the processor gives a class at least 2 ways of an L3 cache, and it has ways 0 of L3 0"},
		{"cores=8 uncore=4 memory=8Gi caches=ways:8,classes:4,mb:10,hardware:3", "class cannot be taken: classes cannot have ways 0 of L3 0"},
	} {
		m := scenario.Machine(c.machine)
		none, err := device.NewInventory(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		next, findings, err := node.Adopt(m, s.Policy(), none, s.Grants())
		if err != nil || len(next.Grants()) != 1 {
			t.Fatalf("%s: %v, %v", c.machine, findings, err)
		}
		var got []string
		for _, f := range findings {
			got = append(got, strings.TrimPrefix(f.What, "its part of the caches is not possible any more, and it runs in the default class: "))
		}
		if strings.Join(got, "; ") != c.finding {
			t.Errorf("%s: found %q, want %q", c.machine, got, c.finding)
		}
		if has := len(next.Grants()[0].Classes()) > 0; has != (c.finding == "") {
			t.Errorf("%s: the pod has its class: %t", c.machine, has)
		}
	}
}

// TestReservedClassInPart checks that a reservation keeps the shares of a class that are free, as
// it keeps free CPUs, although the class also has a share that another pod has still.
func TestReservedClassInPart(t *testing.T) {
	m := scenario.Machine("cores=8 uncore=4 memory=8Gi caches=ways:8,classes:4")
	empty, err := node.New(m, node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), CPU: cpu.Options{DividesCaches: true}})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string, cpus, ways int) request.Pod {
		return request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
			{Name: "app", Type: request.App, CPUs: cpus, CPURequest: int64(cpus) * 1000, CPULimit: int64(cpus) * 1000, Equivalent: true, Cache: request.Cache{Ways: ways}},
		}}}
	}
	wide := empty.Plan(pod("wide", 6, 4)).Grant // both caches
	s, err := empty.Apply(empty.Plan(pod("small", 1, 4)))
	if err != nil {
		t.Fatal(err)
	}
	s = s.WithReservations([]node.Reservation{{Grant: wide, Why: node.RoomForPod}})
	p := s.Plan(pod("other", 1, 3))
	if p.Rejection == nil {
		t.Errorf("another pod gets %s, which is reserved", p.Grant.Containers[0].Cache)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
