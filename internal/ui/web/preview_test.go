package web

import (
	"net/http"
	"strings"
	"testing"
)

// TestPreview checks that there is a picture with the pod for each proposal, and one for a pod that
// would be admitted by now.
func TestPreview(t *testing.T) {
	r := newRig(t)
	r.admit("first", 4)
	r.admit("large", 6)
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"0/map.svg", http.StatusNotFound, "rejection 0 is not kept"},
		{"x/map.svg", http.StatusBadRequest, "is not a number"},
		{"1/map.svg", http.StatusNotFound, "there are 2, from 0 on"},
		{"1/map.svg?proposal=2", http.StatusNotFound, "there are 2, from 0 on"},
		{"1/map.svg?proposal=now", http.StatusNotFound, "would be rejected now"},
		{"1/map.svg?proposal=0&colour=red", http.StatusBadRequest, "expected pod, namespace or workload"},
		{"1/map.svg?proposal=0&legend=maybe", http.StatusBadRequest, "expected no, or nothing"},
		{"1/map.svg?proposal=0", http.StatusOK, `data-pod="uid-large"`},
		{"1/map.svg?proposal=1&colour=workload&legend=no", http.StatusOK, `data-pod="uid-large"`},
	} {
		answer := r.get("/api/rejections/" + c.path)
		if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.want) {
			t.Errorf("%s: %d, want %d with %q:\n%s", c.path, answer.Code, c.code, c.want, answer.Body)
		}
	}
	if got := strings.Count(r.get("/api/rejections/1/map.svg?proposal=1").Body.String(), `data-pod="uid-first"`); got != 0 {
		t.Errorf("without default/first it has %d CPUs", got)
	}
	if got := strings.Count(r.get("/api/map.svg").Body.String(), `data-pod="uid-first"`); got != 4 {
		t.Errorf("after the previews default/first has %d CPUs on the map, want 4", got)
	}
	r.release("first")
	if answer := r.get("/api/rejections/1/map.svg?proposal=now"); strings.Count(answer.Body.String(), `data-pod="uid-large"`) != 6 {
		t.Errorf("now: %d\n%s", answer.Code, answer.Body)
	}
}
