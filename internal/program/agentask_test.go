package program

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestExplainWaitsNotForever checks that the command does not wait forever for an agent that
// accepts the request and stays silent.
func TestExplainWaitsNotForever(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	_, _, err := askAgent(t.Context(), url.URL{Scheme: "http", Host: strings.TrimPrefix(server.URL, "http://")}, 50*time.Millisecond)
	if err == nil || err.Error() != "no answer within 50ms; is this the agent's listen address?" {
		t.Errorf("got %v", err)
	}
}
