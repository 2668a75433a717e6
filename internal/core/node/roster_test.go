package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// future is a roster with its expected contents.
type future struct {
	roster roster
	twin   map[string]*Grant
}

// TestRosterFutures derives several rosters from the same ones, in any order, and compares all of
// them with maps at the end: a page that two of them share must not change.
func TestRosterFutures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		futures := []future{{twin: map[string]*Grant{}}}
		names := rapid.SampledFrom([]int{3, 40, 300, 2000}).Draw(t, "names")
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			f := futures[rapid.IntRange(0, len(futures)-1).Draw(t, "from")]
			f.twin = maps.Clone(f.twin)
			first, count := rapid.IntRange(0, names-1).Draw(t, "first"), rapid.IntRange(1, names).Draw(t, "count")
			take := rapid.Bool().Draw(t, "take away")
			for i := range count {
				uid := fmt.Sprint((first + i*7) % names)
				if take {
					f.remove(uid)
				} else {
					f.add(uid)
				}
			}
			futures = append(futures, f)
		}
		for i := range futures {
			if wrong := futures[i].wrong(); wrong != "" {
				t.Fatalf("future %d of %d: %s", i, len(futures), wrong)
			}
		}
	})
}

func (f *future) add(uid string) {
	g := &Grant{Pod: request.Pod{Identity: request.Identity{UID: uid}}}
	f.roster, f.twin[uid] = f.roster.with(g), g
}

func (f *future) remove(uid string) {
	if _, there := f.twin[uid]; there {
		f.roster = f.roster.without(uid)
		delete(f.twin, uid)
	}
}

// wrong describes how the roster differs from its twin or is not balanced. It returns "" if it is
// right.
func (f *future) wrong() string {
	uids := slices.Sorted(maps.Keys(f.twin))
	if f.roster.len != len(uids) {
		return fmt.Sprintf("%d grants, want %d", f.roster.len, len(uids))
	}
	i := 0
	for g := range f.roster.all() {
		if i >= len(uids) || g != f.twin[uids[i]] {
			return fmt.Sprintf("grant %d is of pod %s, or another one of it", i, g.Pod.UID)
		}
		if got, found := f.roster.get(g.Pod.UID); !found || got != g {
			return "pod " + g.Pod.UID + " is not found"
		}
		i++
	}
	if _, found := f.roster.get("none"); found || i != len(uids) {
		return fmt.Sprintf("%d grants are listed, want %d; a pod that is not there is found: %t", i, len(uids), found)
	}
	if f.roster.root == nil {
		return ""
	}
	_, wrong := f.roster.root.unbalanced()
	return wrong
}

// unbalanced returns the depth of a page and what is wrong with its balance, or "".
func (p *page) unbalanced() (depth int, wrong string) {
	if size := p.size(); size == 0 || size > pageSize || p.grants != nil && p.pages != nil {
		return 0, fmt.Sprintf("a page has %d grants and %d pages", len(p.grants), len(p.pages))
	}
	for i, below := range p.pages {
		d, wrong := below.unbalanced()
		switch {
		case wrong != "":
			return 0, wrong
		case i > 0 && d+1 != depth:
			return 0, fmt.Sprintf("leaves are %d and %d pages deep", depth, d+1)
		case i > 0 && p.pages[i-1].size()+below.size() <= pageSize/2:
			return 0, fmt.Sprintf("pages side by side have %d and %d", p.pages[i-1].size(), below.size())
		}
		depth = d + 1
	}
	return depth, ""
}

// TestRosterShrinks removes most pods in runs of neighbours. When two inner pages are joined, the
// last child of one and the first child of the other become adjacent.
func TestRosterShrinks(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		f := future{twin: map[string]*Grant{}}
		for i := range 3000 {
			f.add(fmt.Sprintf("%04d", i))
		}
		for len(f.twin) > 50 {
			first := r.IntN(3000)
			for i := range 1 + r.IntN(60) {
				f.remove(fmt.Sprintf("%04d", first+i))
			}
			if wrong := f.wrong(); wrong != "" {
				t.Fatalf("seed %d, with %d grants left: %s", seed, len(f.twin), wrong)
			}
		}
	}
}

func TestRosterIterationStops(t *testing.T) {
	f := future{twin: map[string]*Grant{}}
	for i := range 100 {
		f.add(fmt.Sprint(i))
	}
	seen := 0
	for range f.roster.all() {
		if seen++; seen == 40 {
			break
		}
	}
	if seen != 40 {
		t.Errorf("%d grants were listed, want 40", seen)
	}
}

// TestStateFutures derives many states from the same ones, by admissions and releases of many pods,
// and checks all states at the end: each has the grants of its own history, and passes Check.
func TestStateFutures(t *testing.T) {
	empty := futuresNode(t)
	type line struct {
		state *State
		twin  map[string]*Grant
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := []line{{empty, map[string]*Grant{}}}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			from := lines[max(0, len(lines)-1-rapid.IntRange(0, 3).Draw(t, "back"))]
			next := line{from.state, maps.Clone(from.twin)}
			for range rapid.IntRange(1, 8).Draw(t, "pods") {
				uid := fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "pod"))
				if _, there := next.twin[uid]; there && rapid.Bool().Draw(t, "ends") {
					next.state = next.state.Release(uid)
					delete(next.twin, uid)
					continue
				}
				plan := next.state.Plan(futuresPod(uid))
				after, err := next.state.Apply(plan)
				if err != nil {
					t.Fatal(err)
				}
				if next.state = after; plan.Grant != nil {
					next.twin[uid] = plan.Grant
				}
			}
			lines = append(lines, next)
		}
		for i, l := range lines {
			if wrong := (&future{l.state.grants, l.twin}).wrong(); wrong != "" {
				t.Fatalf("state %d: %s", i, wrong)
			}
			if err := l.state.Check(); err != nil {
				t.Fatalf("state %d: %v", i, err)
			}
		}
	})
}

// futuresNode returns a node with 48 cores on two NUMA nodes, which is fewer than the pods of
// TestStateFutures ask for.
func futuresNode(t *testing.T) *State {
	t.Helper()
	d := machine.Description{Sockets: 2}
	for n := range 2 {
		described := machine.NodeDescription{ID: n, Memory: 1 << 36}
		for core := range 24 {
			described.Cores = append(described.Cores, machine.CoreDescription{Socket: n, Threads: []int{n*24 + core}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, described)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(m, Policy{Topology: TopologyBestEffort, Scope: PodScope, StaticCPU: true, StaticMemory: true, PodLevelResources: true, PodLevelManagers: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// futuresPod returns a pod with a pool of one CPU.
func futuresPod(uid string) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel,
			BudgetCPUs: 1, BudgetCPUMilli: 1000, BudgetMemory: request.Amounts{{Resource: request.Memory, Value: 1 << 20}},
			Containers: []request.Container{{Name: "c", Type: request.App}},
		},
	}
}
