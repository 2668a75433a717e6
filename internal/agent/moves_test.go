package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestKernels checks that memory is moved on Linux 6.18 and later, or if the operator insists.
func TestKernels(t *testing.T) {
	for _, c := range []struct {
		release string
		policy  node.MovePolicy
		want    bool
		why     string
	}{
		{"6.18.3-amd64\n", node.MovePolicy{Bytes: 1}, true, ""},
		{"7.0.0", node.MovePolicy{Bytes: 1}, true, ""},
		{"6.17.9", node.MovePolicy{Bytes: 1}, false, "6.17.9"},
		{"6.1.0-40-cloud-amd64", node.MovePolicy{Bytes: 1}, false, "stall"},
		{"6.1.0", node.MovePolicy{Bytes: 1, AnyKernel: true}, true, ""},
		{"6.1.0", node.MovePolicy{}, false, ""},
		{"", node.MovePolicy{Bytes: 1}, false, "cannot be read"},
	} {
		got, why := movesMemory(c.policy, c.release)
		if got != c.want || c.why == "" && why != "" || !strings.Contains(why, c.why) {
			t.Errorf("%q: %t %q", c.release, got, why)
		}
	}
}

// askFrom requests moves from an address, with the header by which a browser describes the
// requesting page.
func askFrom(t *testing.T, a *Agent, from net.IP, header, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+movesPath, strings.NewReader(body))
	if header != "" {
		r.Header.Set("Sec-Fetch-Site", header)
	}
	w := httptest.NewRecorder()
	over := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: from, Port: 9925})
	a.handler(t.Context()).ServeHTTP(w, r.WithContext(over))
	return w.Code, w.Body.String()
}

// TestMovesOnRequest checks who may request moves, and the answers.
func TestMovesOnRequest(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2")
		s := a.engine.State()
		g := s.Grants()[0]
		to := scenario.Elsewhere(s, g)
		if to.Rejection != nil {
			t.Fatal(to.Rejection)
		}
		text, err := grantform.Encode(to.Grant)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(from net.IP, header, body string) (int, string) { return askFrom(t, a, from, header, body) }
		here, away := net.IPv4(127, 0, 0, 1), net.IPv4(192, 0, 2, 1)
		move := func(carryOut bool, uid, text string) string {
			var body bytes.Buffer
			if err := json.NewEncoder(&body).Encode(MovesRequest{CarryOut: carryOut, Moves: []MoveRequest{{uid, text}}}); err != nil {
				t.Fatal(err)
			}
			return body.String()
		}
		for name, c := range map[string]struct {
			from         net.IP
			header, body string
			everywhere   bool
			want         int
			text         string
		}{
			"a search without leave":         {here, "", `{"defragment":{"moves":2}}`, false, 403, "does not look for moves on request: set moves.onRequest: true"},
			"too large":                      {here, "", `{"moves":[` + strings.Repeat(" ", maxMovesBody) + `]}`, false, 400, "too large"},
			"no consent":                     {here, "", move(false, g.Pod.UID, string(text)), false, 409, "does not consent"},
			"carried out without leave":      {here, "", move(true, g.Pod.UID, string(text)), false, 403, "moves.onRequest"},
			"from elsewhere":                 {away, "", move(false, g.Pod.UID, string(text)), true, 403, "loopback"},
			"a page of another site":         {here, "cross-site", move(false, g.Pod.UID, string(text)), false, 403, "cross-origin"},
			"no JSON":                        {here, "", "moves", false, 400, "is not valid"},
			"an unknown pod":                 {here, "", move(false, "none", string(text)), false, 409, "no pod"},
			"a damaged grant":                {here, "", move(false, g.Pod.UID, "{}"), false, 409, g.Pod.ID()},
			"no moves":                       {here, "", `{}`, false, 409, "the list of moves is empty"},
			"on request: too many moves":     {here, "", `{"defragment":{"moves":17}}`, false, 409, "17 moves: expected 1 to 16"},
			"on request: other moves by now": {here, "", `{"defragment":{"moves":2,"answer":[{"uid":"u"}]}}`, false, 409, "have changed"},
		} {
			a.config.Map, a.config.Moves.OnRequest = MapLoopback, strings.HasPrefix(name, "on request")
			if c.everywhere {
				a.config.Map = MapEverywhere
			}
			if got, answer := ask(c.from, c.header, c.body); got != c.want || !strings.Contains(answer, c.text) {
				t.Errorf("%s: %d %s, want %d with %q", name, got, answer, c.want, c.text)
			}
		}
	})
}
