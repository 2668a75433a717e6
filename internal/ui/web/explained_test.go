package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// explained requests the explanation of a pod by its name.
func (r *rig) explained(name string) Explained {
	r.t.Helper()
	return read[Explained](r, "/api/explain?pod="+url.QueryEscape(name))
}

// stands fails unless the sentences about the pod contain all of the texts.
func (e Explained) stands(t *testing.T, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(strings.Join(e.Standing, "\n"), text) {
			t.Errorf("%q is not said: %q", text, e.Standing)
		}
	}
}

// TestExplainHeld checks that the answer has the assignments of the pod, since when it has them,
// and exactly the decision that admitted it.
func TestExplainHeld(t *testing.T) {
	r := newRig(t)
	r.admit("a", 2)
	before := r.engine.State()
	plan, err := r.engine.Admit(t.Context(), pod("b", 3))
	if err != nil {
		t.Fatal(err)
	}
	r.release("a")
	e := r.explained("default/b")
	want := view.ExplanationOf(before, plan, nil).Text(terminal.Style{}, true)
	_, way, _ := strings.Cut(want, "\n\n")
	got := e.Text(terminal.Style{}, true)
	if !e.Assigned || e.DecisionUnknown || e.Since == nil || e.Rejected != nil || !strings.HasSuffix(got, way) || !strings.Contains(got, "admitted default/b\n") {
		t.Errorf("got %+v\n%s\nwant the way\n%s", e, got, way)
	}
	e.stands(t, ", revision 2; this is the decision that admitted it")

	restarted := &rig{t: t, engine: r.engine, web: New(r.web.config)}
	e = restarted.explained("default/b")
	if !e.Assigned || !e.DecisionUnknown || e.Since != nil || e.Answer.Containers[0].CPUs != plan.Grant.CPUs().String() {
		t.Errorf("after a restart: %+v", e)
	}
	e.stands(t, "since revision 2, before this agent started: CPUs "+plan.Grant.CPUs().String(), "is no longer known")
}

// TestExplainHanded checks that a pod whose place a scheduler chose is explained with that place
// and with the node's own choice.
func TestExplainHanded(t *testing.T) {
	r := newRig(t)
	full, err := r.engine.State().Apply(r.engine.State().Plan(pod("other", 3)))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := full.Plan(pod("b", 3)).Grant
	r.config.Plan = func(s *node.State, asked engine.Candidate) (*node.Plan, *handover.Outcome) {
		plan, err := s.PlanGrant(asked.Pod, elsewhere)
		if err != nil {
			t.Error(err)
		}
		return plan, nil
	}
	r.engine = engine.New(r.engine.State(), r.config)
	plan, err := r.engine.Admit(t.Context(), pod("b", 3))
	if err != nil || !plan.Grant.CPUs().Equal(elsewhere.CPUs()) {
		t.Fatal(plan, err)
	}
	e := r.explained("default/b")
	got := e.Text(terminal.Style{}, true)
	if cpus := plan.Grant.CPUs().String(); e.Answer.Containers[0].CPUs != cpus || e.Why.Picks[0].CPUs != cpus {
		t.Errorf("it has CPUs %s, and the explanation is\n%s", cpus, got)
	}
	if own := "by itself the node would have chosen CPUs " + full.Grants()[0].CPUs().String(); !strings.Contains(got, own) {
		t.Errorf("no note %q in\n%s", own, got)
	}
}

