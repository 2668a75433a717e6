package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMapSeesThePods checks that the live map shows the decisions of the agent from its start on.
func TestMapSeesThePods(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2", "large 9")
		handler := a.web.Handler(t.Context(), a.metrics.Handler(false))
		for path, want := range map[string]string{
			"/":               "<title>Paddock</title>",
			"/api/state":      `"machine":"machine"`,
			"/api/history":    `"change":"admitted default/db"`,
			"/api/pods/db":    "admitted default/db",
			"/api/rejections": `"pod":"default/large"`,

			"/api/explain?pod=default/db":    `"assigned":true`,
			"/api/explain?pod=default/large": `"proposals":[{`,
			"/metrics":                       "paddock_build_info",
		} {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), want) {
				t.Errorf("%s: %d, without %s:\n%s", path, recorder.Code, want, recorder.Body)
			}
		}
	})
}
