package capacity

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestTry checks that the nodes as they are come first, that they keep their amounts, and that an
// error ends the comparison with the trials before it.
func TestTry(t *testing.T) {
	k := kind(t, 2)
	k.Used = fleet.Amounts{Milli: 8000, Pods: 1} // of a pod that belongs to the node
	items := []Item{item("a", 5, 4)}
	wrong, calls := errors.New("enough"), 0
	ask := func(most int) func(context.Context, []Kind, fleet.Scoring) (*Result, error) {
		calls = 0
		return func(ctx context.Context, kinds []Kind, scoring fleet.Scoring) (*Result, error) {
			if calls++; calls > most {
				return nil, wrong
			}
			return Fit(ctx, kinds, items, Options{Scoring: scoring})
		}
	}
	all, err := Try(t.Context(), []Kind{k}, items, fleet.LeastStranded, ask(NumTrials([]Kind{k}, items)))
	if err != nil || len(all) != NumTrials([]Kind{k}, items) || len(all[0].Now) != 1 || all[0].Policy != node.TopologySingleNUMANode || all[0].Result.Placed != 2 {
		t.Fatalf("%d trials, the first is %+v: %v", len(all), all[0], err)
	}
	for _, trial := range all[1:] {
		if trial.Now != nil {
			t.Errorf("%+v is not that of the nodes as they are", trial)
		}
	}
	for _, most := range []int{0, 1, 3, 8, NumTrials([]Kind{k}, items) - 1} {
		if some, err := Try(t.Context(), []Kind{k}, items, fleet.LeastStranded, ask(most)); !errors.Is(err, wrong) || len(some) != most {
			t.Errorf("%d trials and %v, expected %d", len(some), err, most)
		}
	}
}

