package fleetwatch_test

import (
	"context"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for changes that must arrive. A reflector that lost its server waits for up
// to 30 s.
const patience = 5 * time.Minute

// run starts a watch that ends with the test.
func run(t *testing.T, s *objectstest.Server) *fleetwatch.Watch {
	t.Helper()
	return runAt(t, s, time.Now)
}

// runAt runs a watch with another clock.
func runAt(t *testing.T, s *objectstest.Server, now func() time.Time) *fleetwatch.Watch {
	t.Helper()
	w, err := fleetwatch.New(s.Config(), now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	await(t, w, func(*clusterstate.Moment) bool { return w.Synced() })
	return w
}

// await waits for a moment for which is returns true.
func await(t *testing.T, w *fleetwatch.Watch, is func(*clusterstate.Moment) bool) *clusterstate.Moment {
	t.Helper()
	limit := time.After(patience)
	for {
		changed := w.Changed()
		m, _ := w.Moment()
		if is(m) {
			return m
		}
		select {
		case <-changed:
		case <-limit:
			since, why := w.Trouble()
			t.Fatalf("nodes %v, problems %v, %d waiting; trouble since %v: %s", m.Nodes, m.Problems, len(m.Waiting), since, why)
		}
	}
}

// fill adds a cluster of two nodes to a server.
func fill(t *testing.T, s *objectstest.Server) *clustertest.Kind {
	t.Helper()
	k := clustertest.New(t, 4)
	s.Set(t, "paddockmachines", k.Object)
	for _, name := range []string{"n1", "n2"} {
		o, p := k.Node(name)
		s.Set(t, "nodes", o)
		s.Set(t, "paddocknodes", p)
	}
	handed := clustertest.Pod("handed", "n1", "2")
	k.Hand(t, handed, cpuset.Of(6, 7))
	s.Set(t, "pods", handed)
	s.Set(t, "pods", clustertest.Pod("waits", "", "3"))
	return k
}

// TestFollow covers pods and nodes that come, change and go; a Node that is created again with its
// old PaddockNode and then with its own; a PaddockNode that a newer agent wrote; and what a node
// rejected meanwhile.
func TestFollow(t *testing.T) {
	s := objectstest.New(t)
	k := fill(t, s)
	w := run(t, s)
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 2 && len(m.Waiting) == 1 })
	if g, _ := m.Nodes[0].State.Grant("uid-handed"); g == nil || g.CPUs().String() != "6-7" {
		t.Errorf("handed has %v", g)
	}
	second := m.Nodes[1]
	s.Set(t, "pods", clustertest.Pod("waits", "n1", "3"))
	m = await(t, w, func(m *clusterstate.Moment) bool { return len(m.Waiting) == 0 && m.Pods == 2 })
	if m.Nodes[1] != second || m.Nodes[0].Used.Milli != 5000 {
		t.Errorf("a pod of n1 changed n2, or n1 has %+v", m.Nodes[0].Used)
	}
	s.Delete("pods", "default/handed")
	await(t, w, func(m *clusterstate.Moment) bool { return m.Pods == 1 && m.Nodes[0].Used.Milli == 3000 })

	again, paddock := k.Node("n2")
	again.UID = "another"
	s.Set(t, "nodes", again)
	await(t, w, func(m *clusterstate.Moment) bool {
		return len(m.Nodes) == 1 && len(m.Problems) == 1 && strings.Contains(m.Problems[0].Text, "is of an earlier Node of that name")
	})
	paddock.OwnerReferences[0].UID, paddock.UID = again.UID, "paddock-another"
	s.Set(t, "paddocknodes", paddock)
	await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 2 && len(m.Problems) == 0 })
	newer := paddock.DeepCopy()
	newer.Status.PolicyDigest = strings.Repeat("0", 64)
	s.Set(t, "paddocknodes", newer)
	await(t, w, func(m *clusterstate.Moment) bool {
		return len(m.Problems) == 1 && strings.Contains(m.Problems[0].Text, "update the CRD and this program")
	})
	paddock.Status.Rejections.Counts = []v1alpha1.RejectionCount{{Class: "6 CPUs", Cause: "too large", Count: 4}}
	paddock.Status.Rejections.Last = []v1alpha1.Rejection{{Time: metav1.Now(), Pod: "default/six", Class: "6 CPUs", Cause: "too large"}}
	s.Set(t, "paddocknodes", paddock)
	m = await(t, w, func(m *clusterstate.Moment) bool { return len(m.Rejections) == 1 && len(m.Last) == 1 })
	if _, hour := w.Moment(); hour[fleetwatch.Row{Group: "metal", Class: "6 CPUs", Cause: "too large"}] != 4 || m.Last[0].Node != "n2" {
		t.Errorf("in the last hour %v, last %v", hour, m.Last)
	}
	s.Delete("nodes", "n2")
	await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 1 && len(m.Rejections) == 0 })
}

// TestMachineArrivesLast checks that a node can be planned for as soon as its PaddockMachine is
// there, if that comes after its PaddockNode.
func TestMachineArrivesLast(t *testing.T) {
	s := objectstest.New(t)
	k := fill(t, s)
	s.Delete("paddockmachines", k.Object.Name)
	w := run(t, s)
	await(t, w, func(m *clusterstate.Moment) bool {
		return len(m.Nodes) == 0 && len(m.Problems) == 2 && strings.Contains(m.Problems[0].Text, "is not here yet")
	})
	s.Set(t, "paddockmachines", k.Object)
	m := await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 2 && len(m.Problems) == 0 })
	if g, _ := m.Nodes[0].State.Grant("uid-handed"); g == nil || g.CPUs().String() != "6-7" || m.Nodes[0].Group != "metal" {
		t.Errorf("handed has %v, group %q", g, m.Nodes[0].Group)
	}
}

