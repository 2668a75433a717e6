package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/e2e/tally"
)

var (
	observedDecisions = flag.Int("observed", 0, "observe kubelets until the results have so many decisions, and play no page")
	observedMinors    = flag.String("observed-minors", "1.34 1.37", "the minor versions of these kubelets")
	observedResults   = flag.String("observed-results", "", "the `file` to which results are appended")
)

// TestObserved lets kubelets decide about random pods while the agent observes, with the same number
// of decisions for each minor version. It goes on where an earlier run ended.
func TestObserved(t *testing.T) {
	if *observedDecisions == 0 {
		t.Skip("kubelets are observed with -observed")
	}
	if *observedResults == "" {
		t.Fatal("-observed-results: expected the name of a file")
	}
	all, err := tally.Read(*observedResults)
	if err != nil {
		t.Fatal(err)
	}
	minors := strings.Fields(*observedMinors)
	r := newPlainRig(t)
	share := (*observedDecisions + len(minors) - 1) / len(minors)
	for _, minor := range minors {
		group, err := r.withKubelet(t.Context(), minor, observedMachine)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(minor, func(t *testing.T) { group.observeAll(t, minor, share, &all) })
	}
	if err := errors.Join(tally.Report(os.Stdout, all), predictable(all)); err != nil {
		t.Error(err)
	}
}

const (
	observedMachine = "2numa"
	// observedLength is how many decisions a history has: few, because another configuration shows
	// more than more pods.
	observedLength = 5
)

// observeAll plays histories on one node until a minor has its share of the decisions. If the
// emulator fails, it goes on with a new node.
func (r *rig) observeAll(t *testing.T, minor string, share int, all *[]tally.Result) {
	var w *whole
	defer func() {
		if w != nil {
			if err := w.close(); err != nil {
				t.Error(err)
			}
		}
	}()
	of := func() (of []tally.Result) {
		for _, r := range *all {
			if r.Minor == minor {
				of = append(of, r)
			}
		}
		return of
	}
	failed := 0
	for seed := uint64(troubleSeed); tally.Decisions(of()) < share; seed++ {
		if tally.Has(*all, minor, seed) {
			continue
		}
		for {
			result, err := r.observeOne(t.Context(), &w, history{minor: minor, seed: seed, decisions: observedLength})
			if err == nil {
				err = tally.Append(*observedResults, result)
				*all = append(*all, result)
			}
			if err == nil {
				break
			}
			logs := filepath.Join(*keep, "observed", minor)
			fault := w.fault(t.Context(), err)
			err = errors.Join(err, w.saveLogs(logs), w.close())
			w = nil
			if failed++; fault == nil || failed > 3 {
				t.Fatalf("seed %d: %v\nlogs are in %s", seed, err, logs)
			}
			say("seed %d: %v: once more on a new machine: %v", seed, fault, err)
		}
	}
}

// observeOne plays a history, on a new node if there is none.
func (r *rig) observeOne(ctx context.Context, w **whole, h history) (result tally.Result, err error) {
	if *w == nil {
		if *w, err = r.newWhole(ctx); err != nil {
			return result, err
		}
		if err := (*w).node.admitObserver(ctx); err != nil {
			return result, err
		}
	}
	if h.seed == troubleSeed {
		result, err = (*w).node.troubled(ctx, h.minor)
	} else {
		result, err = (*w).node.observe(ctx, h)
	}
	say("kubelet %s seed %d, %s: %.0f s: %v", h.minor, h.seed, result.Kind, result.Seconds, err)
	if err == nil && h.seed != troubleSeed && result.AsPredicted() < result.Decisions {
		logs := filepath.Join(*keep, "observed", fmt.Sprintf("%s-%d", h.minor, h.seed))
		say("not everything is as predicted: logs are in %s", logs)
		err = (*w).saveLogs(logs)
	}
	return result, err
}

// TestConfigurations checks that sixteen seeds have all configurations, and four every value.
func TestConfigurations(t *testing.T) {
	var all []string
	for seed := range uint64(16) {
		topology, scope, memory := history{seed: seed}.configuration()
		all = append(all, topology+scope+memory)
	}
	distinct := slices.Clone(all)
	slices.Sort(distinct)
	if distinct = slices.Compact(distinct); len(distinct) != len(all) {
		t.Errorf("16 seeds have %d configurations: %q", len(distinct), all)
	}
	for first := range 13 {
		four := strings.Join(all[first:first+4], " ")
		for _, value := range slices.Concat(topologies, scopes, memories) {
			if !strings.Contains(four, value) {
				t.Errorf("seeds %d to %d have no %s: %s", first, first+3, value, four)
			}
		}
	}
}

// TestRandomPods checks what is known of random pods against their specs, and that all shapes occur.
func TestRandomPods(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for i := range 500 {
		p := randomPod(r, fmt.Sprintf("pod-%d", i))
		data, err := json.Marshal(p.spec)
		if err != nil {
			t.Fatal(err)
		}
		var spec v1.PodSpec
		if err := json.Unmarshal(data, &spec); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		guaranteed, exclusive := true, false
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			cpu, limited := c.Resources.Limits[v1.ResourceCPU]
			guaranteed = guaranteed && limited
			exclusive = exclusive || limited && cpu.MilliValue()%1000 == 0
		}
		if p.guaranteed != guaranteed || p.exclusive != (guaranteed && exclusive) {
			t.Errorf("guaranteed %v, exclusive %v: %s", p.guaranteed, p.exclusive, data)
		}
		if p.ends && (len(spec.Containers) > 1 || spec.RestartPolicy != v1.RestartPolicyNever) {
			t.Errorf("ends, but has other containers or starts again: %s", data)
		}
		seen[fmt.Sprintf("%d init containers", len(spec.InitContainers))]++
		seen[fmt.Sprintf("%d containers", len(spec.Containers))]++
		seen[fmt.Sprintf("guaranteed %v", p.guaranteed)]++
		seen[fmt.Sprintf("own %v", p.own("None"))]++
	}
	for _, what := range []string{"0 init containers", "1 init containers", "2 containers", "guaranteed false", "own false", "own true"} {
		if seen[what] < 10 {
			t.Errorf("of 500 pods, %d have %s", seen[what], what)
		}
	}
}

// TestPredictable checks that troubles and decisions that differ do not count as not predicted.
func TestPredictable(t *testing.T) {
	result := func(seed uint64, decisions, predicted, differ int) tally.Result {
		return tally.Result{Seed: seed, Decisions: decisions, Admissions: view.TrustCount{AsPredicted: predicted, Differ: differ}}
	}
	for _, c := range []struct {
		all  []tally.Result
		want string
	}{
		{[]tally.Result{result(1, 5, 4, 0), result(2, 5, 5, 0), result(troubleSeed, 3, 0, 0)}, ""},
		{[]tally.Result{result(1, 5, 3, 2)}, ""},
		{[]tally.Result{result(1, 5, 4, 0), result(2, 5, 4, 0)}, "2 of 10 decisions had no prediction, expected at most 1 %"},
		{[]tally.Result{result(1, 200, 198, 0)}, ""},
		{[]tally.Result{result(1, 200, 197, 0)}, "3 of 200 decisions had no prediction, expected at most 1 %"},
	} {
		if err := predictable(c.all); fmt.Sprint(err) != cmp.Or(c.want, "<nil>") {
			t.Errorf("%v: %v, want %q", c.all, err, c.want)
		}
	}
}