// TestTryIsolated checks that the values of the option isolated-cpus are tried where machines have
// isolated CPUs, and that a value with which a node does not start is named with the reason.
func TestTryIsolated(t *testing.T) {
	asIs := func(*node.Policy) {}
	for name, c := range map[string]struct {
		kinds []Kind
		want  map[string]string // what each value places, or why it is wrong
	}{
		"no isolated CPUs": {[]Kind{kind(t, 1)}, map[string]string{}},
		"without the option": {[]Kind{isolated(t, asIs)}, map[string]string{
			"isolated-cpus=only": "2", "isolated-cpus=prefer": "3", // Of 15 CPUs, 8 are isolated.
		}},
		"with it": {[]Kind{isolated(t, func(p *node.Policy) { p.CPU.Isolated = cpu.IsolatedOnly })}, map[string]string{
			"without isolated-cpus": "3", "isolated-cpus=prefer": "3",
		}},
		"reserved": {[]Kind{isolated(t, func(p *node.Policy) { p.ReservedCPUs = cpuset.Of(0, 4) })}, map[string]string{
			"isolated-cpus=only":   "CPUs 4 of isolated are reserved and isolated: reserve others",
			"isolated-cpus=prefer": "CPUs 4 of isolated are reserved and isolated: reserve others",
		}},
		"nothing to share": {[]Kind{isolated(t, func(p *node.Policy) {
			p.ReservedCPUs, p.CPU.StrictReservation = cpuset.Of(0, 1, 2, 3, 8, 9, 10, 11), true
		})}, map[string]string{
			"isolated-cpus=only":   "all CPUs of isolated are reserved or isolated, and containers that share would have none",
			"isolated-cpus=prefer": "all CPUs of isolated are reserved or isolated, and containers that share would have none",
		}},
		"another kind": {[]Kind{isolated(t, asIs), kind(t, 1)}, map[string]string{
			"isolated-cpus=only": "n has no isolated CPUs", "isolated-cpus=prefer": "6",
		}},
		"a kubelet": {[]Kind{isolated(t, func(p *node.Policy) { p.Behavior.AdmitsAgain = true })}, map[string]string{
			"isolated-cpus=only":   "no kubelet has the option isolated-cpus, and one decides on isolated",
			"isolated-cpus=prefer": "no kubelet has the option isolated-cpus, and one decides on isolated",
		}},
	} {
		all, err := Try(t.Context(), c.kinds, nil, fleet.LeastStranded, func(ctx context.Context, kinds []Kind, scoring fleet.Scoring) (*Result, error) {
			return Fit(ctx, kinds, []Item{item("a", 4, 9)}, Options{Scoring: scoring})
		})
		if err != nil || len(all) != NumTrials(c.kinds, nil) {
			t.Fatalf("%s: %d trials, want %d: %v", name, len(all), NumTrials(c.kinds, nil), err)
		}
		got := map[string]string{}
		for _, trial := range all {
			if strings.Contains(trial.Option, "isolated") {
				if got[trial.Option] = trial.Wrong; trial.Wrong == "" {
					got[trial.Option] = strconv.FormatInt(trial.Result.Placed, 10)
				}
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// isolated returns a kind of one node with isolated CPUs and a changed policy.
func isolated(t failer, policy func(p *node.Policy)) Kind {
	t.Helper()
	k := kind(t, 1)
	p := k.State.Policy()
	policy(&p)
	s, err := node.New(scenario.Machine("sockets=2 cores=8 uncore=8 memory=32Gi isolated=4-7,12-15"), p)
	if err != nil {
		t.Fatal(err)
	}
	k.State, k.Name = s, "isolated"
	return k
}

// TestTryCaches checks that the option of the caches is tried if a pod asks for a part of them and
// every machine can divide its caches, and only then.
func TestTryCaches(t *testing.T) {
	s, err := node.New(classtest.Machine(t), classtest.Policy())
	if err != nil {
		t.Fatal(err)
	}
	p := classtest.Policy()
	p.CPU.DividesCaches = false
	off, err := node.New(classtest.Machine(t), p)
	if err != nil {
		t.Fatal(err)
	}
	allocatable := fleet.Amounts{Milli: 30_000, Memory: 1 << 40, Pods: 100}
	divides, not := Kind{Name: "divides", Count: 1, State: s, Allocatable: allocatable}, Kind{Name: "off", Count: 1, State: off, Allocatable: allocatable}
	asks := Item{Name: "db", Pod: fleet.Pod{Pod: classtest.Pods()[0], Asks: fleet.Amounts{Milli: 4000, Pods: 1}}, Count: 6}
	for name, c := range map[string]struct {
		kinds  []Kind
		item   Item
		option string
		placed int64 // under that option, of 6 pods with 4 of 9 ways each
	}{
		"on":                {[]Kind{divides}, asks, "cache-allocation=false", 6},
		"off":               {[]Kind{not}, asks, "cache-allocation=true", 4},
		"another machine":   {[]Kind{divides, kind(t, 2)}, asks, "", 0},
		"pods that ask not": {[]Kind{divides}, item("a", 5, 4), "", 0},
		"a machine without": {[]Kind{kind(t, 2)}, asks, "", 0},
	} {
		items := []Item{c.item}
		all, err := Try(t.Context(), c.kinds, items, fleet.LeastStranded, func(ctx context.Context, kinds []Kind, scoring fleet.Scoring) (*Result, error) {
			return Fit(ctx, kinds, items, Options{Scoring: scoring})
		})
		if err != nil || len(all) != NumTrials(c.kinds, items) || (NumTrials(c.kinds, items) > NumTrials(c.kinds, nil)) != (c.option != "") {
			t.Errorf("%s: %d trials, %v", name, len(all), err)
		}
		found := ""
		for _, trial := range all {
			if strings.HasPrefix(trial.Option, "cache-allocation") {
				found = trial.Option
				if trial.Result.Placed != c.placed {
					t.Errorf("%s: %d pods are placed with %s", name, trial.Result.Placed, trial.Option)
				}
			}
		}
		if found != c.option {
			t.Errorf("%s: %q is tried, want %q", name, found, c.option)
		}
	}
}
