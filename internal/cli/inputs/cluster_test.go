package inputs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

// someCluster has nodes with 8 CPUs on two NUMA nodes. CPU 0 is reserved.
type someCluster struct {
	t *testing.T
	*clustertest.Kind
	items []any
}

func newCluster(t *testing.T) *someCluster {
	t.Helper()
	k := clustertest.New(t, 4)
	return &someCluster{t: t, Kind: k, items: []any{k.Object}}
}

// node adds a node. The functions can change the Node and its PaddockNode.
func (c *someCluster) node(name string, change ...func(*v1.Node, *v1alpha1.PaddockNode)) {
	o, p := c.Node(name)
	for _, f := range change {
		f(o, p)
	}
	c.items = append(c.items, o, p)
}

// pod adds a pod that requests cpus. If at is not empty, the pod is bound to that node. If own is
// not empty, the pod's annotation assigns these CPUs.
func (c *someCluster) pod(name, at, cpus string, own cpuset.Set, change ...func(*v1.Pod)) {
	c.t.Helper()
	pod := clustertest.Pod(name, at, cpus)
	for _, f := range change {
		f(pod)
	}
	if !own.IsEmpty() {
		c.Hand(c.t, pod, own)
	}
	c.items = append(c.items, pod)
}

// write writes a file in the format of kubectl get -o json.
func (c *someCluster) write() string {
	c.t.Helper()
	data, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": c.items}, "", "    ")
	if err != nil {
		c.t.Fatal(err)
	}
	name := filepath.Join(c.t.TempDir(), "cluster.json")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		c.t.Fatal(err)
	}
	return name
}

func (c *someCluster) read() *inputs.FleetNodes {
	c.t.Helper()
	nodes, err := inputs.Reader{Names: inputs.Flags}.Fleet(c.write())
	if err != nil {
		c.t.Fatal(err)
	}
	return nodes
}

