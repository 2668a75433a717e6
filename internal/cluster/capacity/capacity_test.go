package capacity

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const gib = 1 << 30

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// kind returns nodes with two NUMA nodes of 8 CPUs and 32 GiB each. CPU 0 and 1 GiB are reserved.
func kind(t failer, count int) Kind {
	t.Helper()
	m := scenario.Machine("sockets=2 cores=8 uncore=8 memory=32Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Kind{Name: "n", Count: count, State: s, Allocatable: fleet.Amounts{Milli: 15_000, Memory: 63 * gib, Pods: fleet.DefaultPods}}
}

func item(name string, cpus int, count int64) Item {
	milli := int64(cpus) * 1000
	return Item{Name: name, Count: count, Pod: fleet.Pod{
		Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
			Name: "c", Type: request.App, CPUs: cpus, Equivalent: true, CPURequest: milli, CPULimit: milli,
			Memory: request.Amounts{{Resource: request.Memory, Value: gib}},
		}}}},
		Asks: fleet.Amounts{Milli: milli, Memory: gib, Pods: 1},
	}}
}

// TestNever checks that only those pods never fit that an empty node would reject, whatever
// others were rejected for the same reason.
func TestNever(t *testing.T) {
	r, err := Fit(t.Context(), []Kind{kind(t, 1)}, []Item{item("wide", 9, 1), item("many", 5, 3)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed != 2 || r.Rejected != 2 || len(r.Causes) != 1 || r.Never != 1 {
		t.Errorf("placed %d, rejected %d for %d reasons, of which %d never fit; expected 2, 2 for 1 reason, 1", r.Placed, r.Rejected, len(r.Causes), r.Never)
	}
}

// TestOneNodeIsAPlan checks that, with one node, the answer is that of planning pod after pod.
func TestOneNodeIsAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kind(t, 1)
		var items []Item
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			items = append(items, item(fmt.Sprint("p", i), rapid.IntRange(1, 8).Draw(t, "cpus"), 1))
		}
		r, err := Fit(t.Context(), []Kind{k}, items, Options{Placements: true})
		if err != nil {
			t.Fatal(err)
		}
		state, milli := k.State, int64(0)
		for i, it := range items {
			plan := state.Plan(it.Pod.Pod)
			admitted := plan.Grant != nil && milli+it.Pod.Asks.Milli <= k.Allocatable.Milli
			got := r.Placements[i]
			if got.Pod != it.Pod.ID() || (got.Node == "n") != admitted {
				t.Fatalf("pod %d is on %q, admitted by the plan: %t", i, got.Node, admitted)
			}
			if !admitted {
				continue
			}
			milli += it.Pod.Asks.Milli
			if !got.Grant.CPUs().Equal(plan.Grant.CPUs()) {
				t.Fatalf("pod %d has CPUs %s, the plan gives %s", i, got.Grant.CPUs(), plan.Grant.CPUs())
			}
			if state, err = state.Apply(plan); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSize checks that the number of nodes takes all pods, that one node fewer does not, and that
// the number is not below the lower bound.
func TestSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []Item
		for i := range rapid.IntRange(1, 4).Draw(t, "shapes") {
			items = append(items, item(fmt.Sprint("p", i), rapid.IntRange(1, 8).Draw(t, "cpus"), rapid.Int64Range(1, 12).Draw(t, "count")))
		}
		r, err := Size(t.Context(), kind(t, 0), items, 200, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if least := sumsBound(kind(t, 0), items); r.Rejected != 0 || r.Nodes < least {
			t.Fatalf("%d nodes, %d rejected, lower bound %d", r.Nodes, r.Rejected, least)
		}
		if r.Nodes == 1 {
			return
		}
		if less, err := Fit(t.Context(), []Kind{kind(t, r.Nodes-1)}, items, Options{}); err != nil || less.Rejected == 0 {
			t.Fatalf("%d nodes do as well: %v", r.Nodes-1, err)
		}
	})
}

