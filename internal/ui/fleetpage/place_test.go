package fleetpage_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
)

// post asks the page where a pod would go. header is the value of Sec-Fetch-Site; if empty, the
// header is not sent.
func post(ctx context.Context, page http.Handler, header string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/api/place", strings.NewReader("3"))
	if header != "" {
		r.Header.Set("Sec-Fetch-Site", header)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

// TestPlaceIsForItsOwnSite checks that neither another site nor another port of the same host can
// make the page compute.
func TestPlaceIsForItsOwnSite(t *testing.T) {
	page := fleetpage.New(fleetpage.Static{Fleet: fleetOf(t, 2)}, clock).Handler()
	for site, want := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403} {
		if w := post(t.Context(), page, site); w.Code != want {
			t.Errorf("%q: %d %s, want %d", site, w.Code, w.Body, want)
		}
	}
}

// TestPlaceEndsWithItsReader checks that while one question is being answered, a few wait, all
// others are rejected at once, and the page itself is served. When the readers leave, the work
// ends, and none of the questions that waited is read.
func TestPlaceEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 2)
		reads, ended := 0, make(chan error, 1)
		quick := f.Read
		f.Read = func(ctx context.Context, _ []byte) ([]fleet.Pod, []string, error) {
			reads++
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, nil, ctx.Err()
		}
		page := fleetpage.New(fleetpage.Static{Fleet: f}, clock).Handler()
		ctx, leave := context.WithCancel(t.Context())
		const most, all = 9, 40
		answers := make(chan *httptest.ResponseRecorder, all)
		for range all {
			go func() { answers <- post(ctx, page, "") }()
		}
		synctest.Wait()
		for range all - most {
			if w := <-answers; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "try again") {
				t.Fatalf("%d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
			}
		}
		if len(answers) > 0 || reads != 1 {
			t.Errorf("%d more are rejected, %d are read; want 0 and 1", len(answers), reads)
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/fleet", http.NoBody))
		if w.Code != http.StatusOK {
			t.Errorf("the fleet: %d %s", w.Code, w.Body)
		}
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the work ended with %v", err)
		}
		for range most {
			if w := <-answers; w.Body.Len() > 0 {
				t.Errorf("for nobody: %s", w.Body)
			}
		}
		if reads != 1 {
			t.Errorf("%d are read, want 1", reads)
		}
		f.Read = quick
		if w := post(t.Context(), page, ""); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}
