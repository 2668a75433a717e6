package hollow

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
	"github.com/paddock-project/paddock/test/cluster/stock"
)

// grant returns a grant of one container with these CPUs, and with bytes of NUMA node 0.
func grant(uid, cpus string, bytes int64) *node.Grant {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return &node.Grant{
		Pod: request.Pod{Identity: request.Identity{UID: uid, Namespace: "test", Name: uid}, Ask: request.Ask{Containers: []request.Container{{Name: "c", Type: request.App, CPUs: set.Len()}}}},
		Containers: []node.ContainerGrant{{
			CPUs: set, MemoryNodes: mask.Of(0), Memory: []memory.Block{{Type: "memory", Size: bytes, Nodes: mask.Of(0)}},
		}},
	}
}

// TestKubeletAssignsTwice: what a kubelet with best-effort has assigned twice is its own fault, and
// what only its agent has is the agent's.
func TestKubeletAssignsTwice(t *testing.T) {
	kinds, err := ReadKinds("../fleet.yaml", 3, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	grants := []*node.Grant{grant("a", "1-4", 200*gib), grant("b", "5-8", 200*gib)}
	for _, test := range []struct {
		name         string
		topology     node.TopologyPolicy
		ofB          int64 // bytes, for the kubelet
		wrong, twice int
	}{
		{"both", node.TopologyBestEffort, 200 * gib, 0, 1},
		{"the agent alone", node.TopologyBestEffort, gib, 1, 0},
		{"restricted", node.TopologyRestricted, 200 * gib, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := kinds[0].State.Policy()
			policy.Topology = test.topology
			empty, err := node.New(kinds[0].State.Machine(), policy)
			if err != nil {
				t.Fatal(err)
			}
			n := &observed{Node: &Node{Kind: &Kind{State: empty}}}
			var answer stock.Answer
			text := fmt.Sprintf(`{"memory": {"entries": {"a": {"c": [{"type": "memory", "size": %d, "numa": [0]}]}}, "podEntries": {"b": [{"type": "memory", "size": %d, "numa": [0]}]}}}`, 200*gib, test.ofB)
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatal(err)
			}
			var got NodeState
			n.judgeBytes(grants, &answer, &got)
			if len(got.Wrong) != test.wrong || len(got.Twice) != test.twice {
				t.Errorf("wrong %q and twice %q, want %d and %d", got.Wrong, got.Twice, test.wrong, test.twice)
			}
		})
	}
}

// TestAssignedTwice checks the counts on grants that no node makes. The counts find what the node's
// own check would have to find too.
func TestAssignedTwice(t *testing.T) {
	kinds, err := ReadKinds("../fleet.yaml", 1, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := kinds[0].State
	const gib = 1 << 30
	for _, test := range []struct {
		name   string
		grants []*node.Grant
		want   int
	}{
		{"apart", []*node.Grant{grant("a", "1-4", gib), grant("b", "5-8", gib)}, 0},
		{"two CPUs", []*node.Grant{grant("a", "1-4", gib), grant("b", "3-8", gib)}, 2},
		{"bytes", []*node.Grant{grant("a", "1-4", 200*gib), grant("b", "5-8", 200*gib)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := slices.Concat(doubleCPUs(test.grants), doubleBytes(s, chargedBy(test.grants))); len(got) != test.want {
				t.Errorf("%d violations, want %d: %q", len(got), test.want, got)
			}
		})
	}
}

// TestCgroups checks that a container that runs on CPUs of another pod is found, and one that does
// not run where its grant is.
func TestCgroups(t *testing.T) {
	kinds, err := ReadKinds("../fleet.yaml", 1, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	bytes := request.Amounts{{Resource: request.Memory, Value: 1 << 30}}
	s, err := kinds[0].State.Apply(kinds[0].State.Plan(request.Pod{Identity: request.Identity{UID: "a"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "c", Type: request.App, CPURequest: 4000, CPULimit: 4000, CPUs: 4, Memory: bytes},
	}}}))
	if err != nil {
		t.Fatal(err)
	}
	right := converge.Want(s).Setting("a", "c")
	shared := converge.Want(s).Setting("b", "c")
	astray := shared
	astray.CPUs = right.CPUs.Union(cpuset.Of(5))
	for _, test := range []struct {
		name    string
		running converge.Observed
		want    int
	}{
		{"where its grant is", converge.Observed{Pod: "a", Container: "c", Setting: right}, 0},
		{"on the node shared pool", converge.Observed{Pod: "b", Container: "c", Setting: shared}, 0},
		{"on CPUs of another pod", converge.Observed{Pod: "b", Container: "c", Setting: astray}, 2},
		{"not where its grant is", converge.Observed{Pod: "a", Container: "c", Setting: shared}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := wrongCgroups(s, []converge.Observed{test.running}); len(got) != test.want {
				t.Errorf("%d violations, want %d: %q", len(got), test.want, got)
			}
		})
	}
}

// TestKinds checks that every machine has every policy in both scopes, and that the shares are
// those of the file.
func TestKinds(t *testing.T) {
	kinds, err := ReadKinds("../fleet.yaml", 200, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	machines, names := map[string]int{}, map[string]int{}
	for _, k := range kinds {
		machines[k.Machine]++
		names[k.Name]++
	}
	if len(machines) != 5 || machines["xeon"] != 60 || machines["nps4"] != 20 || len(names) != 30 {
		t.Errorf("%v %v", machines, names)
	}
}

// TestGoneByAnotherConnection checks that a list without a pod shows that the pod is gone, even if
// no other pod is left on the node and the kubelet answers on another connection. The list has the
// pod of the agent.
func TestGoneByAnotherConnection(t *testing.T) {
	kinds, err := ReadKinds("../fleet.yaml", 1, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Name: "n", Kind: kinds[0], pods: map[string]*worker{}, host: &managed{}}
	pod := func(namespace, uid string, labels map[string]string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: uid, UID: types.UID(uid), Labels: labels}}
	}
	n.observe(t.Context(), pod(agentNamespace, "agent", map[string]string{agentLabel: agentName}))
	n.pods["a"] = &worker{node: n, uid: "a", object: pod("test", "a", nil), ended: make(chan struct{})}
	var tracker absence.Tracker
	observe := func(connection uint64, at time.Time) {
		l := absence.List{Asked: at, Process: absence.Process{Number: connection, Since: at}, Pods: map[string]absence.Source{}}
		for _, p := range n.list().Items {
			l.Pods[string(p.UID)] = absence.FromAPI
		}
		tracker.Observe(l)
	}
	begin := time.Unix(0, 0)
	observe(1, begin)
	if tracker.Gone("a", absence.Trace{}) {
		t.Error("the pod is gone while it is listed")
	}
	n.pods["a"].over = true
	n.forget(pod("test", "a", nil))
	observe(2, begin.Add(time.Second))
	if !tracker.Gone("a", absence.Trace{}) {
		t.Error("the pod is not gone when it is not listed any more")
	}
}