// TestExplainRejected checks that the answer has what would admit the pod on the present node,
// whether the node would admit it now, and whether it was admitted later.
func TestExplainRejected(t *testing.T) {
	r := newRig(t)
	r.admit("a", 3)
	r.admit("large", 6)
	r.admit("large", 6)
	e := r.explained("default/large")
	if e.Assigned || e.WouldAdmit || e.Rejected == nil || e.Rejected.Times != 2 || e.Answer.Rejection == nil || e.Remedies == nil {
		t.Fatalf("%+v", e)
	}
	e.stands(t, "rejected 2 times since ", "on the node as it is now")
	text := e.Text(terminal.Style{}, false)
	for _, want := range []string{"Machine  rig\n", "rejected default/large: ", "  without default/a ", "  ask for 5 CPUs instead of 6 in container c ", "tried, in "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	number := fmt.Sprintf("/api/rejections/%d", e.Rejected.Number)
	if same := read[Explained](r, number); same.Text(terminal.Style{}, true) != e.Text(terminal.Style{}, true) {
		t.Errorf("%s: %s", number, same.Text(terminal.Style{}, true))
	}

	r.release("a")
	e = r.explained("default/large")
	if e.Assigned || !e.WouldAdmit || e.Remedies != nil || e.Answer.Rejection == nil {
		t.Errorf("when there is room: %+v", e)
	}
	e.stands(t, "the reason was: ", "it would be admitted: CPUs 0-5 on NUMA 0-1")

	r.admit("large", 6)
	if e = r.explained("default/large"); !e.Assigned || e.Rejected == nil {
		t.Errorf("when it is admitted: %+v", e)
	}
	e.stands(t, "this is the decision that admitted it", "it was rejected 2 times since ")
	read[Explained](r, number).stands(t, "it was admitted after that, in revision ")
}

// TestExplainNotWritten checks that a pod that fits but could not be written is not reported as
// admitted.
func TestExplainNotWritten(t *testing.T) {
	r := newRig(t)
	r.disk.broken.Store(true)
	r.admit("unlucky", 1)
	r.disk.broken.Store(false)
	e := r.explained("default/unlucky")
	if e.Assigned || !e.WouldAdmit || e.Answer.Admitted || !strings.Contains(e.Text(terminal.Style{}, false), "not admitted default/unlucky\n") {
		t.Errorf("%+v", e)
	}
	e.stands(t, "no space left on device")
}

// TestExplainTwoOfAName has two pods of one name of which one is admitted and one was rejected, as
// when a pod is created again.
func TestExplainTwoOfAName(t *testing.T) {
	r := newRig(t)
	r.admit("a", 5)
	again := pod("a", 5)
	again.UID = "uid-again"
	if plan, err := r.engine.Admit(t.Context(), again); err != nil || plan.Rejection == nil {
		t.Fatal(plan, err)
	}
	e := r.explained("default/a")
	if !e.Assigned || e.Answer.UID != "uid-a" || e.Rejected == nil || e.Rejected.UID != "uid-again" {
		t.Errorf("%+v", e)
	}
	e.stands(t, "another pod of that name, UID uid-again, was rejected at ")
	again.UID, again.Containers[0].CPUs = "uid-small", 1
	if _, err := r.engine.Admit(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	e = r.explained("default/a")
	if e.Answer.UID != "uid-small" {
		t.Errorf("%+v", e)
	}
	e.stands(t, "another pod of that name, UID uid-a, was admitted in revision 1: CPUs 0-4 on NUMA 0-1")
}

// TestExplainUnknown checks the answers to invalid questions and unknown names, with the nearest
// names. Markup stays text.
func TestExplainUnknown(t *testing.T) {
	r := newRig(t)
	evil := `<img src=x onerror="alert(1)">`
	r.admit("database-7f9c", 1)
	r.admit("data", 1)
	r.admit(evil, 9)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/api/explain":        {http.StatusBadRequest, "expected NAMESPACE/NAME"},
		"/api/explain?pod=a":  {http.StatusBadRequest, "expected NAMESPACE/NAME"},
		"/api/explain?pod=/a": {http.StatusBadRequest, "expected NAMESPACE/NAME"},
		"/api/explain?pod=a/" + strings.Repeat("n", maxName): {http.StatusBadRequest, "expected NAMESPACE/NAME"},
		"/api/explain?pod=default/database-1234":             {http.StatusNotFound, "pods here: 2, rejected lately: 1; did you mean default/database-7f9c?"},
		"/api/explain?pod=other/data":                        {http.StatusNotFound, "did you mean default/data, default/database-7f9c?"},
		"/api/explain?pod=default/x":                         {http.StatusNotFound, `no pod "default/x" is on this node`},
		"/api/explain?pod=" + url.QueryEscape("x/"+evil+"s"): {http.StatusNotFound, "did you mean default/" + evil},
		"/api/rejections/x":                                  {http.StatusBadRequest, "is not a number"},
		"/api/rejections/99":                                 {http.StatusNotFound, "rejection 99 is not kept"},
	} {
		answer := r.get(path)
		var said struct{ Error string }
		if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil || answer.Code != want.status || !strings.Contains(said.Error, want.text) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
		if kind := answer.Header().Get("Content-Type"); kind != "application/json" || strings.Contains(answer.Body.String(), "<img") {
			t.Errorf("%s: %s, %s", path, kind, answer.Body)
		}
	}
	if e := r.explained("default/" + evil); e.Answer.Pod != "default/"+evil || e.Remedies == nil {
		t.Errorf("%+v", e)
	}
}

// TestRejectionsThatAreNotKept asks for the number of a rejection that others have displaced.
func TestRejectionsThatAreNotKept(t *testing.T) {
	r := newRig(t)
	for i := range maxRejections + 1 {
		r.admit(fmt.Sprintf("l%d", i), 9)
	}
	if answer := r.get("/api/rejections/1"); answer.Code != http.StatusNotFound {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if e := read[Explained](r, "/api/rejections/2"); e.Answer.Pod != "default/l1" {
		t.Errorf("%+v", e)
	}
}

// slow makes searches last until their reader has gone, and reports the beginning and the end of
// each.
func (r *rig) slow(names ...string) (began, ended chan string) {
	began, ended = make(chan string, 2*maxRejections), make(chan string, 2*maxRejections)
	quick := r.web.search
	r.web.search = func(ctx context.Context, s *node.State, pod request.Pod) (explain.Remedies, error) {
		if !slices.Contains(names, pod.Name) {
			return quick(ctx, s, pod)
		}
		began <- pod.Name
		<-ctx.Done()
		ended <- pod.Name
		return explain.Remedies{}, ctx.Err()
	}
	return began, ended
}

// ask sends a request to the server, as a page does, until ctx ends.
func (r *rig) ask(ctx context.Context, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+path, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// TestSlowSearchHoldsUpNothing checks that every page is answered while a search runs, also that of
// another rejected pod, and that the search ends when its reader leaves.
func TestSlowSearchHoldsUpNothing(t *testing.T) {
	r := newRig(t)
	began, ended := r.slow("endless")
	r.admit("a", 1)
	r.admit("endless", 9)
	r.admit("large", 9)
	r.serve()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.ask(ctx, "/api/explain?pod=default/endless")
		left <- err
	}()
	<-began
	for _, path := range []string{
		"/", "/api/map.svg", "/api/state", "/api/history", "/api/rejections", "/api/pods/uid-a",
		"/api/explain?pod=default/a", "/api/explain?pod=default/large", "/api/rejections/2",
	} {
		if status, err := r.ask(t.Context(), path); status != http.StatusOK {
			t.Errorf("%s: %d %v", path, status, err)
		}
	}
	if !r.admit("small", 1) {
		t.Error("small is rejected")
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the reader that left got %v", err)
	}
	<-ended
}

// TestSearchesEndWithTheAgent checks that an agent that stops does not wait for searches.
func TestSearchesEndWithTheAgent(t *testing.T) {
	r := newRig(t)
	began, ended := r.slow("endless")
	r.admit("endless", 9)
	ctx, stop := context.WithCancel(t.Context())
	h := r.web.Handler(ctx, http.NotFoundHandler())
	served := make(chan *httptest.ResponseRecorder)
	go func() {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/api/rejections/1", nil))
		served <- recorder
	}()
	<-began
	stop()
	<-ended
	if made := <-served; made.Body.Len() > 0 {
		t.Errorf("answered: %s", made.Body)
	}
}

// TestSearchesAreBounded checks that at most maxSearches run at the same time, and that those that
// wait for a turn end with their readers.
func TestSearchesAreBounded(t *testing.T) {
	r := newRig(t)
	var names []string
	for i := range maxRejections {
		names = append(names, fmt.Sprintf("l%d", i))
		r.admit(names[i], 9)
	}
	began, _ := r.slow(names...)
	ctx, leave := context.WithCancel(t.Context())
	answers := make(chan *httptest.ResponseRecorder, maxRejections)
	h := r.web.Handler(t.Context(), http.NotFoundHandler())
	for i := range maxRejections {
		go func() {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("/api/rejections/%d", i+1), nil))
			answers <- recorder
		}()
	}
	for range maxSearches {
		<-began
	}
	if !r.admit("small", 1) {
		t.Error("small is rejected")
	}
	leave()
	busy := 0
	for range maxRejections {
		switch made := <-answers; {
		case made.Code == http.StatusServiceUnavailable && made.Header().Get("Retry-After") != "":
			busy++
		case made.Body.Len() > 0:
			t.Fatalf("for nobody: %s", made.Body)
		}
	}
	if most := maxRejections - maxSearches - waitingSearches; busy > most {
		t.Errorf("%d are rejected, want at most %d", busy, most)
	}
	if r.web.searched.state != nil {
		t.Error("remedies were kept that nobody waited for")
	}
}

