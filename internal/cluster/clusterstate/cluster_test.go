package clusterstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

func newCluster(k *clustertest.Kind) *clusterstate.Cluster {
	return clusterstate.New(func(string) (*machine.Machine, error) { return k.State.Machine(), nil })
}

func setNode(c *clusterstate.Cluster, k *clustertest.Kind, name string, change ...func(*v1.Node, *v1alpha1.PaddockNode)) {
	o, p := k.Node(name)
	for _, f := range change {
		f(o, p)
	}
	c.SetNode(name, o)
	c.SetPaddock(name, p)
}

// setPod sets a pod, or removes it.
func setPod(t *rapid.T, c *clusterstate.Cluster, name string, pod *v1.Pod) {
	if err := c.SetPod("default/"+name, pod); err != nil {
		t.Fatal(err)
	}
}

// TestHistories checks that, after any history, a cluster shows the same as one that got only the
// last objects, and that unchanged parts are the same values as before.
func TestHistories(t *testing.T) {
	k := clustertest.New(t, 8)
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(k)
		pods, nodes := map[string]*v1.Pod{}, map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "node"))
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				if nodes[name] = rapid.Bool().Draw(t, "there"); nodes[name] {
					setNode(c, k, name)
				} else {
					c.SetNode(name, nil)
					c.SetPaddock(name, nil)
				}
			} else {
				id := fmt.Sprint("p", rapid.IntRange(0, 9).Draw(t, "pod"))
				pod := clustertest.Pod(id, rapid.SampledFrom([]string{"", name}).Draw(t, "at"), rapid.SampledFrom([]string{"500m", "2", "5", "9"}).Draw(t, "cpus"))
				pod.CreationTimestamp = metav1.Unix(int64(1000+len(id)+int(id[1])), 0)
				if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					pod = nil
				}
				pods[id] = pod
				setPod(t, c, id, pod)
			}
			if m := c.Moment(); rapid.Bool().Draw(t, "look") && c.Moment() != m {
				t.Fatal("nothing has changed, and it is another moment")
			}
		}
		fresh := newCluster(k)
		for name, there := range nodes {
			if there {
				setNode(fresh, k, name)
			}
		}
		for id, pod := range pods {
			setPod(t, fresh, id, pod)
		}
		if got, want := text(c.Moment()), text(fresh.Moment()); got != want {
			t.Fatalf("it shows\n%s\nand another one with the same objects\n%s", got, want)
		}
	})
}

// text formats a moment.
func text(m *clusterstate.Moment) string {
	var b strings.Builder
	for _, n := range m.Nodes {
		fmt.Fprintf(&b, "%s %s %+v:", n.Name, n.Group, n.Used)
		for _, g := range n.State.Grants() {
			fmt.Fprintf(&b, " %s %s", g.Pod.ID(), g.CPUs())
		}
		b.WriteByte('\n')
	}
	for _, p := range m.Waiting {
		fmt.Fprintln(&b, "waits", p.Name)
	}
	fmt.Fprintln(&b, m.Problems, m.Notes, m.Strange, m.Pods)
	return b.String()
}

// TestHostile checks objects that no API server stores, or that only a broken one does. They must
// be a problem only of their own node, or count as something that can be calculated with.
func TestHostile(t *testing.T) {
	k := clustertest.New(t, 4)
	c := newCluster(k)
	setNode(c, k, "good")
	for name, change := range map[string]func(*v1.Node, *v1alpha1.PaddockNode){
		"policy": func(_ *v1.Node, p *v1alpha1.PaddockNode) {
			p.Status.Policy = v1alpha1.Policy{ReservedCPUs: "1-999999999"}
		},
		"grant": func(_ *v1.Node, p *v1alpha1.PaddockNode) {
			p.Status.Grants = []v1alpha1.PublishedGrant{{UID: "u", Grant: "{}"}}
		},
		"devices": func(_ *v1.Node, p *v1alpha1.PaddockNode) {
			p.Status.Devices = []v1alpha1.DeviceResource{{Resource: "a.b/c", Devices: []v1alpha1.Device{{ID: "x", NUMANodes: "0-9999999"}}}}
		},
		"amounts": func(o *v1.Node, p *v1alpha1.PaddockNode) {
			o.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("-1"), "memory": resource.MustParse("9e18"), "pods": resource.MustParse("1e18"), "x.y/z": resource.MustParse("-5")}
			p.Status.Rejections.Counts = []v1alpha1.RejectionCount{{Class: "c", Cause: "d", Count: -7}}
		},
	} {
		setNode(c, k, name, change)
	}
	huge := clustertest.Pod("huge", "good", "1")
	for _, list := range []v1.ResourceList{huge.Spec.Containers[0].Resources.Requests, huge.Spec.Containers[0].Resources.Limits} {
		list["memory"] = resource.MustParse("9223372036854775807")
	}
	huge.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("9e18")}
	if err := c.SetPod("default/huge", huge); err != nil {
		t.Fatal(err)
	}
	m := c.Moment()
	var names []string
	for _, n := range m.Nodes {
		names = append(names, n.Name)
	}
	if !slices.Equal(names, []string{"amounts", "good"}) || len(m.Problems) != 3 || m.Rejections[0].Pods != 0 {
		t.Errorf("nodes %v, problems %v, rejections %v", names, m.Problems, m.Rejections)
	}
	if a := m.Nodes[0].Allocatable; a.Milli != 0 || a.Memory != 1<<53 || a.Pods != 1<<53 || len(a.Others) != 0 {
		t.Errorf("allocatable %+v", a)
	}
	if u := m.Nodes[1].Used; u.Pods != 1 || u.Milli < 0 || u.Memory < 0 || len(m.Notes) != 1 {
		t.Errorf("used %+v, notes %v", u, m.Notes)
	}
}

