package constraints

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestWithoutConstraintsNothingChanges checks that pods without constraints are placed and rejected
// as without rules, on nodes whose pods keep none of them away.
func TestWithoutConstraintsNothingChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []capacity.Kind{kind(t, "a", rapid.IntRange(1, 3).Draw(t, "a")), kind(t, "b", rapid.IntRange(0, 3).Draw(t, "b"))}
		var items []capacity.Item
		for i := range rapid.IntRange(1, 8).Draw(t, "items") {
			items = append(items, item(fmt.Sprint("i", i), rapid.IntRange(0, 8).Draw(t, "cpus"), int64(rapid.IntRange(1, 5).Draw(t, "count"))))
		}
		plain := capacity.Options{Placements: true, Scoring: fleet.Scoring(rapid.IntRange(0, 2).Draw(t, "scoring"))}
		ruled := plain
		keeper := rapid.Bool().Draw(t, "keeper")
		ruled.Rules = func(nodes []fleet.Node) (fleet.Rules, error) { return rulesOf(t.Context(), nodes, keeper) }
		fill, seed := rapid.Bool().Draw(t, "fill"), rapid.Uint64().Draw(t, "seed")
		ask := func(o capacity.Options) *capacity.Result {
			r, err := capacity.Fit(t.Context(), kinds, items, o)
			if fill {
				r, err = capacity.Fill(t.Context(), kinds, items, 0, seed, o)
			}
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if d := cmp.Diff(summary(ask(plain)), summary(ask(ruled))); d != "" {
			t.Fatal(d)
		}
	})
}

// rulesOf returns the rules for nodes in two zones. With keeper, one zone has a pod that keeps pods
// of another namespace away.
func rulesOf(ctx context.Context, nodes []fleet.Node, keeper bool) (fleet.Rules, error) {
	var places []inputs.Place
	for i, n := range nodes {
		labels := map[string]string{v1.LabelHostname: n.Name, v1.LabelTopologyZone: fmt.Sprint("z", i%2)}
		places = append(places, inputs.Place{Object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels}}})
	}
	if keeper {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}, Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{}}},
		}}}}
		places[0].Pods = []inputs.Peer{{Name: "other/keeper", Object: pod}}
	}
	return New(ctx, places, nil)
}

// summary formats a result as text.
func summary(r *capacity.Result) []string {
	out := []string{fmt.Sprint(r.Asked, r.Placed, r.Rejected, r.PlacedMilli, r.Alignment)}
	for _, k := range r.Kinds {
		out = append(out, fmt.Sprint(k.Name, k.Nodes, k.Pods, k.PlacedMilli, k.Alignment, k.Stranded.Free, k.Stranded.CPUs))
	}
	for _, p := range r.Placements {
		line := p.Pod + " " + p.Node + " " + p.Reason
		if p.Grant != nil {
			line += p.Grant.CPUs().String()
		}
		out = append(out, line)
	}
	for _, c := range r.Causes {
		out = append(out, fmt.Sprint(c.Nearest, c.Pods, c.Nodes, c.Rest, c.Example.ID(), c.Node.Name, c.Detail, c.Remedy))
	}
	return out
}

const gib = 1 << 30

// kind returns count nodes with two NUMA nodes of 4 CPUs and 16 GiB each. CPU 0 is reserved.
func kind(t *rapid.T, name string, count int) capacity.Kind {
	m := scenario.Machine("sockets=2 cores=4 uncore=4 memory=16Gi")
	s, err := node.New(m, node.Policy{Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	return capacity.Kind{Name: name, Count: count, State: s, Allocatable: fleet.Amounts{Milli: 7000, Memory: 32 * gib, Pods: 10}}
}

// item returns count equal pods with one container each. The container has exclusive CPUs unless
// cpus is 0.
func item(name string, cpus int, count int64) capacity.Item {
	milli := int64(cpus) * 1000
	return capacity.Item{Name: name, Count: count, Pod: fleet.Pod{
		Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
			Name: "c", Type: request.App, CPUs: cpus, Equivalent: true, CPURequest: milli, CPULimit: milli,
		}}}},
		Asks:   fleet.Amounts{Milli: milli, Pods: 1},
		Origin: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": name}}},
	}}
}
