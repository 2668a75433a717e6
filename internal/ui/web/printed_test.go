package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestPrinted checks that the output for commands shows the requested state, and that an invalid
// request is an error.
func TestPrinted(t *testing.T) {
	r := newRig(t)
	r.admit("a", 2)
	for path, want := range map[string]string{
		"form=term&width=100":            "default/a",
		"form=term&width=100&color=true": "\x1b[",
		"form=svg":                       "<style>",
		"form=html":                      "<html",
		"form=json":                      `"pod":"default/a"`,
		"form=term&revision=0":           "0 pods",
	} {
		answer := r.get("/api/map?" + path)
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", path, answer.Code, answer.Body, want)
		}
		if kind := answer.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" {
			t.Errorf("%s: %s", path, kind)
		}
	}
	for path, want := range map[string]string{
		"/api/map":                            "expected term, svg, html or json",
		"/api/map?form=pdf":                   "expected term, svg, html or json",
		"/api/map?form=term&width=1":          "expected a number from 20 to 1000",
		"/api/map?form=term&width=1000000000": "expected a number from 20 to 1000",
		"/api/map?form=term&width=x":          "expected a number from 20 to 1000",
		"/api/map?form=term&revision=999999":  "is not kept",
		"/api/report?revision=x":              "is not a number",
		"/api/defragment?revision=x":          "is not a number",
		"/api/defragment?moves=17":            "expected a number from 1 to 16",
		"/api/defragment?bytes=-1":            "expected a number of bytes",
	} {
		if answer := r.get(path); answer.Code == http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", path, answer.Code, answer.Body, want)
		}
	}
	if got := read[view.Defragmentation](r, "/api/defragment?moves=2&bytes=0&all=true"); got.Machine == "" || got.Before.CPUs == 0 || got.After != got.Before || got.Reason == "" {
		t.Errorf("defragmentation %+v", got)
	}
	if got := read[view.Report](r, "/api/report"); len(got.Usage.Nodes) == 0 || got.Usage.Nodes[0].CPUs.Exclusive == 0 {
		t.Errorf("report %+v", got)
	}
}
