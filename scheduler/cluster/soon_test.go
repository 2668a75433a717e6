package cluster_test

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// leaver is a node with two published pods: one that is bound, and a static pod that the API server
// has never shown.
type leaver struct {
	*world
	*cluster.Cluster
	t *testing.T
}

func newLeaver(t *testing.T) (*leaver, *cluster.Source) {
	w := &world{pods: map[string]*v1.Pod{}}
	l := &leaver{world: w, t: t, Cluster: cluster.New(fleet.NewRanking(fleet.LeastStranded, nil), cluster.World{
		Pods: w.bound, Exists: w.exists, AgentReady: func([]*v1.Pod) bool { return true }, PublishWithin: 10 * time.Second,
		Report: func(_, _ string, err error) { t.Error(err) },
	})}
	n := source(t)
	l.Update("n", &cluster.Source{Node: n})
	for _, uid := range []string{"gone", "static"} {
		asked, err := cluster.Read(pod(uid, 4), podspec.Gates{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := l.Reserve("n", asked)
		if err != nil || done.Plan.Grant == nil {
			t.Fatal(err, done)
		}
		n = published(n, uid, done.Plan.Grant)
		l.Unreserve("n", uid)
		l.Update("n", &cluster.Source{Node: n})
	}
	l.set(bound(pod("gone", 4), ""))
	return l, &cluster.Source{Node: n}
}

// want checks which pods the node has, and which it has soon. The empty string means that nothing
// is known of what it has soon.
func (l *leaver) want(what, now, soon string) {
	l.t.Helper()
	names := func(of *fleet.View) string {
		var all []string
		for _, g := range of.State.Grants() {
			all = append(all, g.Pod.UID)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	at, then := l.After("n"), ""
	if s := at.Soon(); s != nil {
		then = names(s.View.View)
		if s.Hidden.Pods != at.Hidden.Pods-1 {
			l.t.Errorf("%s: %d pods are hidden, and %d soon", what, at.Hidden.Pods, s.Hidden.Pods)
		}
	}
	if got := names(at.View.View); got != now || then != soon {
		l.t.Errorf("%s: the node has %q, and soon %q, want %q and %q", what, got, then, now, soon)
	}
	// An attempt to preempt for a group sees the node as it will be, and any other as it is.
	sees := func(pods iter.Seq[*v1.Pod]) string {
		at := l.Trial().At(cluster.Sight{Name: "n", Generation: time.Now().UnixNano(), Pods: pods, Count: func() (a, b fleet.Amounts) { return }})
		all := names(at.View.View)
		// Every pod that the node has and the API server does not show is hidden.
		if hidden := len(strings.Fields(all)) - len(l.bound("n")); at.Hidden.Pods != int64(hidden) {
			l.t.Errorf("%s: a group sees %q, and %d of them hidden", what, all, at.Hidden.Pods)
		}
		return all
	}
	if soon == "" {
		soon = now
	}
	if a, b := sees(nil), sees(slices.Values(l.bound("n"))); a != now || b != soon {
		l.t.Errorf("%s: a group sees %q, and to preempt %q, want %q and %q", what, a, b, now, soon)
	}
}

// TestSoon checks that a published grant counts until its agent no longer publishes it, and that
// the node is known without the grant for ten seconds after the pod was gone, also if another
// publication still has it. The grant of a pod that was never seen is that of a static pod.
func TestSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newLeaver(t)
		l.want("bound", "gone static", "")
		l.remove("gone")
		l.want("gone", "gone static", "static")
		time.Sleep(5 * time.Second)
		l.Update("n", &cluster.Source{Node: published(node.Node, "other", nil)})
		l.want("a publication that still has it", "gone static", "static")
		time.Sleep(5 * time.Second)
		l.want("ten seconds later", "gone static", "")
		l.set(bound(pod("gone", 4), ""))
		l.want("the API server shows it again", "gone static", "")
		l.remove("gone")
		l.want("gone again", "gone static", "static")
		l.Update("n", &cluster.Source{Node: published(node.Node, "gone", nil)})
		l.want("published", "static", "")
	})
}
