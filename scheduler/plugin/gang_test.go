package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
)

// gangs returns a scheduler with the feature gate of pod groups.
func gangs(t *testing.T) *world {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
	w := &world{t: t, backoff: 1, longest: 1}
	w.start()
	return w
}

// gang creates a PodGroup of which all pods must be placed, and its pods. Their arguments are those
// of pod, and devices is the number of devices of each pod's claim.
func (w *world) gang(name string, pods int, args map[string]string) []string {
	priority := int32(number(w.t, args["priority"], 0))
	group := &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       schedulingapi.PodGroupSpec{Priority: &priority, SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}}},
	}
	if _, err := w.client.SchedulingV1beta1().PodGroups("default").Create(w.t.Context(), group, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range pods {
		member := fmt.Sprint(name, "-", i)
		args["group"] = name
		if args["devices"] != "" {
			args["claim"] = member
			w.claim(member, args)
		}
		w.pod(member, args)
		names = append(names, member)
	}
	return names
}

// join makes a pod a member of a PodGroup, if it has one.
func join(pod *v1.Pod, group string) {
	if group != "" {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
}

// all returns the pods that exist, by name, without those of the tests' own.
func (w *world) all() map[string]v1.Pod {
	list, err := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]v1.Pod{}
	for _, pod := range list.Items {
		if !strings.HasPrefix(pod.Name, "barrier-") {
			all[pod.Name] = pod
		}
	}
	return all
}

// bound waits until these pods are bound and returns their nodes, in order.
func (w *world) bound(names []string) []string {
	var nodes []string
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		nodes = nil
		all := w.all()
		for _, name := range names {
			if node := all[name].Spec.NodeName; node != "" {
				nodes = append(nodes, node)
			}
		}
		if len(nodes) == len(names) {
			slices.Sort(nodes)
			return nodes
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d pods are bound", len(nodes), len(names))
		}
	}
}

// rejected waits for a failed attempt of each pod, and returns the last event.
func (w *world) rejected(names []string) (text string) {
	for _, name := range names {
		if text = w.outcome(name); strings.HasPrefix(text, name+": bound to ") {
			w.t.Fatalf("a pod of a gang that does not fit: %s", text)
		}
	}
	return text
}

// servers creates nodes of two NUMA nodes of 16 CPUs with eight GPUs, four near each.
func (w *world) servers(n int) (names []string) {
	for i := range n {
		name := fmt.Sprint("n", i)
		w.node(name, map[string]string{"cpus": "16", "policy": "restricted"})
		gpus := map[string]string{}
		for k := range 8 {
			gpus[fmt.Sprint("gpu-", k)] = fmt.Sprint(k / 4)
		}
		w.slice(name, gpus)
		names = append(names, name)
	}
	return names
}

// fill binds pods of 8 CPUs to a node: three of them, near both NUMA nodes.
func (w *world) fill(nodes ...string) (names []string) {
	for _, on := range nodes {
		for k := range 3 {
			name := fmt.Sprint("old-", on, "-", k)
			w.pod(name, map[string]string{"cpus": "8", "priority": "-10", "only": on})
			names = append(names, name)
			if text := w.outcome(name); !strings.Contains(text, "bound to "+on) {
				w.t.Fatal(text)
			}
		}
	}
	return names
}

// states returns what the scheduler knows of nodes.
func (w *world) states(nodes []string) string {
	var out strings.Builder
	for _, name := range nodes {
		fmt.Fprintf(&out, "%s\n%s", name, w.state(name))
		if refused := w.admits(name); strings.Contains(refused, "wanted") {
			w.t.Errorf("the agent of %s does not take the grants: %s", name, refused)
		}
	}
	return out.String()
}

// large are the arguments of a pod that takes most of a server, near both of its NUMA nodes.
func large(priority string) map[string]string {
	return map[string]string{"cpus": "24", "memory": "160Gi", "devices": "8", "priority": priority}
}

// TestGangFits checks that a gang that fits is bound as a whole, each pod with its grant.
func TestGangFits(t *testing.T) {
	w := gangs(t)
	nodes := w.servers(8)
	if got := w.bound(w.gang("train", 8, large("0"))); !slices.Equal(got, nodes) {
		t.Errorf("the gang is on %v", got)
	}
	w.checkGangs(nodes, 8)
}

// checkGangs checks that this number of large pods have their CPUs.
func (w *world) checkGangs(nodes []string, pods int) {
	w.t.Helper()
	if s := w.states(nodes); strings.Count(s, ": CPUs 2-9,16-31\n") != pods {
		w.t.Error(s)
	}
}

