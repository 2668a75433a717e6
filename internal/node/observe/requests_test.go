package observe_test

import (
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/observe"
)

// asking returns a decision about a pod that requests CPU time in thousandths.
func asking(p request.Pod, milli int64, reason string) observe.Decision {
	return observe.Decision{Pod: p, Requests: request.Totals{Milli: milli, Pods: 1}, Reason: reason}
}

// TestRequests has a case for each way in which the requests of all pods decide. The node has 7
// CPUs for pods, of which "old" requests 4, and room for three pods.
func TestRequests(t *testing.T) {
	start := empty(t)
	allocatable := &request.Totals{Milli: 7000, Pods: 3, Others: request.Amounts{{Resource: "hugepages-2Mi", Value: 2 << 20}}}
	sight := func(s *node.State, pods map[string]int64) observe.Sight {
		out := observe.Sight{State: s, Requests: map[string]request.Totals{}, Allocatable: allocatable}
		for uid, milli := range pods {
			out.Requests[uid] = request.Totals{Milli: milli, Pods: 1}
		}
		return out
	}
	old := map[string]int64{"old": 4000}
	a, shares, large := pod("a", 2), pod("shares", 0), pod("large", 6)
	pages := asking(shares, 0, "OutOfhugepages-2Mi")
	pages.Requests.Others = request.Amounts{{Resource: "hugepages-2Mi", Value: 4 << 20}}
	critical := asking(shares, 3500, "")
	critical.Critical = true
	for _, c := range []struct {
		name    string
		now     *node.State
		pods    map[string]int64
		decided []observe.Decision
		want    string
	}{
		{"a pod without CPUs of its own fits", start, map[string]int64{"old": 4000, "shares": 3000}, []observe.Decision{asking(shares, 3000, "")}, ""},
		{"it does not fit", start, old, []observe.Decision{asking(shares, 3500, "OutOfcpu")}, "shares as-predicted"},
		{"the managers decide first", start, old, []observe.Decision{asking(large, 6000, rejected)}, "large as-predicted"},
		{"the managers admit it", start, old, []observe.Decision{asking(a, 3500, "OutOfcpu")}, "a as-predicted"},
		{"nothing is left of it", admitted(t, start, a), map[string]int64{"old": 4000, "a": 2000}, []observe.Decision{asking(pod("b", 2), 3500, "OutOfcpu"), asking(a, 2000, "")}, "b as-predicted, a as-predicted"},
		{"too many pods", start, map[string]int64{"old": 4000, "x": 0, "y": 0}, []observe.Decision{asking(pod("x", 0), 0, ""), asking(pod("y", 0), 0, ""), asking(shares, 0, "OutOfpods")}, "shares as-predicted"},
		{"huge pages", start, old, []observe.Decision{pages}, "shares as-predicted"},
		{"after a pod of the same look", start, map[string]int64{"old": 4000, "x": 2000}, []observe.Decision{asking(shares, 1500, "OutOfcpu"), asking(pod("x", 0), 2000, "")}, "shares reordered"},
		{"before a pod that ended", start, nil, []observe.Decision{asking(shares, 3500, "OutOfcpu")}, "shares as-predicted"},
		{"after a pod that ended", start, map[string]int64{"shares": 3500}, []observe.Decision{asking(shares, 3500, "")}, ""},
		{"admitted all the same", start, map[string]int64{"old": 4000, "shares": 3500}, []observe.Decision{asking(shares, 3500, "")}, "shares differs: rejected (OutOfcpu) / admitted, without CPUs and memory of its own"},
		{"a pod in between was not seen", start, old, []observe.Decision{asking(shares, 1000, "OutOfcpu")}, "shares unsure: the requests of the pods that were seen leave enough cpu: one that came and ended between two looks can have counted"},
		{"a resource that is not known", start, old, []observe.Decision{asking(shares, 1000, "OutOfephemeral-storage")}, "shares unsure: what the Node has of ephemeral-storage for all pods is not known"},
		{"a critical pod", start, map[string]int64{"shares": 3500}, []observe.Decision{critical}, ""},
		{"a critical pod that is too large", start, map[string]int64{"old": 4000, "shares": 3500}, []observe.Decision{critical}, "shares unsure: it is critical, and the node has too little for it: the kubelet ends other pods instead of rejecting it"},
		{"a manager rejects a pod that it should admit", start, old, []observe.Decision{asking(a, 3500, rejected)}, "a differs: rejected (OutOfcpu) / rejected (TopologyAffinityError)"},
	} {
		var l observe.Ledger
		l.Begin(sight(start, old))
		if got := texts(l.Look(time.Time{}, sight(c.now, c.pods), c.decided)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	var l observe.Ledger
	l.Begin(of(start))
	if got := texts(l.Look(time.Time{}, of(start), []observe.Decision{asking(shares, 3500, "OutOfcpu")})); got != "shares unsure: what the Node has of cpu for all pods is not known" {
		t.Error(got)
	}
}
