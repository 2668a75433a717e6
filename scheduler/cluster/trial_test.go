package cluster_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// trial is a history of a node beside a trial.
type trial struct {
	*history
	*cluster.Trial
	generation int64
	// hidden has the pods that the scheduler has removed from its snapshot. members has the pods that
	// are reserved in the trial, in order.
	hidden  map[string]bool
	members []*v1.Pod
}

// sight returns the node as the scheduler's snapshot has it.
func (tr *trial) sight() cluster.Sight {
	tr.generation++
	return cluster.Sight{
		Name: "n", Generation: tr.generation,
		Count: func() (allocatable, used fleet.Amounts) { return fleet.Amounts{Milli: 16000}, fleet.Amounts{} },
		Pods: func(yield func(*v1.Pod) bool) {
			for _, uid := range slices.Sorted(maps.Keys(tr.texts)) {
				if p := tr.pods[uid]; p != nil && !tr.hidden[uid] && !yield(p) {
					return
				}
			}
		},
	}
}

// bindOrEnd binds a pod with its grant, or ends one. The node may show the ended pod for longer.
func (h *history) bindOrEnd(t *rapid.T, uid string) {
	if len(h.known) > 0 && rapid.IntRange(0, 2).Draw(t, "end") == 0 {
		uid := some(t, h.known)
		if rapid.Bool().Draw(t, "late") {
			h.late[uid], _ = h.After("n").View.State.Grant(uid)
			h.publish(uid, h.late[uid])
		}
		h.remove(uid)
		delete(h.known, uid)
		return
	}
	p := pod(uid, rapid.IntRange(1, 6).Draw(t, "cpus"))
	h.set(p)
	grant := reserve(t, h.Cluster, p)
	if grant == nil {
		h.remove(uid)
		return
	}
	text, err := handover.Encode("n", h.node.Here.Machine, h.node.Here.Policy, grant)
	if err != nil {
		t.Fatal(err)
	}
	h.texts[uid], h.known[uid] = text, grant.CPUs()
	h.set(bound(p, text))
}

// expected returns the grants of a cluster that never knew the hidden pods, and in which the members
// were reserved.
func (tr *trial) expected(t *rapid.T) map[string]string {
	w := &world{pods: maps.Clone(tr.pods)}
	n := *tr.node
	n.Published = maps.Clone(n.Published)
	for uid := range tr.hidden {
		if _, late := tr.late[uid]; !late {
			delete(w.pods, uid)
			delete(n.Published, uid)
		}
	}
	other := w.cluster(func(error) {})
	other.Update("n", &cluster.Source{Node: &n})
	for _, p := range tr.members {
		w.set(p)
		reserve(t, other, p)
	}
	return grants(other.After("n"))
}

// grants returns the CPUs of all pods of a node.
func grants(at *cluster.At) map[string]string {
	found := map[string]string{}
	for _, g := range at.View.State.Grants() {
		found[g.Pod.UID] = g.CPUs().String()
	}
	return found
}

// step changes the trial.
func (tr *trial) step(t *rapid.T, uid string) {
	switch action := rapid.IntRange(0, 4).Draw(t, "trial"); {
	case action == 0 && len(tr.members) > 0: // The scheduler takes back the newest one first.
		last := len(tr.members) - 1
		if rapid.IntRange(0, 3).Draw(t, "order") == 0 {
			last = rapid.IntRange(0, last).Draw(t, "member")
		}
		tr.Unreserve("n", string(tr.members[last].UID))
		tr.members = slices.Delete(tr.members, last, last+1)
	case action == 1 && len(tr.known) > 0:
		uid := some(t, tr.known)
		if tr.hidden[uid] = !tr.hidden[uid]; !tr.hidden[uid] {
			delete(tr.hidden, uid)
		}
	case action == 2:
	default:
		p := pod(uid, rapid.IntRange(1, 6).Draw(t, "cpus"))
		asked, err := cluster.Read(p, podspec.Gates{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := tr.Trial.Reserve(tr.sight(), asked)
		if err != nil {
			t.Fatal(err)
		}
		if done.Plan.Grant != nil {
			tr.members = append(tr.members, p)
		}
	}
}

// TestTrial runs a random history of a node beside a random trial. The trial must show what a node
// would be that never had the removed pods, with the members placed in order. The node must not
// show anything of it.
func TestTrial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{pods: map[string]*v1.Pod{}}
		h := &history{
			world: w, Cluster: w.cluster(func(error) {}), node: source(t), texts: map[string]string{},
			known: map[string]cpuset.Set{}, gone: map[string]*node.Grant{}, late: map[string]*node.Grant{},
		}
		h.Update("n", &cluster.Source{Node: h.node})
		tr := &trial{history: h, Trial: h.Cluster.Trial(), hidden: map[string]bool{}}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "real") {
				h.bindOrEnd(t, fmt.Sprint("p", i))
			}
			before := h.Show("n")
			tr.step(t, fmt.Sprint("m", i))
			at := tr.At(tr.sight())
			if err := at.View.State.Check(); err != nil {
				t.Fatal(err)
			}
			if got, want := grants(at), tr.expected(t); !maps.Equal(got, want) {
				t.Fatalf("the trial shows %v, and a node without %v and with %d members %v", got, tr.hidden, len(tr.members), want)
			}
			if after := h.Show("n"); !reflect.DeepEqual(before, after) {
				t.Fatalf("a trial changed the node from %+v to %+v", before, after)
			}
		}
	})
}