// TestGangPreempts checks that a gang gets full nodes by preemption. The pods that have CPUs near its
// devices end, and only these.
func TestGangPreempts(t *testing.T) {
	w := gangs(t)
	nodes := w.servers(8)
	w.fill(nodes...)
	for _, on := range nodes {
		w.pod("plain-"+on, map[string]string{"priority": "-20", "only": on})
		w.outcome("plain-" + on)
	}
	names := w.gang("train", 8, large("10"))
	if got := w.bound(names); !slices.Equal(got, nodes) {
		t.Errorf("the gang is on %v", got)
	}
	all := w.all()
	for name := range all {
		if !strings.HasPrefix(name, "train-") && !strings.HasPrefix(name, "plain-") {
			t.Errorf("pod %s was not evicted", name)
		}
	}
	if len(all) != 16 {
		t.Errorf("there are %d pods", len(all))
	}
	w.checkGangs(nodes, 8)
}

// TestGangOneNodeShort checks that no pod is evicted, and that nothing is reserved, if the gang does not
// fit as a whole even after preemption.
func TestGangOneNodeShort(t *testing.T) {
	w := gangs(t)
	nodes := w.servers(8)
	w.fill(nodes[:7]...)
	w.pod("important", map[string]string{"cpus": "8", "priority": "100", "only": nodes[7]})
	w.outcome("important")
	before := w.states(nodes)
	names := w.gang("train", 8, large("10"))
	for range 3 {
		if text := w.rejected(names); strings.Contains(text, "preempting") {
			t.Error(text)
		}
	}
	if len(w.all()) != 7*3+1+8 {
		t.Errorf("there are %d pods", len(w.all()))
	}
	if after := w.states(nodes); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	// Once there is room on the last node, the gang preempts the others.
	w.delete("important")
	if got := w.bound(names); !slices.Equal(got, nodes) {
		t.Errorf("the gang is on %v", got)
	}
}

// TestGangsCompete checks that of two gangs with room for one, one is bound as a whole, and the other
// one has nothing until the first one ends.
func TestGangsCompete(t *testing.T) {
	w := gangs(t)
	nodes := w.servers(6)
	w.fill(nodes...)
	gangs := [2][]string{w.gang("a", 4, large("10")), w.gang("b", 4, large("10"))}
	first := -1
	for deadline := time.Now().Add(time.Minute); first < 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		all := w.all()
		first = slices.IndexFunc(gangs[:], func(names []string) bool { return all[names[0]].Spec.NodeName != "" })
	}
	w.bound(gangs[first])
	other := gangs[1-first]
	w.rejected(other)
	for _, name := range other {
		if node := w.all()[name].Spec.NodeName; node != "" {
			t.Errorf("pod %s is on %s", name, node)
		}
	}
	if s := w.states(nodes); strings.Contains(s, strings.TrimSuffix(other[0], "0")) {
		t.Error(s)
	}
	for _, name := range gangs[first] {
		w.delete(name)
		// A controller of the cluster releases the devices.
		if err := w.client.ResourceV1().ResourceClaims("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.bound(other)
	w.checkGangs(nodes, 4)
}

// TestGangNeedsNUMANode checks that of the pods on a node only those end whose CPUs make room on one
// NUMA node.
func TestGangNeedsNUMANode(t *testing.T) {
	w := gangs(t)
	nodes := []string{"n0", "n1"}
	for _, on := range nodes {
		w.node(on, map[string]string{})
		for _, pod := range [][2]string{{"a-", "4"}, {"b-", "6"}, {"c-", "2"}} {
			w.pod(pod[0]+on, map[string]string{"cpus": pod[1], "priority": "-10", "only": on})
			w.outcome(pod[0] + on)
		}
	}
	// 8 CPUs fit only on NUMA node 1, which has no reserved CPU.
	w.bound(w.gang("big", 2, map[string]string{"cpus": "8", "priority": "10"}))
	for _, on := range nodes {
		if s := w.state(on); !strings.HasPrefix(s, "a-"+on+": CPUs 2-5\nbig-") || !strings.HasSuffix(s, ": CPUs 8-15\nc-"+on+": CPUs 6-7\n") {
			t.Errorf("%s: %s", on, s)
		}
	}
}

// TestGangNearDevices checks that a gang whose GPUs are near one NUMA node evicts the pods that have
// CPUs there, and no others.
func TestGangNearDevices(t *testing.T) {
	w := gangs(t)
	var nodes []string
	for i := range 8 {
		name := fmt.Sprint("n", i)
		w.node(name, map[string]string{"cpus": "16"})
		gpus := map[string]string{}
		for k := range 8 {
			gpus[fmt.Sprint("gpu-", k)] = "1"
		}
		w.slice(name, gpus)
		nodes = append(nodes, name)
	}
	w.fill(nodes...)
	// The first pod of fill is near NUMA node 0, and the other two near NUMA node 1.
	if got := w.bound(w.gang("train", 8, map[string]string{"cpus": "12", "memory": "64Gi", "devices": "8", "priority": "10"})); !slices.Equal(got, nodes) {
		t.Errorf("the gang is on %v", got)
	}
	if s := w.states(nodes); strings.Count(s, ": CPUs 16-27\n") != 8 || strings.Count(s, ": CPUs 2-9\n") != 8 || strings.Count(s, "CPUs") != 16 {
		t.Error(s)
	}
}
