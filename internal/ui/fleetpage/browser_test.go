//go:build !race

package fleetpage_test

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/paddock-project/paddock/internal/testing/webuitest"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// screenshots is a directory into which the test writes pictures of the page for a person to look
// at.
var screenshots = flag.String("screenshots", "", "write pictures of the page into this directory")

// figures makes TestPage fail if scrolling is slow. Without it the time is only printed, because a
// busy machine takes longer.
var figures = flag.Bool("figures", false, "fail if a picture of the page takes more than 50 ms")

var rewrite = flag.Bool("rewrite", false, "record the pictures of the page again")

// set gives a control a value and fires the event, as a person's input does.
func set(id, value, event string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`document.getElementById(%[1]q).value = %[2]q; document.getElementById(%[1]q).dispatchEvent(new Event(%[3]q))`, id, value, event), nil)
}

func find(text string) chromedp.Action { return set("search", text, "input") }

// place asks the page where a pod would go.
func place(text string) chromedp.Action {
	return chromedp.Tasks{set("manifest", text, "input"), chromedp.Click("#place button[type=submit]")}
}

// TestPage does what a person does on the page of a fleet of 5,000 nodes.
func TestPage(t *testing.T) {
	b := webuitest.New(t)
	f := fleetOf(t, 5000)
	server := httptest.NewServer(fleetpage.New(fleetpage.Static{Fleet: f}, clock).Handler())
	t.Cleanup(server.Close)
	b.Run(chromedp.Navigate(server.URL + "/#sort=name&group=none&equal=no"))
	b.Await(`window.paddock && paddock.tiles.places.length === 5000 && document.getElementById('nodes-count').textContent === '5,000' && paddock.tiles.drawn >= 0`)
	b.Picture(*screenshots, "fleet")

	t.Run("scrolling", func(*testing.T) {
		// Measure how long each picture takes while the whole fleet passes by. A page is smooth at
		// 16 ms, but this machine may be busy and have no GPU.
		var median float64
		b.Run(chromedp.Evaluate(`(() => { const took = [], s = document.getElementById('tiles');
			for (let y = 0; y < s.scrollHeight; y += 200) { s.scrollTop = y; paddock.tiles.draw(); took.push(paddock.tiles.drawn); }
			s.scrollTop = 0;
			return took.sort((a, b) => a - b)[took.length >> 1]; })()`, &median))
		_, _ = fmt.Fprintf(t.Output(), "page: a picture of 5,000 nodes while the whole fleet passes by\n    %.1f ms, the median of all, target 16 ms\n", median)
		if *figures && median > 50 {
			t.Errorf("a picture takes %.1f ms, want less than 50", median)
		}
	})
	t.Run("keys", func(*testing.T) {
		b.Run(chromedp.Focus("#tiles"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
		b.Await(`paddock.tiles.at === 1 && document.getElementById('current').textContent.startsWith('node-0002, kind node: ') && document.getElementById('current').getAttribute('aria-posinset') === '2'`)
		b.Run(chromedp.KeyEvent(kb.ArrowDown))
		b.Await(`paddock.tiles.at > 10 && paddock.tiles.places[paddock.tiles.at].x === paddock.tiles.places[1].x`)
		b.Run(chromedp.KeyEvent(kb.End))
		b.Await(`paddock.tiles.at === 4999 && document.getElementById('tiles').scrollTop > 1000`)
		b.Run(chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.Enter))
		b.Await(`document.querySelector('#node-map .cpu') && document.getElementById('node-title').textContent === 'node-0001' && location.hash === '#node=node-0001&sort=name&group=none&equal=no'`)
		b.Picture(*screenshots, "fleet-node")
		b.Run(chromedp.KeyEvent(kb.Escape))
		b.Await(`document.getElementById('node').hidden && document.activeElement.id === 'tiles'`)
	})
	t.Run("search", func(*testing.T) {
		b.Run(chromedp.KeyEvent("/"))
		b.Await(`document.activeElement.id === 'search'`)
		b.Run(find("team-a/p-1665"))
		b.Await(`document.getElementById('found').textContent === '1 pod, 1 node' && paddock.tiles.look(paddock.shown.fleet.nodes[4000]) === 'dim'`)
		b.Run(chromedp.Click("#hits-list button"))
		b.Await(`!document.getElementById('node').hidden && document.getElementById('node-body').textContent.includes('team-a/p-1665')`)
		b.Run(find("too-large"))
		b.Await(`document.getElementById('hits-list').textContent === 'team-a/too-large rejected by every node: TopologyAffinityError (cpu)'`)
		b.Run(find(""))
		b.Await(`document.getElementById('hits').hidden`)
	})
	t.Run("where a pod would go", func(*testing.T) { placesPods(b) })
	t.Run("sorted and grouped", func(*testing.T) {
		b.Run(set("sort", "free", "change"), set("group", "zone", "change"))
		b.Await(`paddock.tiles.groups.length === 1 && paddock.tiles.groups[0].title.startsWith('zone-1: 5,000 nodes') && location.hash.includes('sort=free&group=zone')`)
		var sorted bool
		b.Run(chromedp.Evaluate(`paddock.tiles.order.map((n) => n.numa.reduce((s, x) => s + x[4], 0)).every((v, i, all) => i === 0 || all[i - 1] >= v)`, &sorted))
		if !sorted {
			t.Error("the nodes are not sorted by free CPUs")
		}
	})
	b.Quiet()
}

func placesPods(b *webuitest.Browser) {
	b.Run(place("6"))
	b.Await(`document.getElementById('placed').textContent.includes('team-b/asked would go to node-') && paddock.shown.placed.verdicts.length === 5000`)
	b.Await(`paddock.tiles.look(paddock.shown.fleet.nodes.find((n) => n.name === paddock.shown.placed.node)) === 'lands' && document.getElementById('current').textContent.endsWith('team-b/asked would go here')`)
	b.Picture(*screenshots, "fleet-place")
	b.Run(place("9"))
	b.Await(`document.getElementById('placed').textContent.includes('team-b/asked is rejected by every node') && document.getElementById('placed').textContent.includes('4,584 nodes: TopologyAffinityError (cpu)')`)
	b.Run(chromedp.Click("#forget"))
	b.Await(`!paddock.shown.placed && document.getElementById('placed').textContent === '' && paddock.tiles.look(paddock.shown.fleet.nodes[0]) === 'plain'`)
	b.Run(place("<b>x</b>"))
	b.Await(`document.getElementById('placed').textContent.includes('<b>x</b> is no number')`)
}

// TestPageFollows checks that the page follows a cluster that changes, node by node if the set of
// nodes stays the same. The page shows since when the cluster is not followed and that the server
// does not answer, and it goes on with the next server.
func TestPageFollows(t *testing.T) {
	b := webuitest.New(t)
	first := fleetOf(t, 8)
	now := newMoving(first)
	server := httptest.NewServer(fleetpage.New(now, clock).Handler())
	address := server.Listener.Addr().String()
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`window.paddock && paddock.tiles.places.length === 8 && document.getElementById('connection').textContent === 'live' && document.getElementById('counters').hidden`)
	b.Run(chromedp.Evaluate(`paddock.firstTile = paddock.tiles.places[1].node`, nil))
	next := with(t, first, "node-0002", pod("team-c/late", 4))
	next.Counters = []fleetpage.Counter{{RejectedClass: view.RejectedClass{Kind: "node", Class: "9 CPUs", Cause: "too large", Rejected: 1200, Nodes: 2}, LastHour: 3}, {RejectedClass: view.RejectedClass{Kind: "node", Class: "1 CPU", Cause: "y", Rejected: 1, Nodes: 1}}}
	next.Lately = []fleetpage.Lately{{Time: "2026-11-22T12:00:00Z", Node: "node-0003", Pod: "team-d/huge", Class: "9 CPUs", Cause: "too large", Message: "9 CPUs do not fit"}}
	next.LeftOut = []fleetpage.Note{{Node: "node-0099", Text: "its policy is <b>newer</b>"}}
	now.set(fleetpage.Moment{Fleet: next})
	b.Await(`paddock.firstTile.pods === 1 && paddock.tiles.places[1].node === paddock.firstTile && document.getElementById('left-list').textContent === 'node-0099: its policy is <b>newer</b>' && document.getElementById('counters-rows').textContent.startsWith('node1,20032')`)
	b.Run(find("huge"))
	b.Await(`document.getElementById('found').textContent === '0 pods, 1 node, 1 rejected' && document.getElementById('hits-list').textContent.includes('9 CPUs do not fit') && paddock.tiles.look(paddock.shown.fleet.nodes[2]) === 'plain'`)
	b.Run(chromedp.Evaluate(`paddock.hitsOfHuge = paddock.shown.hits; 0`, nil), find("too large"))
	b.Await(`paddock.shown.hits !== paddock.hitsOfHuge && document.getElementById('counters-rows').children[1].hidden && !document.getElementById('counters-rows').children[0].hidden`)
	b.Run(chromedp.Click("#hits-list button"))
	b.Await(`document.getElementById('node-title').textContent === 'node-0003' && document.getElementById('node-body').textContent.includes('Rejected here')`)
	now.set(fleetpage.Moment{Fleet: next, Since: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Why: "pods: connection refused"})
	b.Await(`document.getElementById('stale').textContent.includes('is not followed since') && document.getElementById('stale').textContent.includes('2026') && document.getElementById('stale').textContent.includes('pods: connection refused')`)
	b.Picture(*screenshots, "fleet-stale")
	now.set(fleetpage.Moment{Fleet: fleetOf(t, 9)})
	b.Await(`paddock.tiles.places.length === 9 && document.getElementById('stale').hidden && document.getElementById('counters').hidden`)
	server.CloseClientConnections()
	server.Close()
	b.Await(`document.getElementById('lost').textContent.startsWith('paddock fleet serve does not answer') && document.getElementById('connection').className === 'off'`)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &http.Server{Handler: fleetpage.New(fleetpage.Static{Fleet: fleetOf(t, 5)}, clock).Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = again.Serve(listener) }()
	t.Cleanup(func() { _ = again.Close() })
	b.Await(`paddock.tiles.places.length === 5 && document.getElementById('lost').hidden && document.getElementById('connection').className === 'on'`)
	b.Quiet()
}