// TestAway checks that the last known state remains while the API server fails, with the time and
// the reason. Then the watch continues and catches up.
func TestAway(t *testing.T) {
	s := objectstest.New(t)
	fill(t, s)
	w := run(t, s)
	await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 2 })
	begin := time.Now()
	var failing atomic.Bool
	failing.Store(true)
	s.Fail(func(r *http.Request) int {
		if failing.Load() && path.Base(r.URL.Path) == "pods" {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	s.Break()
	m := await(t, w, func(*clusterstate.Moment) bool {
		_, why := w.Trouble()
		return strings.Contains(why, "pods: the API server answers 503")
	})
	if since, _ := w.Trouble(); since.Before(begin) || len(m.Nodes) != 2 {
		t.Errorf("trouble since %v, before %v; nodes %v", since, begin, m.Nodes)
	}
	s.Set(t, "pods", clustertest.Pod("missed", "n2", "1"))
	failing.Store(false)
	await(t, w, func(m *clusterstate.Moment) bool {
		_, why := w.Trouble()
		return why == "" && m.Pods == 2
	})
}

// TestCheck checks that the error names what may not be read or does not exist, and what to do.
func TestCheck(t *testing.T) {
	s := objectstest.New(t)
	for resource, want := range map[string]struct {
		code int
		text string
	}{
		"pods":         {http.StatusForbidden, "deploy/fleet/rbac.yaml has one"},
		"paddocknodes": {http.StatusNotFound, "the cluster has no paddocknodes: install the CRDs"},
		"nodes":        {http.StatusUnauthorized, "log in again"},
	} {
		s.Fail(func(r *http.Request) int {
			if path.Base(r.URL.Path) == resource {
				return want.code
			}
			return 0
		})
		w, err := fleetwatch.New(s.Config(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v, want %q", resource, err, want.text)
		}
	}
}

// TestCheckWhileItStarts checks that "forbidden" of an API server that is not ready is not reported
// as a missing permission.
func TestCheckWhileItStarts(t *testing.T) {
	s := objectstest.New(t)
	for readyz, want := range map[int]string{
		http.StatusInternalServerError: "the nodes of the cluster cannot be read: the API server is starting: it answers /readyz with 500",
		http.StatusNotFound:            "deploy/fleet/rbac.yaml has one",
	} {
		s.Fail(func(r *http.Request) int {
			if r.URL.Path == "/readyz" {
				return readyz
			}
			return http.StatusForbidden
		})
		w, err := fleetwatch.New(s.Config(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("/readyz answers %d: %v, want %q", readyz, err, want)
		}
		if _, why := w.Trouble(); strings.Contains(why, "readyz") {
			t.Errorf("/readyz is a trouble of the watch: %s", why)
		}
	}
}

// TestForbidden checks that an answer that is forbidden is shown as that of an API server that is
// starting, until it has lasted.
func TestForbidden(t *testing.T) {
	s := objectstest.New(t)
	fill(t, s)
	var waited atomic.Int64
	w := runAt(t, s, func() time.Time { return time.Now().Add(time.Duration(waited.Load())) })
	await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 2 })
	var forbids atomic.Bool
	forbids.Store(true)
	s.Fail(func(r *http.Request) int {
		if forbids.Load() && path.Base(r.URL.Path) == "nodes" {
			return http.StatusForbidden
		}
		return 0
	})
	s.Break()
	shows := func(want string) {
		t.Helper()
		await(t, w, func(*clusterstate.Moment) bool {
			_, why := w.Trouble()
			return strings.HasPrefix(why, want) && (want == "") == (why == "")
		})
	}
	shows("nodes: the API server is starting")
	waited.Store(int64(authorizer.Grace))
	shows("nodes: the API server answers 403 Forbidden")
	forbids.Store(false)
	shows("")
}

// TestRole checks that the role in deploy/fleet allows exactly what is requested.
func TestRole(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/fleet/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role struct {
		Rules []struct{ APIGroups, Resources, Verbs []string }
	}
	first, _, _ := strings.Cut(string(data), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &role); err != nil {
		t.Fatal(err)
	}
	allowed, asked := map[string]bool{}, sync.Map{}
	for _, r := range role.Rules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				allowed[verb+" "+resource] = true
			}
		}
	}
	s := objectstest.New(t)
	fill(t, s)
	s.Fail(func(r *http.Request) int {
		verb := "list"
		if r.Method != http.MethodGet {
			verb = r.Method
		} else if r.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
		if asked.Store(verb+" "+path.Base(r.URL.Path), true); !allowed[verb+" "+path.Base(r.URL.Path)] {
			return http.StatusForbidden
		}
		return 0
	})
	w := run(t, s)
	if err := w.Check(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, w, func(m *clusterstate.Moment) bool { return len(m.Nodes) == 2 && m.Pods == 1 })
	for what := range allowed {
		if _, needed := asked.Load(what); !needed {
			t.Errorf("the role allows to %s, which is not asked for", what)
		}
	}
}
