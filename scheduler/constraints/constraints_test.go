package constraints

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestAsIfAskedWithoutMemory checks that a class judges every node like plugins that see all nodes
// and pods for the first time, whatever was placed and asked before.
func TestAsIfAskedWithoutMemory(t *testing.T) {
	namespaces := map[string]map[string]string{"two": {"team": "red"}}
	rapid.Check(t, func(t *rapid.T) {
		places := drawPlaces(t)
		pods := make([]*v1.Pod, rapid.IntRange(2, 6).Draw(t, "classes"))
		for i := range pods {
			pods[i] = drawPod(t)
		}
		for i := range places {
			if rapid.IntRange(0, 3).Draw(t, "has a pod") == 0 {
				pod := rapid.SampledFrom(pods).Draw(t, "which")
				places[i].Pods = append(places[i].Pods, inputs.Peer{Name: fmt.Sprint("first/", i), Object: pod})
			}
		}
		rules, err := New(t.Context(), clone(places), namespaces)
		if err != nil {
			t.Fatal(err)
		}
		for step := range rapid.IntRange(1, 20).Draw(t, "steps") {
			object := rapid.SampledFrom(pods).Draw(t, "pod")
			pod := fleet.Pod{Pod: request.Pod{Identity: request.Identity{Namespace: "default", Name: fmt.Sprint("p", step)}}, Origin: object}
			compare(t, rules, &pod, dumb(t, t.Context(), object, clone(places), namespaces), places)
			at := rapid.IntRange(0, len(places)-1).Draw(t, "at") // Barred or not.
			if err := rules.Placed(&pod, &fleet.Node{Name: places[at].Object.Name}); err != nil {
				t.Fatal(err)
			}
			places[at].Pods = append(places[at].Pods, inputs.Peer{Name: pod.ID(), Object: object})
		}
	})
}

// compare asks the rules about every place. It also checks that each reason is explained, except
// for topology spread constraints that keep the pod away only in combination.
func compare(t *rapid.T, rules fleet.Rules, pod *fleet.Pod, want []string, places []inputs.Place) {
	rule, err := rules.For(pod)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range places {
		n, got, detail := &fleet.Node{Name: p.Object.Name}, "", ""
		if rule != nil {
			if got, err = rule.Bars(n); err != nil {
				t.Fatal(err)
			}
			detail, _ = rule.Explain(n)
		}
		if got != want[i] || (got == "") != (detail == "") && got != words[podtopologyspread.ErrReasonConstraintsNotMatch] {
			t.Fatalf("pod %s on node %s: %q (%s), want %q", pod.ID(), n.Name, got, detail, want[i])
		}
	}
}

// dumb returns what bars a pod from each place. It shows all nodes and all pods to both plugins.
func dumb(t *rapid.T, ctx context.Context, pod *v1.Pod, places []inputs.Place, namespaces map[string]map[string]string) []string { //nolint:revive // t is first in tests.
	rules, err := New(ctx, places, namespaces)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := rules.(*Constraints)
	if !ok {
		t.Fatalf("%T", rules)
	}
	if err := c.namespace(pod.Namespace, nil); err != nil {
		t.Fatal(err)
	}
	pod = merged(pod)
	whole := class{of: c, pod: pod}
	if whole.spread, err = c.preFilter(c.spread, pod, c.handle.nodes.nodes); err != nil {
		t.Fatal(err)
	}
	if whole.affinity, err = c.preFilter(c.affinity, pod, c.handle.nodes.nodes); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(places))
	for i, p := range places {
		if out[i], err = whole.Bars(&fleet.Node{Name: p.Object.Name}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func clone(places []inputs.Place) []inputs.Place {
	out := slices.Clone(places)
	for i := range out {
		out[i].Pods = slices.Clone(out[i].Pods)
	}
	return out
}

func drawPlaces(t *rapid.T) []inputs.Place {
	places := make([]inputs.Place, rapid.IntRange(1, 8).Draw(t, "nodes"))
	for i := range places {
		o := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{v1.LabelHostname: fmt.Sprint("n", i)}}}
		for key, values := range map[string][]string{v1.LabelTopologyZone: {"a", "b", "c", ""}, "disk": {"fast", ""}} {
			if value := rapid.SampledFrom(values).Draw(t, key); value != "" {
				o.Labels[key] = value
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "taint") == 0 {
			o.Spec.Taints = []v1.Taint{{Key: "edge", Effect: v1.TaintEffectNoSchedule}}
		}
		places[i].Object = o
	}
	return places
}

// drawPod draws labels and constraints. It uses few values, so that matches are frequent.
func drawPod(t *rapid.T) *v1.Pod {
	app := func() map[string]string {
		return map[string]string{"app": rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app")}
	}
	key := func() string {
		return rapid.SampledFrom([]string{v1.LabelTopologyZone, v1.LabelHostname, "disk"}).Draw(t, "key")
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rapid.SampledFrom([]string{"default", "default", "two"}).Draw(t, "namespace"), Labels: app()}}
	for range rapid.IntRange(0, 2).Draw(t, "constraints") {
		c := v1.TopologySpreadConstraint{
			MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, "skew")), TopologyKey: key(), LabelSelector: &metav1.LabelSelector{MatchLabels: app()},
			WhenUnsatisfiable: rapid.SampledFrom([]v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.DoNotSchedule, v1.ScheduleAnyway}).Draw(t, "else"),
		}
		policy := func(name string) *v1.NodeInclusionPolicy {
			return rapid.SampledFrom([]*v1.NodeInclusionPolicy{nil, new(v1.NodeInclusionPolicyHonor), new(v1.NodeInclusionPolicyIgnore)}).Draw(t, name)
		}
		c.NodeAffinityPolicy, c.NodeTaintsPolicy = policy("affinity policy"), policy("taints policy")
		if rapid.IntRange(0, 3).Draw(t, "min domains") == 0 {
			c.MinDomains = new(int32(rapid.IntRange(1, 3).Draw(t, "domains")))
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
	term := func(name string) []v1.PodAffinityTerm {
		if rapid.IntRange(0, 3).Draw(t, name) > 0 {
			return nil
		}
		out := v1.PodAffinityTerm{TopologyKey: key(), LabelSelector: &metav1.LabelSelector{MatchLabels: app()}}
		switch rapid.IntRange(0, 5).Draw(t, "namespaces") {
		case 0:
			out.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
		case 1:
			out.NamespaceSelector = &metav1.LabelSelector{}
		case 2:
			out.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: "default"}}
		case 3:
			out.MatchLabelKeys = []string{"app"}
		}
		return []v1.PodAffinityTerm{out}
	}
	pod.Spec.Affinity = &v1.Affinity{
		PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("near")},
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("far")},
	}
	if rapid.IntRange(0, 4).Draw(t, "selector") == 0 {
		pod.Spec.NodeSelector = map[string]string{"disk": "fast"}
	}
	return pod
}
