//go:build !race

package fleetcommand_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/internal/testing/webuitest"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
)

// TestLivePage checks that the page follows the cluster in a browser, and that it shows since when
// it does not.
func TestLivePage(t *testing.T) {
	b := webuitest.New(t)
	s := objectstest.New(t)
	fill(t, s)
	live := start(t, s)
	server := httptest.NewServer(fleetpage.New(live, clock).Handler())
	t.Cleanup(server.Close)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`window.paddock && paddock.tiles.places.length === 2 && document.getElementById('causes').textContent.includes('default/large') && document.getElementById('counters-rows').textContent === 'metal4026 CPUstoo large'`)
	s.Set(t, "pods", clustertest.Pod("late", "n2", "4"))
	b.Await(`paddock.tiles.places[1].node.numa.some((n) => n[2] === 4)`)
	var failing atomic.Bool
	failing.Store(true)
	s.Fail(func(r *http.Request) int {
		if failing.Load() && path.Base(r.URL.Path) == "nodes" {
			return http.StatusBadGateway
		}
		return 0
	})
	s.Break()
	b.Await(`document.getElementById('stale').textContent.includes('nodes: the API server answers 502') && paddock.tiles.places.length === 2`)
	failing.Store(false)
	b.Await(`document.getElementById('stale').hidden`)
	b.Quiet()
}