// TestCluster checks nodes with their pods, the CPUs of an annotation, a pod without a node, and
// that the pod is placed as the node alone would place it.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.node("n2")
	c.pod("handed", "n1", "2", cpuset.Of(6, 7))
	c.pod("other", "n1", "3", cpuset.Set{})
	c.pod("ended", "n2", "4", cpuset.Set{}, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	c.pod("waits", "", "4", cpuset.Set{})
	c.pod("selects", "", "2", cpuset.Set{}, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"} })
	c.pod("shared", "n1", "500m", cpuset.Set{})
	nodes := c.read()
	if len(nodes.Kinds) != 2 || nodes.Kinds[0].Group != "metal" || nodes.Zones()["n2"] != "zone-n2" || len(nodes.Notes) != 0 {
		t.Fatalf("kinds %v, zones %v, notes %v", nodes.Kinds, nodes.Zones(), nodes.Notes)
	}
	first := nodes.Kinds[0]
	if got := first.Used; got.Milli != 5500 || got.Pods != 3 || got.Memory != 3<<30 {
		t.Errorf("the pods of n1 request %+v", got)
	}
	g, _ := first.State.Grant("uid-handed")
	other, known := first.State.Grant("uid-other")
	if g == nil || g.CPUs().String() != "6-7" || !known || other.CPUs().String() != "1-3" {
		t.Fatalf("handed has %v, other has %v", g, other)
	}
	waiting, err := nodes.Waiting()
	if err != nil || len(waiting) != 2 {
		t.Fatal(waiting, err)
	}
	var items []capacity.Item
	for _, p := range waiting {
		items = append(items, capacity.Item{Name: p.ID(), Pod: p, Count: 1})
	}
	r, err := capacity.Fit(t.Context(), nodes.Kinds, items, capacity.Options{Placements: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "[default/waits:n2:4-7 default/selects::]" // selects fits nowhere: n1 has NUMA nodes with 0 and 2 free CPUs, and 1.5 CPUs allocatable.
	var got []string
	for _, p := range r.Placements {
		cpus := ""
		if p.Grant != nil {
			cpus = p.Grant.CPUs().String()
		}
		got = append(got, p.Pod+":"+p.Node+":"+cpus)
	}
	if fmt.Sprint(got) != want {
		t.Errorf("placed %v, want %s", got, want)
	}
	if len(r.Kinds) != 1 || r.Kinds[0].Name != "metal" || r.Kinds[0].Nodes != 2 {
		t.Errorf("kinds %+v", r.Kinds)
	}
}

// TestClusterEmpty checks that the nodes of a cluster without their pods are one kind, and that the
// pods are placed again.
func TestClusterEmpty(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.node("n2")
	c.pod("a", "n1", "3", cpuset.Set{})
	nodes := c.read()
	kinds, err := nodes.Empty()
	if err != nil || len(kinds) != 1 || kinds[0].Count != 2 || len(kinds[0].State.Grants()) != 0 || kinds[0].Used.Pods != 0 {
		t.Fatalf("%+v %v", kinds, err)
	}
	if bound, err := nodes.Bound(); err != nil || len(bound) != 1 || bound[0].ID() != "default/a" {
		t.Errorf("%v %v", bound, err)
	}
}

// TestClusterLeftOut checks that nodes that cannot be planned for are left out with the reason, and
// that nothing else is affected.
func TestClusterLeftOut(t *testing.T) {
	c := newCluster(t)
	c.node("good")
	c.node("aside", func(_ *v1.Node, p *v1alpha1.PaddockNode) {
		p.Status.Conditions[0].Status, p.Status.Summary.Condition = metav1.ConditionFalse, "standing aside"
	})
	c.node("large", func(_ *v1.Node, p *v1alpha1.PaddockNode) { p.Status.Conditions[1].Status = metav1.ConditionFalse })
	c.node("newer", func(_ *v1.Node, p *v1alpha1.PaddockNode) { p.Status.PolicyDigest = strings.Repeat("0", 64) })
	c.node("lost", func(_ *v1.Node, p *v1alpha1.PaddockNode) { p.Status.Machine = strings.Repeat("1", 64) })
	c.node("foreign", func(_ *v1.Node, p *v1alpha1.PaddockNode) { p.Name = "elsewhere" })
	c.pod("p", "aside", "2", cpuset.Set{})
	nodes := c.read()
	if len(nodes.Kinds) != 1 || nodes.Kinds[0].Name != "good" {
		t.Fatalf("kinds %+v", nodes.Kinds)
	}
	notes := strings.Join(nodes.Notes, "\n")
	for _, want := range []string{
		"node aside is left out: its agent does not decide about pods (standing aside)", "node large is left out: its PaddockNode has not everything",
		"node newer is left out: PaddockNode newer: its policy has the digest", "node lost is left out: PaddockNode lost: PaddockMachine 1111", "node foreign is left out: it has no PaddockNode",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in\n%s", want, notes)
		}
	}
}

// TestClusterRejections checks that the rejections of nodes are summed by group, class and cause.
func TestClusterRejections(t *testing.T) {
	c := newCluster(t)
	counts := func(n ...v1alpha1.RejectionCount) func(*v1.Node, *v1alpha1.PaddockNode) {
		return func(_ *v1.Node, p *v1alpha1.PaddockNode) { p.Status.Rejections.Counts = n }
	}
	large := v1alpha1.RejectionCount{Class: "6 CPUs", Cause: "no NUMA node has as much", Count: 3}
	c.node("n1", counts(large, v1alpha1.RejectionCount{Class: "1 CPU", Cause: "x", Count: 1}))
	c.node("n2", counts(large))
	c.node("aside", counts(large), func(_ *v1.Node, p *v1alpha1.PaddockNode) { p.Status.Conditions[0].Status = metav1.ConditionFalse })
	want := []clusterstate.Rejections{{Group: "metal", Class: "6 CPUs", Cause: "no NUMA node has as much", Pods: 9, Nodes: 3}, {Group: "metal", Class: "1 CPU", Cause: "x", Pods: 1, Nodes: 1}}
	if got := c.read().Rejections; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestClusterErrors checks that input that is not a cluster causes an error with what is expected.
func TestClusterErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no nodes":     `{"kind": "List", "apiVersion": "v1", "items": []}`,
		"a bad node":   `{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": 7}}]}`,
		"a cut object": `{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1"`,
	} {
		file := filepath.Join(t.TempDir(), "cluster.json")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if nodes, err := (inputs.Reader{Names: inputs.Flags}).Fleet(file); err == nil || nodes != nil || !strings.Contains(err.Error(), "cluster.json") {
			t.Errorf("%s: %v, %v", name, nodes, err)
		}
	}
}

// TestLargeCluster checks that a cluster file larger than the limit for files of kinds is read to
// its end, and that no byte is lost at the boundary.
func TestLargeCluster(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	small, err := os.ReadFile(c.write())
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(small), `"items": [`)
	other := fmt.Sprintf("\n{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\", \"data\": {\"x\": %q}},", strings.Repeat("x", 1<<20))
	before += `"items": [` + strings.Repeat(other, 63)
	after = strings.TrimSpace(after)
	space := strings.Repeat(" ", inputs.MaxFile-len(before)-strings.Index(after, `"`)) // The first quote is at the boundary.
	nodes, err := inputs.Reader{Names: inputs.Flags, Stdin: io.MultiReader(strings.NewReader(before+space), strings.NewReader(after))}.Fleet("-")
	if err != nil || len(nodes.Kinds) != 1 {
		t.Fatalf("%v, %+v", err, nodes)
	}
}
