package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// next handles all requests that are not for the web.
func next(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "next") }

// get sends a request to the handler without a network.
func (r *rig) get(path string) *httptest.ResponseRecorder {
	r.t.Helper()
	recorder := httptest.NewRecorder()
	r.web.Handler(r.t.Context(), http.HandlerFunc(next)).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

// read requests a document.
func read[T any](r *rig, path string) T {
	r.t.Helper()
	var document T
	answer := r.get(path)
	if answer.Code != http.StatusOK {
		r.t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	return document
}

// TestHistory checks that every written state is listed with its change, and that each can be
// shown.
func TestHistory(t *testing.T) {
	r := newRig(t)
	r.admit("a", 2)
	r.admit("b", 1)
	r.release("a")
	var got []string
	for _, m := range read[History](r, "/api/history").Moments {
		s := read[State](r, fmt.Sprintf("/api/state?revision=%d", m.Revision))
		tags := ""
		for _, c := range s.CPUs {
			tags += "[" + c.Tag + "]"
		}
		got = append(got, fmt.Sprintf("%d %s %s", m.Revision, tags, m.Change))
	}
	want := []string{
		"0 [][][][][][][][] the first state that was seen, with 0 pods",
		"1 [A1][A1][][][][][][] admitted default/a",
		"2 [A1][A1][B1][][][][][] admitted default/b",
		"3 [][][B1][][][][][] released default/a",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHistoryIsBounded checks that the last states are kept, and that older ones are reported as
// gone.
func TestHistoryIsBounded(t *testing.T) {
	r := newRig(t)
	r.fill(Kept + 100)
	moments := read[History](r, "/api/history").Moments
	last := uint64(2 * (Kept + 100))
	if n := len(moments); n != Kept || moments[n-1].Revision != last || moments[0].Revision != last-Kept+1 {
		t.Errorf("%d moments from %d to %d", n, moments[0].Revision, moments[n-1].Revision)
	}
	if n := len(r.web.history.moments); n > 2*Kept {
		t.Errorf("%d states are held", n)
	}
	if answer := r.get("/api/state?revision=7"); answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), "the history goes from 1201 to 2200") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// TestPod checks since when a pod is admitted, and that the explanation is exactly the decision
// that admitted it.
func TestPod(t *testing.T) {
	r := newRig(t)
	r.admit("a", 2)
	before := r.engine.State()
	plan, err := r.engine.Admit(t.Context(), pod("b", 3))
	if err != nil {
		t.Fatal(err)
	}
	want := view.ExplanationOf(before, plan, nil).Text(terminal.Style{}, false)
	r.release("a")
	p := read[Pod](r, "/api/pods/uid-b")
	if p.DecisionUnknown || p.Since == nil || p.Explanation != want || p.CPUs != plan.Grant.CPUs().String() {
		t.Errorf("got %+v\nwant the explanation\n%s", p, want)
	}
	r.fill(Kept / 2) // The revision that admitted it is no longer kept, but the reason is.
	if p = read[Pod](r, "/api/pods/uid-b"); p.DecisionUnknown || p.Since == nil || p.Explanation != want {
		t.Errorf("after %d revisions: %+v", Kept, p)
	}
	if len(r.web.admitted) != 1 {
		t.Errorf("%d admissions are kept for one pod", len(r.web.admitted))
	}
	restarted := &rig{t: t, engine: r.engine, web: New(r.web.config)}
	if p = read[Pod](restarted, "/api/pods/uid-b"); !p.DecisionUnknown || p.Since != nil || !strings.Contains(p.Explanation, "admitted default/b") {
		t.Errorf("after a restart: %+v", p)
	}
	if answer := r.get("/api/pods/nobody"); answer.Code != http.StatusNotFound {
		t.Errorf("nobody: %d", answer.Code)
	}
}

// TestRejections checks that the newest rejection is first and has its account, and that repeated
// rejections are one entry.
func TestRejections(t *testing.T) {
	r := newRig(t)
	r.admit("a", 3)
	for range 3 {
		r.admit("large", 6)
	}
	r.disk.broken.Store(true)
	r.admit("unlucky", 1)
	r.disk.broken.Store(false)
	list := read[[]Rejected](r, "/api/rejections")
	if len(list) != 2 || list[0].Pod != "default/unlucky" || !strings.Contains(list[0].Error, "no space left") || list[0].Rejection != nil {
		t.Fatalf("%+v", list)
	}
	large := list[1]
	if large.Times != 3 || large.Rejection == nil || large.Rejection.Rule == "" || len(large.Rejection.Nodes) != 2 ||
		large.Rejection.Nodes[0].Holders[0].Pod != "default/a" || !strings.Contains(large.Explanation, "rejected default/large") {
		t.Errorf("%+v", large)
	}
	for i := range 2 * maxRejections {
		r.admit(fmt.Sprintf("l%d", i), 9)
	}
	if n := len(read[[]Rejected](r, "/api/rejections")); n != maxRejections {
		t.Errorf("%d refusals are kept", n)
	}
}

// TestRule checks that the page links to the rule of a rejection.
func TestRule(t *testing.T) {
	r := newRig(t)
	if answer := r.get("/rules/R-HINT-62"); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "topologyManagerPolicy restricted") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	// A browser gets a page with the Markdown of the rule book as HTML.
	request, recorder := httptest.NewRequest(http.MethodGet, "/rules/R-CPU-40", nil), httptest.NewRecorder()
	request.Header.Set("Accept", "text/html,application/xhtml+xml")
	r.web.Handler(t.Context(), http.HandlerFunc(next)).ServeHTTP(recorder, request)
	if body := recorder.Body.String(); !strings.Contains(body, "<h1>R-CPU-40</h1>") || !strings.Contains(body, "<code>not enough cpus available") || strings.Contains(body, "<n>") {
		t.Errorf("%s", body)
	}
	for _, id := range []string{"R-HINT-" + "999", "something"} {
		if answer := r.get("/rules/" + id); answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), "there is no rule "+id) {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
}

// TestReadOnly checks that no request changes anything, that every answer has the policy, and that
// other requests go to the next handler.
func TestReadOnly(t *testing.T) {
	r := newRig(t)
	h := r.web.Handler(t.Context(), http.HandlerFunc(next))
	for _, path := range []string{"/", "/page.js", "/pods.js", "/rejections.js", "/text.js", "/page.css", "/map.css", "/api/map.svg", "/api/state", "/api/history", "/api/rejections"} {
		answer := r.get(path)
		policy := answer.Header().Get("Content-Security-Policy")
		if answer.Code != http.StatusOK || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d, %q", path, answer.Code, policy)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
			if got := recorder.Body.String(); got != "next" && recorder.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s", method, path, recorder.Code, got)
			}
		}
	}
	if got := r.get("/metrics").Body.String(); got != "next" {
		t.Errorf("/metrics: %s", got)
	}
	for _, name := range []string{"index.html", "page.css", "page.js", "pods.js", "rejections.js"} {
		text, err := page.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"http://", "https://", "innerHTML", "eval(", " style=", "onclick=\""} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s holds %s", name, bad)
			}
		}
	}
}

