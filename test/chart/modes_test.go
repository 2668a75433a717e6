package chart

import (
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

// observing and quieting are the names of the DaemonSets of observing agents and of paddock quiet,
// and of all objects that belong to them.
const (
	observing = "paddock-observe"
	quieting  = "paddock-quiet"
)

// operators maps those of a node affinity to those of a label selector.
var operators = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn: selection.In, v1.NodeSelectorOpNotIn: selection.NotIn,
	v1.NodeSelectorOpExists: selection.Exists, v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// runsOn reports whether the pods of a DaemonSet run on a node with these labels.
func runsOn(t *testing.T, set *appsv1.DaemonSet, of map[string]string) bool {
	t.Helper()
	node := labels.Set{"kubernetes.io/os": "linux"}
	for label, value := range of {
		node[label] = value
	}
	spec := set.Spec.Template.Spec
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(node) {
		return false
	}
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		selector := labels.NewSelector()
		for _, e := range term.MatchExpressions {
			r, err := labels.NewRequirement(e.Key, operators[e.Operator], e.Values)
			if err != nil {
				t.Fatal(err)
			}
			selector = selector.Add(*r)
		}
		if selector.Matches(node) {
			return true
		}
	}
	return false
}

// TestModes checks which agent a node gets by its labels. It is never two.
func TestModes(t *testing.T) {
	const mode, group = "paddock-project.github.io/mode", "paddock-node"
	for _, c := range []struct {
		values string
		labels map[string]string
		want   string
	}{
		{"", nil, observing},
		{"", map[string]string{mode: "observe"}, observing},
		{"", map[string]string{mode: "manage"}, "paddock"},
		{"", map[string]string{group: "true"}, "paddock"},
		{"", map[string]string{group: "true", mode: "manage"}, "paddock"},
		{"", map[string]string{group: "true", mode: "observe"}, observing},
		{"", map[string]string{group: "other"}, ""},
		{"", map[string]string{mode: "off"}, ""},
		{"", map[string]string{"kubernetes.io/os": "windows"}, ""},
		{"groups.yaml", nil, observing},
		{"groups.yaml", map[string]string{mode: "manage"}, "paddock"},
		{"groups.yaml", map[string]string{group: "gpu"}, "paddock-gpu"},
		{"groups.yaml", map[string]string{group: "gpu", mode: "manage"}, "paddock-gpu"},
		{"groups.yaml", map[string]string{group: "gpu", mode: "observe"}, observing},
		{"observe.yaml", nil, ""},
		{"observe.yaml", map[string]string{mode: "observe"}, observing},
		{"no-observation.yaml", map[string]string{mode: "observe"}, ""},
		// Nodes of these groups have no label of Paddock.
		{"only-group.yaml", nil, ""},
		{"only-group.yaml", map[string]string{mode: "observe"}, observing},
	} {
		all, _ := rendered(t, values(t, c.values))
		got := ""
		for _, name := range all.of("DaemonSet") {
			set := as[appsv1.DaemonSet](t, all, "DaemonSet "+name)
			if runsOn(t, &set, c.labels) {
				got += name
			}
		}
		if got != c.want {
			t.Errorf("%s, a node with the labels %v: the agents are %q, want %q", c.values, c.labels, got, c.want)
		}
	}
}

// cluster answers lookups of templates.
type cluster struct{ dynamic.Interface }

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.Resource(appsv1.SchemeGroupVersion.WithResource("daemonsets")), true, nil
}

// upgraded returns the DaemonSet of observing agents after an upgrade, or nil if there is none.
// before is the one in the cluster, or nil.
func upgraded(t *testing.T, before *appsv1.DaemonSet, values map[string]any) *appsv1.DaemonSet {
	t.Helper()
	loaded, err := loader.Load(directory)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "paddock", Namespace: namespace, Revision: 2, IsUpgrade: true}
	all, err := util.ToRenderValues(loaded, values, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	var there []runtime.Object
	if before != nil {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, &unstructured.Unstructured{Object: o})
	}
	files, err := engine.RenderWithClientProvider(loaded, all, cluster{fake.NewSimpleDynamicClient(runtime.NewScheme(), there...)})
	if err != nil {
		t.Fatal(err)
	}
	if text := files["paddock/templates/observe.yaml"]; strings.TrimSpace(text) == "" {
		return nil
	}
	set := as[appsv1.DaemonSet](t, read(t, files["paddock/templates/observe.yaml"]), "DaemonSet "+observing)
	return &set
}

// TestUpgradeKeepsTheNodes checks that an upgrade that does not say which nodes are observed goes
// on as the release before, and that one that says it does that.
func TestUpgradeKeepsTheNodes(t *testing.T) {
	set := func(file string) *appsv1.DaemonSet {
		all, _ := rendered(t, values(t, file))
		s := as[appsv1.DaemonSet](t, all, "DaemonSet "+observing)
		return &s
	}
	for _, c := range []struct {
		name   string
		before *appsv1.DaemonSet
		values string
		want   bool
	}{
		{"a release without observing agents", nil, "", false},
		{"a release that observes all nodes", set(""), "", true},
		{"a release that observes labelled nodes", set("observe.yaml"), "", false},
		{"all nodes from now on", set("observe.yaml"), "observe: {unlabelledNodes: true}", true},
		{"labelled nodes from now on", set(""), "observe: {unlabelledNodes: false}", false},
	} {
		v := map[string]any{}
		if err := yaml.Unmarshal([]byte(c.values), &v); err != nil {
			t.Fatal(err)
		}
		after := upgraded(t, c.before, v)
		if got := runsOn(t, after, nil); got != c.want {
			t.Errorf("%s: a node without a label is observed %t, want %t", c.name, got, c.want)
		}
		if !runsOn(t, after, map[string]string{"paddock-project.github.io/mode": "observe"}) {
			t.Errorf("%s: a node with the label is not observed", c.name)
		}
	}
}

// TestReuseValues checks an upgrade with the values of a release from before there were observing
// agents, as with --reuse-values: nothing is observed.
func TestReuseValues(t *testing.T) {
	if set := upgraded(t, nil, map[string]any{"observe": nil}); set != nil {
		t.Errorf("it has the DaemonSet %s", set.Name)
	}
}
