package zones

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/reconcile"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// world is a Keeper with a server, a clock that the test advances, and a node that plays a
// scenario.
type world struct {
	t *testing.T
	*Keeper
	server *objectstest.Server
	node   *scenario.Node
	now    time.Time
	list   *handover.Listing // nil: all pods with a grant have begun
	grants *handover.Listing // of the state of
	of     *node.State
	pods   int
	log    strings.Builder
	failed []bool // one element for each failed attempt: whether the definition was missing
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, server: objectstest.New(t), node: scenario.New(nil), now: time.Unix(1000, 0)}
	w.server.AddNode("n7", "node-uid")
	w.play("machine sockets=2 cores=4 memory=8Gi\n\nconfig topology=restricted scope=pod cpu=static memory=Static\n")
	client, err := NewClient(w.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	w.Keeper = New(Config{
		Node: "n7", Client: client, State: w.node.State, Listing: w.listing, Now: func() time.Time { return w.now }, After: time.After,
		Observer: w, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	return w
}

// listing implements Config.Listing.
func (w *world) listing() *handover.Listing {
	if w.list != nil {
		return w.list
	}
	if w.grants == nil || w.of != w.node.State() { // One state has one list.
		w.grants, w.of = listingOf(w.node.State().Grants()), w.node.State()
	}
	return w.grants
}

// Exported implements Observer.
func (w *world) Exported(err error, missing bool) {
	if err != nil {
		w.failed = append(w.failed, missing)
	}
}

func (w *world) play(text string) {
	w.t.Helper()
	blocks, err := scenario.Parse("test", text)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range blocks {
		if answer := w.node.Run(b.Command); strings.HasPrefix(answer, "error") {
			w.t.Fatal(answer)
		}
	}
}

// admit admits another pod.
func (w *world) admit() {
	w.t.Helper()
	w.pods++
	w.play(fmt.Sprintf("pod p%d cpu=1 memory=1Gi\napp main cpu=1 memory=1Gi\n\nadmit p%d\n", w.pods, w.pods))
}

// turn runs one round after the given time. It returns the number of writes.
func (w *world) turn(after time.Duration) int {
	before := w.server.Writes()
	w.now = w.now.Add(after)
	w.Round(w.t.Context())
	return w.server.Writes() - before
}

func (w *world) object() *Object {
	w.t.Helper()
	o := &Object{}
	if !w.server.Get(w.t, resource, "n7", o) {
		w.t.Fatal("there is no object")
	}
	return o
}

// TestWrites checks that the object follows the state, is owned by the Node, and is not written
// while nothing changes.
func TestWrites(t *testing.T) {
	w := newWorld(t)
	if n := w.turn(0); n != 1 {
		t.Fatalf("%d writes at the start", n)
	}
	o := w.object()
	if want := (metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n7", UID: "node-uid"}); len(o.OwnerReferences) != 1 || o.OwnerReferences[0] != want {
		t.Errorf("the owners are %+v", o.OwnerReferences)
	}
	if o.APIVersion != apiVersion || o.Kind != kind || len(o.Zones) != 2 || o.Zones[1].Resources[0].Available != "4" {
		t.Errorf("the object is %+v", o)
	}
	if n := w.turn(time.Second) + w.turn(reconcile.Recheck); n != 0 {
		t.Errorf("%d writes without a change", n)
	}
	w.admit()
	w.admit()
	if n := w.turn(time.Second); n != 1 {
		t.Errorf("%d writes after two admissions", n)
	}
	if a, b := fmt.Sprint(w.object().Zones), fmt.Sprint(Of(w.node.State(), w.listing()).Zones); a != b {
		t.Errorf("the zones are %s, want %s", a, b)
	}
}

// TestOthers checks that an object is written again if it is gone, if another writer changed it, or
// if an earlier Node owns it. Metadata that others added to it stays.
func TestOthers(t *testing.T) {
	w := newWorld(t)
	w.turn(0)
	w.server.Delete(resource, "n7")
	if n := w.turn(reconcile.Recheck); n != 1 {
		t.Errorf("%d writes after it was deleted", n)
	}
	changed := w.object()
	changed.Labels, changed.Zones = map[string]string{"a": "b"}, nil
	if _, err := w.config.Client.put(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	w.admit()
	// The first round fails because the version differs, and the second one reads the object again.
	if n := w.turn(time.Second) + w.turn(time.Second); n != 1 || w.object().Labels["a"] != "b" || len(w.object().Zones) != 2 {
		t.Errorf("%d writes: %+v", n, w.object())
	}
	w.server.AddNode("n7", "other-uid")
	if n := w.turn(reconcile.Recheck); n != 1 || w.object().OwnerReferences[0].UID != "other-uid" {
		t.Errorf("%d writes: owners %+v", n, w.object().OwnerReferences)
	}
}

// TestNotInstalled checks that there is one log line and an attempt every few minutes while the
// definition is missing, and that the object is written once the definition exists.
func TestNotInstalled(t *testing.T) {
	w := newWorld(t)
	w.server.Fail(func(r *http.Request) int {
		if strings.Contains(r.URL.Path, group) {
			return http.StatusNotFound
		}
		return 0
	})
	for range 3 {
		if next := w.Round(t.Context()); next < Uninstalled || next > 2*Uninstalled {
			t.Errorf("the next try is after %v", next)
		}
	}
	if n := strings.Count(w.log.String(), "\n"); n != 1 || !strings.Contains(w.log.String(), "apply manifests/crd.yaml of") || fmt.Sprint(w.failed) != "[true true true]" {
		t.Errorf("the log is %s, failed %v", w.log.String(), w.failed)
	}
	w.server.Fail(nil)
	if n := w.turn(Uninstalled); n != 1 || !strings.Contains(w.log.String(), "is written again") {
		t.Errorf("%d writes after it was installed: %s", n, w.log.String())
	}
	w.server.Fail(func(*http.Request) int { return http.StatusInternalServerError })
	w.admit()
	if next := w.Round(t.Context()); next > 4*reconcile.Spacing || w.failed[3] {
		t.Errorf("the next try after an error is after %v, %v", next, w.failed)
	}
}

// named returns a pod of the kubelet's list.
func named(namespace, name string) handover.Name {
	return handover.Name{Namespace: namespace, Name: name}
}

// TestFingerprintIsOfTheListing checks that the fingerprint is that of all pods that the kubelet
// lists as begun, also of those without a grant, and that nothing is written before there is a
// list.
func TestFingerprintIsOfTheListing(t *testing.T) {
	w := newWorld(t)
	var list *handover.Listing
	w.config.Listing = func() *handover.Listing { return list }
	w.admit()
	if n := w.turn(0); n != 0 {
		t.Fatalf("%d writes without a list", n)
	}
	attribute := func(name string) string {
		for _, a := range w.object().Attributes {
			if a.Name == name {
				return a.Value
			}
		}
		return ""
	}
	// The pods of TestFingerprint, which have no grant, and p1, which has one.
	for _, c := range []struct {
		begun  []handover.Name
		want   string // "" is another one than before
		writes int
	}{
		{[]handover.Name{named("production", "jaeger-dpgjk"), named("production", "nginx-rt684"), named("production", "envoy-g9m22")}, "pfp0v001607b76a0e9d3aeb4", 1},
		{[]handover.Name{named("production", "envoy-g9m22"), named("production", "jaeger-dpgjk"), named("production", "nginx-rt684")}, "pfp0v001607b76a0e9d3aeb4", 0},
		{[]handover.Name{named("production", "jaeger-dpgjk"), named("default", "p1")}, "", 1},
		{nil, "pfp0v001ef46db3751d8e999", 1},
	} {
		list = &handover.Listing{Begun: c.begun}
		before := ""
		if w.server.Writes() > 0 {
			before = attribute("nodeTopologyPodsFingerprint")
		}
		n := w.turn(time.Second)
		got := attribute("nodeTopologyPodsFingerprint")
		if n != c.writes || c.want != "" && got != c.want || c.want == "" && got == before || attribute("nodeTopologyPodsFingerprintMethod") != "all" {
			t.Errorf("%v: %d writes, %s, want %d and %q", c.begun, n, got, c.writes, c.want)
		}
	}
}

// TestFingerprintWhilePodsComeAndGo checks that each round shows the list of that moment, with one
// write, while pods come and go without a pause. So the object is behind the kubelet by the age of
// the list (kubelet.DefaultEvery) and the time between two rounds (reconcile.Poll).
func TestFingerprintWhilePodsComeAndGo(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		for j := range 3 { // Lists between two rounds are not shown.
			w.list = &handover.Listing{Begun: []handover.Name{named("default", fmt.Sprint(i)), named("default", fmt.Sprint("other", j))}}
		}
		n := w.turn(reconcile.Spacing)
		if got, want := w.object().Attributes, Of(w.node.State(), w.list).Attributes; n != 1 || !slices.Equal(got, want) {
			t.Fatalf("round %d: %d writes, the attributes are %v, want %v", i, n, got, want)
		}
	}
	w.list = &handover.Listing{Begun: w.list.Begun} // It is read again and has not changed.
	if n := w.turn(reconcile.Poll); n != 0 {
		t.Errorf("%d writes for the same list", n)
	}
}

// TestForbidden checks that get nodes is not reported as forbidden while an API server is starting,
// and that it is if it stays so.
func TestForbidden(t *testing.T) {
	w := newWorld(t)
	w.turn(0)
	forbids := func(r *http.Request) int {
		if strings.Contains(r.URL.Path, "/nodes/") {
			return http.StatusForbidden
		}
		return 0
	}
	w.server.Break() // It is restarted.
	w.server.Fail(forbids)
	w.admit()
	w.turn(reconcile.Recheck)
	w.turn(authorizer.Grace - time.Second)
	if log := w.log.String(); strings.Contains(log, "is forbidden") || strings.Contains(log, "cannot be written") || strings.Count(log, "the API server is starting: what") != 1 {
		t.Errorf("while it starts, the log is %s", log)
	}
	w.server.Fail(nil)
	if n := w.turn(time.Second); n != 1 || !strings.Contains(w.log.String(), "is written again") {
		t.Errorf("after it started: %d writes, the log is %s", n, w.log.String())
	}
	w.log.Reset()
	w.server.Fail(forbids)
	w.turn(reconcile.Recheck)
	w.turn(authorizer.Grace)
	w.turn(authorizer.Grace)
	if log := w.log.String(); strings.Count(log, "cannot be written") != 1 || !strings.Contains(log, "node n7: ") || strings.Contains(log, "cannot be written: the API server is starting") {
		t.Errorf("while it is forbidden for ever, the log is %s", log)
	}
}