// events is a reader of a stream.
type events struct {
	t     *testing.T
	lines *bufio.Scanner
	close func() error
}

func (r *rig) follow() *events {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.server.URL+"/events", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		r.t.Fatal(answer.Status)
	}
	return &events{t: r.t, lines: bufio.NewScanner(answer.Body), close: answer.Body.Close}
}

// next reads one event.
func (e *events) next() (name, data string) {
	e.t.Helper()
	for e.lines.Scan() {
		key, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch key {
		case "event":
			name = value
		case "data":
			data = value
		case "":
			if name != "" {
				return name, data
			}
		}
	}
	e.t.Fatal("the stream ended:", e.lines.Err())
	return "", ""
}

// TestEvents checks that a stream begins with hello and then reports everything that happens, also
// when several changes come at once.
func TestEvents(t *testing.T) {
	r := newRig(t)
	r.serve()
	e := r.follow()
	name, data := e.next()
	var hello Hello
	if err := json.Unmarshal([]byte(data), &hello); err != nil || name != "hello" || hello.Instance != read[History](r, "/api/history").Instance {
		t.Fatalf("%s %s %v", name, data, err)
	}
	r.admit("a", 2)
	r.fill(100)
	r.admit("large", 9)
	revision, rejections := uint64(0), 0
	for revision < 201 || rejections < 1 {
		name, data = e.next()
		var change Change
		if err := json.Unmarshal([]byte(data), &change); err != nil || name != "change" {
			t.Fatalf("%s %s %v", name, data, err)
		}
		for _, m := range change.Moments {
			if m.Revision != revision+1 {
				t.Fatalf("revision %d after %d", m.Revision, revision)
			}
			revision = m.Revision
		}
		rejections = change.Rejections
	}
}

// TestNotice checks that a stream and the history report why the map is not in force, and that it
// is in force again.
func TestNotice(t *testing.T) {
	r := newRig(t)
	var unmanaged atomic.Bool
	r.web.config.Notice = func() string {
		if unmanaged.Load() {
			return "the kubelet manages this node"
		}
		return ""
	}
	r.serve()
	e := r.follow()
	if name, data := e.next(); name != "hello" {
		t.Fatal(name, data)
	}
	for _, want := range []bool{true, false} {
		unmanaged.Store(want)
		r.admit("a", 1) // It makes the stream look at once.
		r.web.Released("a")
		for {
			name, data := e.next()
			if name != "notice" {
				continue
			}
			if strings.Contains(data, "the kubelet manages this node") != want {
				t.Errorf("aside %t: %s", want, data)
			}
			break
		}
		if got := read[History](r, "/api/history").Notice; (got != "") != want {
			t.Errorf("aside %t: the history says %q", want, got)
		}
	}
}

// TestStreamsAreBounded checks that one stream too many is asked to retry later, and that there is
// room again when a stream ends.
func TestStreamsAreBounded(t *testing.T) {
	r := newRig(t)
	server := r.serve()
	streams := make([]*events, maxStreams)
	for i := range streams {
		streams[i] = r.follow()
		streams[i].next()
	}
	answer, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s", answer.Status)
	}
	if err := streams[0].close(); err != nil {
		t.Fatal(err)
	}
	r.web.streams <- struct{}{} // Wait until the stream has ended.
	<-r.web.streams
}