// TestSizeOfWhatNeverFits checks that a pod that is larger than a NUMA node needs another kind of
// node instead of more nodes: the number is that for the other pods.
func TestSizeOfWhatNeverFits(t *testing.T) {
	r, err := Size(t.Context(), kind(t, 0), []Item{item("large", 12, 3)}, 10, Options{})
	if !errors.Is(err, ErrNever) || r.Rejected != 3 || r.Nodes != 0 || len(r.Causes) != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
	small := item("small", 7, 5)
	r, err = Size(t.Context(), kind(t, 0), []Item{small, item("large", 12, 3)}, 10, Options{})
	if !errors.Is(err, ErrNever) || errors.Is(err, ErrTooFew) || r.Rejected != 3 || r.LeftOut != 3 || r.Never != 3 || r.Placed != 5 || r.Asked != 8 || r.AskedMilli != 71_000 || r.NeverMilli != 36_000 || len(r.Causes) != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
	if alone, err := Size(t.Context(), kind(t, 0), []Item{small}, 10, Options{}); err != nil || alone.Nodes != r.Nodes || alone.LowerBound != r.LowerBound {
		t.Fatalf("%d nodes without the pods that never fit, %d with them: %v", alone.Nodes, r.Nodes, err)
	}
	m, err := SizeMix(t.Context(), []Kind{named(kind(t, 0), "a"), named(kind(t, 0), "b")}, []float64{1, 2}, []Item{small, item("large", 12, 3)}, 10, Options{})
	if !errors.Is(err, ErrNever) || m.Result.LeftOut != 3 || m.Counts[0] != r.Nodes {
		t.Fatalf("%v, %+v", err, m)
	}
	r, err = Size(t.Context(), kind(t, 0), []Item{item("many", 8, 30), item("large", 12, 3)}, 10, Options{})
	if !errors.Is(err, ErrNever) || !errors.Is(err, ErrTooFew) || r.Nodes != 10 || r.Rejected != 23 || r.LeftOut != 3 {
		t.Fatalf("%v, %+v", err, r)
	}
	r, _ = Size(t.Context(), kind(t, 0), []Item{item("large", 12, 3)}, 10, Options{})
	if got := Text(r.Causes[0].Nearest); got != "TopologyAffinityError (cpu)" || r.Causes[0].Pods != 3 {
		t.Errorf("%d pods: %s", r.Causes[0].Pods, got)
	}
	r, err = Size(t.Context(), kind(t, 0), []Item{item("many", 8, 30)}, 10, Options{})
	if !errors.Is(err, ErrTooFew) || r.Nodes != 10 || r.Placed != 10 {
		t.Fatalf("%v, %+v", err, r)
	}
}

// TestFill checks that Fill ends when nothing fits, that the same seed gives the same result, and
// that another seed gives another result.
func TestFill(t *testing.T) {
	fill := func(seed uint64) *Result {
		r, err := Fill(t.Context(), []Kind{kind(t, 5)}, []Item{item("a", 2, 3), item("b", 5, 1)}, 0, seed, Options{Placements: true})
		if err != nil {
			t.Fatal(err)
		}
		r.Fleet = nil
		return r
	}
	one, two := fill(1), fill(1)
	if !reflect.DeepEqual(one, two) {
		t.Error("the same seed gives another answer")
	}
	if reflect.DeepEqual(one.Placements, fill(2).Placements) {
		t.Error("another seed gives the same pods")
	}
	if one.Rejected != 2 || one.PlacedMilli < 65_000 {
		t.Errorf("%d rejected, %d placed; each shape is tried until it fits nowhere", one.Rejected, one.PlacedMilli)
	}
	if _, err := Fill(t.Context(), []Kind{kind(t, 5)}, []Item{item("a", 2, 1)}, 0, 1, Options{drawn: 7}); !errors.Is(err, ErrEndless) {
		t.Errorf("without a limit: %v", err)
	}
	if r, err := Fill(t.Context(), []Kind{kind(t, 5)}, []Item{item("a", 2, 1)}, 7, 1, Options{drawn: 7}); err != nil || r.Placed != 7 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNothing checks that a fleet without nodes and a question without pods are errors.
func TestNothing(t *testing.T) {
	if _, err := Fit(t.Context(), nil, []Item{item("a", 1, 1)}, Options{}); !errors.Is(err, ErrNoNodes) {
		t.Error(err)
	}
	if r, err := Fit(t.Context(), []Kind{kind(t, 1)}, nil, Options{}); err != nil || r.Nodes != 1 || r.Asked != 0 {
		t.Errorf("without pods: %+v, %v", r, err)
	}
	for _, items := range [][]Item{nil, {item("a", 1, 0)}} {
		if _, err := Size(t.Context(), kind(t, 1), items, 1, Options{}); !errors.Is(err, ErrNoPods) {
			t.Error(err)
		}
		if _, err := SizeMix(t.Context(), []Kind{kind(t, 1), kind(t, 1)}, []float64{1, 2}, items, 10, Options{}); !errors.Is(err, ErrNoPods) {
			t.Error(err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fit(cancelled, []Kind{kind(t, 1)}, []Item{item("a", 1, 1)}, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
