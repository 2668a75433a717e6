package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestExplainAsksStrangers checks that, whatever listens at the address, the error describes what
// came and what to do.
func TestExplainAsksStrangers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection was followed") }))
	defer elsewhere.Close()
	says := func(status int, text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(text))
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"forbidden":    {says(http.StatusForbidden, `{"error": "on the loopback interface only\u001b[2J"}`), "on the loopback interface only\uFFFD[2J"},
		"no such page": {says(http.StatusNotFound, "404 page not found\n"), "the answer 404 Not Found is not one of a Paddock agent"},
		"a page":       {says(http.StatusOK, "<html>"), "the answer is not an explanation"},
		"other JSON":   {says(http.StatusOK, `{"status": "ok"}`), "the answer is not an explanation"},
		"nothing":      {says(http.StatusOK, ""), "the answer is not an explanation"},
		"a redirection": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, elsewhere.URL, http.StatusFound)
		}, "the answer 302 Found is not"},
		"no end": {func(rw http.ResponseWriter, _ *http.Request) {
			for chunk := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := rw.Write(chunk); err != nil {
					return
				}
			}
		}, "the answer is too large: it has more than 8 MiB"},
		"half an answer": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Length", "100")
			says(http.StatusOK, `{"answer":`)(rw, r)
		}, "no answer: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			address := strings.TrimPrefix(server.URL, "http://")
			var stdout, stderr bytes.Buffer
			if code := run([]string{"explain", "default/x", "--agent=" + address}, strings.NewReader(""), &stdout, &stderr); code != 1 || stdout.Len() > 0 {
				t.Errorf("exit code %d, output %s", code, stdout.String())
			}
			if got := stderr.String(); !strings.HasPrefix(got, "paddock: agent at "+address+": ") || !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