// TestFile checks the page as one file: it loads nothing, shows and searches the fleet, and has no
// box for manifests.
func TestFile(t *testing.T) {
	b := webuitest.New(t)
	var page bytes.Buffer
	f := fleetOf(t, 40)
	f.Answer.Scarcity = lacking(1)
	if err := f.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "fleet.html")
	if err := os.WriteFile(name, page.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	b.Run(chromedp.Navigate("file://" + name))
	b.Await(`window.paddock && paddock.tiles.places.length === 40 && document.getElementById('asking').hidden && document.getElementById('scarce-shapes').textContent.startsWith('12 pods: 64 CPUs') && document.getElementById('scarce-more').hidden`)
	b.Run(find("team-a/p-7"))
	b.Await(`document.getElementById('found').textContent === '1 pod, 1 node'`)
	b.Run(chromedp.Evaluate(`document.querySelector('#hits-list button').click()`, nil))
	b.Await(`!document.getElementById('node').hidden && document.getElementById('node-body').textContent.includes('team-a/p-7')`)
	if loads := b.Text(`JSON.stringify(performance.getEntriesByType('resource').map((e) => e.name).filter((n) => !n.startsWith('data:')))`); loads != "[]" {
		t.Errorf("the file loads %s", loads)
	}
	b.Picture(*screenshots, "fleet-file")
	b.Quiet()
}

// TestPictures compares the page of a fleet and of one of its nodes with recorded pictures, on a
// laptop, a tablet and a phone, light and dark.
func TestPictures(t *testing.T) {
	b := webuitest.New(t)
	server := httptest.NewServer(fleetpage.New(fleetpage.Static{Fleet: fleetOf(t, 40)}, clock).Handler())
	t.Cleanup(server.Close)
	for _, size := range webuitest.Sizes {
		b.Open(size, server.URL+"/#node=node-0002")
		b.Await(`window.paddock && paddock.tiles.places.length === 40 && paddock.tiles.drawn >= 0 && document.querySelector('#node-map .cpu')`)
		b.Await(`document.documentElement.scrollWidth <= window.innerWidth`)
		b.Compare("fleet-"+size.String(), *rewrite, *screenshots)
	}
	b.Quiet()
}