// TestEstimatedPodIsMarked checks the marks on the map, in the pod's assignments, and in its
// explanation.
func TestEstimatedPodIsMarked(t *testing.T) {
	r := newRig(t)
	guess := pod("guess", 0)
	guess.Estimated = true
	guess.Containers = []request.Container{{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated}}
	if _, err := r.engine.Admit(t.Context(), guess); err != nil {
		t.Fatal(err)
	}
	r.admit("known", 1)
	text := r.explained("default/guess").Text(terminal.Style{}, false)
	for _, want := range []string{"Guaranteed, plain; estimated from cgroup numbers; ", "note " + node.EstimatedNote, "what it asks for is not known"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
	if text := r.explained("default/known").Text(terminal.Style{}, true); strings.Contains(text, "estimated") {
		t.Errorf("of a pod that is known this is said:\n%s", text)
	}
	for path, want := range map[string]string{"/api/pods/uid-guess": `"estimated":true`, "/api/state": `"estimated":true`, "/api/map.svg": "shared pool, estimated from cgroup numbers", "/page.js": "p.estimated ?"} {
		if shown := r.get(path); !strings.Contains(shown.Body.String(), want) {
			t.Errorf("%s does not show %s: %d", path, want, shown.Code)
		}
	}
	if shown := r.get("/api/pods/uid-known").Body.String(); strings.Contains(shown, "estimated") {
		t.Errorf("a pod that is known is shown as %s", shown)
	}
}

// TestExplainResized checks that the decision that admitted a pod is not presented as the decision
// about its present size, and that the answer has the reason why its last resize was rejected.
func TestExplainResized(t *testing.T) {
	r := newRig(t)
	veto := ""
	r.web.config.Veto = func(string) string { return veto }
	r.admit("a", 2)
	if _, err := r.engine.Resize(t.Context(), pod("a", 3)); err != nil {
		t.Fatal(err)
	}
	e := r.explained("default/a")
	e.stands(t, "revision 1, and resized or moved in revision 2: ", "this is how the pod would be decided if it came now")
	if !e.DecisionUnknown || e.Since == nil || e.Answer.Rejection != nil {
		t.Errorf("got %+v", e)
	}
	veto = "paddock rejects the resize of the pod default/a: Infeasible: no"
	r.explained("default/a").stands(t, "its last resize was rejected, and it keeps what it has: "+veto)
}