// TestEmpty checks that a node without pods keeps the pods that belong to it.
func TestEmpty(t *testing.T) {
	k := clustertest.New(t, 4)
	c := newCluster(k)
	setNode(c, k, "n1")
	controller := true
	own := clustertest.Pod("daemon", "n1", "1")
	own.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &controller}}
	static := clustertest.Pod("static", "n1", "500m")
	static.Annotations["kubernetes.io/config.mirror"], static.Annotations["kubernetes.io/config.hash"] = "h", "h"
	for _, p := range []*v1.Pod{own, static, clustertest.Pod("web", "n1", "2")} {
		if err := c.SetPod("default/"+p.Name, p); err != nil {
			t.Fatal(err)
		}
	}
	n := c.Moment().Nodes[0]
	k2, err := n.Empty()
	if err != nil || k2.Used.Milli != 1500 || len(k2.State.Grants()) != 2 || n.Own() != 2 || len(n.Bound()) != 1 || n.Bound()[0].Name != "web" {
		t.Errorf("%v: used %+v, %d grants, bound %v", err, k2.Used, len(k2.State.Grants()), n.Bound())
	}
}

// TestSince checks that only later rejections count. They count from zero if an agent started again
// or a node is new.
func TestSince(t *testing.T) {
	k := clustertest.New(t, 4)
	at := func(counts map[string]int64) *clusterstate.Moment {
		c := newCluster(k)
		for name, n := range counts {
			setNode(c, k, name, func(_ *v1.Node, p *v1alpha1.PaddockNode) {
				p.Status.Rejections.Counts = []v1alpha1.RejectionCount{{Class: "6 CPUs", Cause: "x", Count: n}}
			})
		}
		return c.Moment()
	}
	got, _ := at(map[string]int64{"same": 5, "more": 9, "restarted": 2, "new": 3}).Since(at(map[string]int64{"same": 5, "more": 4, "restarted": 7, "gone": 1}))
	if want := []clusterstate.Rejections{{Group: "metal", Class: "6 CPUs", Cause: "x", Pods: 10, Nodes: 3}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestDecisions checks that decisions are summed by group, that an agent that started again counts
// in full, and that nodes whose agents do not publish their decisions are counted.
func TestDecisions(t *testing.T) {
	k := clustertest.New(t, 4)
	day := func(n int) *metav1.Time { return &metav1.Time{Time: time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC)} }
	at := func(nodes map[string]v1alpha1.Rejections) *clusterstate.Moment {
		c := newCluster(k)
		for name, r := range nodes {
			r.Counts = []v1alpha1.RejectionCount{{Class: "6 CPUs", Cause: "x", Count: r.Total}}
			setNode(c, k, name, func(o *v1.Node, p *v1alpha1.PaddockNode) {
				p.Status.Rejections = r
				if name == "other" {
					delete(o.Labels, v1.LabelInstanceTypeStable)
					p.Status.Devices = []v1alpha1.DeviceResource{{Resource: "nvidia.com/gpu", Devices: []v1alpha1.Device{{ID: "0"}, {ID: "1"}}}}
				}
			})
		}
		return c.Moment()
	}
	before := at(map[string]v1alpha1.Rejections{"a": {Since: day(1), Decided: 100, Total: 2}, "b": {Since: day(2), Decided: 50, Total: 5}})
	now := at(map[string]v1alpha1.Rejections{"a": {Since: day(1), Decided: 140, Total: 3}, "b": {Since: day(4), Decided: 60, Total: 6}, "other": {Total: 1}})
	_, got := now.Since(before)
	other := clusterstate.Decisions{Group: "2 sockets, 8 cores, 2 NUMA nodes, 32Gi, 2 nvidia.com/gpu", Nodes: 1, Rejected: 1, Uncounted: 1}
	want := []clusterstate.Decisions{{Group: "metal", Nodes: 2, Decided: 100, Rejected: 7, From: day(1).Time, To: day(4).Time}, other}
	for i := range got {
		if got[i].Policy == "" {
			t.Errorf("group %q has no policy", got[i].Group)
		}
		got[i].Policy = ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if d := now.Decisions[0]; d.Decided != 200 || d.Rejected != 9 {
		t.Errorf("%+v, want 9 of 200", d)
	}
}
