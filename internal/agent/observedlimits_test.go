package agent

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestObservingGates checks that the gates of a kubelet are those of its metrics, whatever its
// configuration is, and that nothing is sure without them.
func TestObservingGates(t *testing.T) {
	k, c := newStockKubelet(t)
	const build = "kubernetes_build_info{git_version=\"v1.36.4\"} 1\n"
	o := observer(t, c)
	if s := o.session.Load(); !s.node.Policy.PodLevelResources || len(s.unlike) > 0 || s.trust().Certainty.Answer != view.Exact {
		t.Errorf("with the gates of 1.36: %+v, %+v", s.unlike, s.trust().Certainty)
	}
	const off = "kubernetes_feature_enabled{name=\"PodLevelResources\",stage=\"BETA\"} 0\nkubernetes_feature_enabled{name=\"InPlacePodLevelResourcesVerticalScaling\",stage=\"BETA\"} 0\n"
	k.set("/metrics", build+off)
	o = observer(t, c)
	if s := o.session.Load(); s.node.Policy.PodLevelResources || len(s.unlike) != 2 || s.trust().Certainty.Answer != view.Exact {
		t.Errorf("with other gates: %+v, %+v", s.unlike, s.trust().Certainty)
	}
	if text, err := decisive([]byte(configz), o.session.Load().unlike); err != nil || !strings.Contains(string(text), `"featureGates":{"InPlacePodLevelResourcesVerticalScaling":false,"PodLevelResources":false}`) {
		t.Errorf("a scenario has the settings %s, %v", text, err)
	}
	k.set("/metrics", build)
	o = observer(t, c)
	if certainty := o.session.Load().trust().Certainty; certainty.Answer != view.Unsure || !strings.Contains(certainty.Doubts[0].Reason, "kubernetes_feature_enabled") {
		t.Errorf("without gates: %+v", certainty)
	}
}

// TestObservingLimits checks that an agent goes on without the Node and without the kubelet's
// PodResources socket, shows the consequences in /readyz and in what it publishes, and is unsure
// with the Node of another kubelet.
func TestObservingLimits(t *testing.T) {
	_, c := newStockKubelet(t)
	c.Kubelet.PodResources = ""
	o := observer(t, c)
	o.noteLimits()
	answer := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1000"
	o.handler().ServeHTTP(answer, r)
	for _, want := range []string{"kubelet: ready\n", "kubelet: without the Node: ", "kubelet: without the kubelet's PodResources socket: ", "\nready\n"} {
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("/readyz: %d %s, want %s", answer.Code, answer.Body, want)
		}
	}
	if limits := o.view().Observed.Limits; len(limits) != 2 || o.session.Load().trust().Certainty.Answer != view.Exact {
		t.Errorf("published: %q, %+v", limits, o.session.Load().trust().Certainty)
	}

	server := objectstest.New(t)
	c.NodeName, c.APIServer.URL = "n", server.Config().Host
	o, err := NewObserving(c, Here(), telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.setUp(t.Context()); err != nil { // There is no such Node.
		t.Fatal(err)
	}
	if o.noteLimits(); len(o.limits()) != 2 || !o.withoutObject {
		t.Errorf("without the Node: %q", o.limits())
	}
	node := &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	node.Status.NodeInfo.KubeletVersion = "v1.35.6"
	server.Set(t, "nodes", node)
	if err := o.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(t, o)
	o.noteLimits()
	if certainty := o.session.Load().trust().Certainty; certainty.Answer != view.Unsure || len(o.limits()) != 1 ||
		certainty.Doubts[0].Reason != "the observed kubelet is v1.36.4, and that of Node n is v1.35.6" {
		t.Errorf("with the Node of another kubelet: %+v, %q", certainty, o.limits())
	}
}

// TestObservingForbidden checks that an API server that forbids the Node after a restart is
// starting: the last Node counts, and it is asked for again soon. Only if that lasts, the Node
// cannot be read.
func TestObservingForbidden(t *testing.T) {
	_, c := newStockKubelet(t)
	server := objectstest.New(t)
	node := &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	server.Set(t, "nodes", node)
	c.NodeName, c.APIServer.URL = "n", server.Config().Host
	now, log := time.Now(), &strings.Builder{}
	world := Here()
	world.Now = func() time.Time { return now }
	o, err := NewObserving(c, world, telemetry.Build{}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(after time.Duration) {
		t.Helper()
		now = now.Add(after)
		if err := o.setUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ask(0)
	server.Fail(func(*http.Request) int { return http.StatusForbidden })
	ask(setUpEvery)
	ask(setUpAgain)
	questions := questions{o: o}
	if o.withoutObject || o.object == nil || questions.pause() != setUpAgain ||
		strings.Contains(log.String(), "is forbidden") || strings.Count(log.String(), "the Node is not known yet") != 1 {
		t.Errorf("while it starts: %v, asks again after %v, the log is %s", o.withoutObject, questions.pause(), log)
	}
	ask(authorizer.Grace)
	if !o.withoutObject || questions.pause() != setUpEvery || !strings.Contains(log.String(), "level=WARN msg=\"what the Node has") {
		t.Errorf("for ever: %v, asks again after %v, the log is %s", o.withoutObject, questions.pause(), log)
	}
	server.Fail(nil)
	ask(setUpAgain)
	log.Reset()
	for range 20 { // Its answers alternate without a pause.
		server.Fail(func(*http.Request) int { return http.StatusForbidden })
		ask(setUpAgain)
		server.Fail(nil)
		ask(setUpAgain)
	}
	if lines := strings.Count(log.String(), "\n"); o.withoutObject || lines > 2 {
		t.Errorf("alternately: %v, %d lines: %s", o.withoutObject, lines, log)
	}
}
