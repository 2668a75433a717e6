//go:build !race

package fleetpage_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/webuitest"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// counted returns the fleet of fleetOf as that of a cluster whose nodes rejected pods.
func counted(t *testing.T, n int) *fleetpage.Fleet {
	t.Helper()
	f := fleetOf(t, n)
	f.Counted = &view.FleetRejections{RejectionRate: view.RateOf(n, 30, 1000, 0), Kinds: []view.RejectingKind{{Kind: "node", RejectionRate: view.RateOf(n, 30, 1000, 0)}}}
	for i := range 20 {
		f.Counters = append(f.Counters, fleetpage.Counter{RejectedClass: view.RejectedClass{Kind: "node", Class: fmt.Sprint(i+2, " CPUs"), Cause: "too large", Rejected: 1, Nodes: 1}})
	}
	return f
}

// TestLargeFleet checks what a page of more than 200 nodes shows at first, that equal nodes are one
// tile which opens to their names, that the kinds and the histogram choose nodes, and that the
// address has all of it: a link shows the same view, and going back the one before.
func TestLargeFleet(t *testing.T) {
	b := webuitest.New(t)
	server := httptest.NewServer(fleetpage.New(fleetpage.Static{Fleet: counted(t, 300)}, clock).Handler())
	t.Cleanup(server.Close)
	b.Run(chromedp.Navigate(server.URL))
	// 200 nodes are empty, and 25 each have a pod of 2, 4, 6 and 8 CPUs. CPU 0 is reserved.
	b.Await(`window.paddock && paddock.tiles.places.length === 5 && paddock.tiles.places.reduce((n, p) => n + p.nodes.length, 0) === 300 && paddock.tiles.groups[0].title.startsWith('node: 300 nodes, 4,000 CPUs free')`)
	b.Await(`document.getElementById('sort').value === 'stranded' && document.getElementById('group').value === 'kind' && document.getElementById('equal').checked && location.hash === ''`)
	b.Await(`[...document.getElementById('kinds-rows').children].map((r) => r.textContent).join() === 'nodesingle-numa-node300100500 (11 %)4,000' + document.querySelector('[data-title=Stranded]').textContent + '100 GiB of 18.8 TiBnone8 CPUs30 (3.0 %)'`)
	b.Run(chromedp.Evaluate(`paddock.large = paddock.tiles.places.findIndex((p) => p.nodes.length === 200); paddock.tiles.go(paddock.large); document.getElementById('tiles').focus()`, nil), chromedp.KeyEvent("\r"))
	b.Await(`document.getElementById('node-title').textContent === '200 equal nodes' && document.querySelectorAll('#node-body li').length === 200 && location.hash === '#like=node-0002' && document.getElementById('current').textContent.startsWith('200 equal nodes, such as node-0002, kind node: each has 15 CPUs free')`)
	b.Run(chromedp.Click("#node-body li:nth-child(2) button"))
	b.Await(`document.getElementById('node-title').textContent === 'node-0003' && location.hash === '#node=node-0003' && document.querySelector('#node-map .cpu') && paddock.tiles.chosen === paddock.large`)
	b.Run(chromedp.NavigateBack())
	b.Await(`document.getElementById('node-title').textContent === '200 equal nodes'`)
	b.Run(chromedp.NavigateBack())
	b.Await(`document.getElementById('node').hidden && location.hash === ''`)
	b.Run(chromedp.Click("#histogram li:nth-child(4) button")) // 4 to 7 free CPUs
	b.Await(`paddock.tiles.places.length === 1 && paddock.tiles.places[0].nodes.length === 25 && document.getElementById('only').textContent === '25 nodes of 4 to 7 free CPUs' && location.hash === '#free=4'`)
	b.Run(chromedp.Click("#kinds-rows button"), set("sort", "pods", "change"), chromedp.Click("#equal"), find("p-7"))
	b.Await(`location.hash === '#q=p-7&kind=node&free=4&sort=pods&equal=no' && paddock.tiles.places.length === 25 && document.getElementById('found').textContent.startsWith('11 pods')`)
	b.Run(chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#q=p-7&kind=node&free=4&sort=pods&equal=no"))
	b.Await(`window.paddock && paddock.tiles.places.length === 25 && document.getElementById('found').textContent.startsWith('11 pods') && document.getElementById('search').value === 'p-7' && document.querySelector('#kinds-rows button').getAttribute('aria-pressed') === 'true'`)
	b.Run(chromedp.Click("#all"))
	b.Await(`paddock.tiles.places.length === 300 && document.getElementById('all').hidden`)
	b.Quiet()
}

// lacking returns what rejected pods of n shapes lack on 24 NUMA nodes. The first shape has 12
// pods.
func lacking(n int) *view.FleetScarcity {
	s := &view.FleetScarcity{}
	for i := range n {
		shape := view.FleetScarce{
			Pods: int64(12 - i), Example: fmt.Sprintf("team-%c/train-0", 'a'+i), NUMANodes: 24, Wanted: []explain.Amount{{Resource: request.CPU, Value: int64(64 - i)}, {Resource: request.Memory, Value: 256 * gib}},
			Several: 4, Missing: []view.FleetLack{{Resource: request.CPU, Alone: 20, WithOthers: 4, Least: int64(2 + i), Most: 30}},
			Reserved: []view.FleetReserved{{Resource: request.CPU, Wanted: int64(64 - i), Reserved: 2, Places: 10}},
			Smaller:  []view.FleetSmaller{{Change: explain.Change{Container: "main", Resource: request.CPU, From: int64(64 - i), To: int64(60 - i)}, Pods: int64(8 - i)}},
		}
		s.Shapes, s.Pods = append(s.Shapes, shape), s.Pods+shape.Pods
	}
	s.Alone = []view.FleetScarcest{{Resource: request.CPU, Pods: s.Pods}}
	return s
}

// TestScarce checks that what rejected pods lack comes before the nodes, with five shapes at first,
// on a desktop and a phone. A change of one shape changes no element of the others, and the part
// goes away with the last rejected pod.
func TestScarce(t *testing.T) {
	b := webuitest.New(t)
	first := counted(t, 300)
	first.Answer.Scarcity = lacking(7)
	first.Answer.Scarcity.MoreShapes, first.Answer.Scarcity.MorePods = 3, 4
	now := newMoving(first)
	server := httptest.NewServer(fleetpage.New(now, clock).Handler())
	t.Cleanup(server.Close)
	const before = `document.getElementById('scarce').getBoundingClientRect().bottom <= document.getElementById('overview').getBoundingClientRect().top`
	for _, width := range []int{1440, 390} {
		b.Open(webuitest.Size{Width: width}, server.URL)
		b.Await(`window.paddock && document.getElementById('scarce-shapes').children.length === 5 && document.getElementById('connection').textContent === 'live' && ` + before +
			fmt.Sprintf(` && window.innerWidth === %[1]d && document.documentElement.scrollWidth <= %[1]d`, width))
		b.Picture(*screenshots, fmt.Sprint("fleet-scarce-", width))
	}
	want := "12 pods: 64 CPUs and 256Gi of memory on one NUMA node\n" +
		"only CPUs are missing on 20 of 24 NUMA nodes, 2 CPUs at least; several are missing on 4\n" +
		"2 reserved CPUs keep 64 CPUs off 10 of 24 NUMA nodes, however empty\n" +
		"60 CPUs instead of 64 in container main: the fleet takes 8 of them\n" +
		"such as team-a/train-0"
	if got := b.Text(`[...document.querySelectorAll('#scarce-shapes > li:first-child :is(h3, li, p)')].map((e) => e.textContent).join('\n')`); got != want {
		t.Errorf("the first shape is\n%s\nwant\n%s", got, want)
	}
	b.Await(`document.getElementById('scarce-count').textContent === 'and 5 more shapes with 17 pods' && !document.getElementById('scarce-others').checkVisibility()`)
	b.Run(chromedp.Click("#scarce-count"))
	b.Await(`document.getElementById('scarce-others').checkVisibility() && document.getElementById('scarce-others').children.length === 2 && document.getElementById('scarce-unlisted').textContent === 'Not listed: 3 more shapes with 4 pods.'`)
	b.Run(chromedp.Evaluate(`paddock.kept = [...document.querySelectorAll('#scarce-shapes > li')]`, nil))
	next := with(t, first, "node-0002", pod("team-c/late", 3))
	next.Answer.Scarcity = lacking(7)
	next.Answer.Scarcity.Shapes[1].Pods = 10
	now.set(fleetpage.Moment{Fleet: next})
	b.Await(`document.querySelector('#scarce-shapes > li:nth-child(2)').textContent.startsWith('10 pods') && [...document.querySelectorAll('#scarce-shapes > li')].filter((e) => paddock.kept.includes(e)).length === 4 && document.getElementById('scarce-more').open && document.getElementById('scarce-unlisted').textContent === ''`)
	none := with(t, next, "node-0003", pod("team-c/later", 3))
	none.Answer.Scarcity = nil
	now.set(fleetpage.Moment{Fleet: none})
	b.Await(`document.getElementById('scarce').hidden && document.getElementById('scarce-shapes').children.length === 0`)
	b.Quiet()
}

// TestPhone checks that the rejections of many nodes are one tap away on a phone, where no part of
// the page is wider than the screen.
func TestPhone(t *testing.T) {
	b := webuitest.New(t)
	f := counted(t, 300)
	server := httptest.NewServer(fleetpage.New(fleetpage.Static{Fleet: f}, clock).Handler())
	t.Cleanup(server.Close)
	const narrow = `window.innerWidth === 390 && document.documentElement.scrollWidth <= 390`
	b.Open(webuitest.Size{Width: 390}, server.URL)
	b.Await(`window.paddock && paddock.tiles.drawn >= 0 && document.getElementById('nav-rejections').textContent === '31' && ` + narrow)
	b.Run(chromedp.Click("nav [data-view=rejections]"))
	b.Await(`location.hash === '#view=rejections' && document.activeElement.id === 'counters-title' && document.getElementById('counters-title').getBoundingClientRect().top < 500 && document.getElementById('tiles').offsetParent === null && document.getElementById('causes').offsetParent && ` + narrow)
	b.Picture(*screenshots, "fleet-phone-rejections")
	b.Run(chromedp.Click("nav [data-view=place]"))
	b.Await(`document.getElementById('manifest').offsetParent && document.getElementById('causes').offsetParent === null && ` + narrow)
	b.Run(chromedp.NavigateBack(), chromedp.NavigateBack())
	b.Await(`location.hash === '' && document.getElementById('tiles').offsetParent && ` + narrow)
	b.Run(chromedp.Evaluate(`paddock.tiles.go(0); document.getElementById('tiles').focus()`, nil), chromedp.KeyEvent("\r"))
	b.Await(`document.activeElement.id === 'node' && document.getElementById('node').getBoundingClientRect().top < document.getElementById('tiles').getBoundingClientRect().top && ` + narrow)
	b.Quiet()
}

// TestChangeKeepsElements checks that a change of one node changes the texts that differ, and no
// other element of the page.
func TestChangeKeepsElements(t *testing.T) {
	b := webuitest.New(t)
	first := counted(t, 300)
	now := newMoving(first)
	server := httptest.NewServer(fleetpage.New(now, clock).Handler())
	t.Cleanup(server.Close)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`window.paddock && paddock.tiles.places.length === 5 && document.getElementById('connection').textContent === 'live'`)
	b.Run(chromedp.Evaluate(`document.querySelector('#kinds-rows button').focus(); paddock.changed = 0; new MutationObserver((all) => { for (const m of all) for (const n of [...m.addedNodes, ...m.removedNodes]) if (n.nodeType === 1) paddock.changed++; }).observe(document.body, { childList: true, subtree: true })`, nil))
	next := with(t, first, "node-0002", pod("team-c/late", 3))
	next.Counters = append([]fleetpage.Counter{}, first.Counters...)
	next.Counters[3].LastHour = 1
	now.set(fleetpage.Moment{Fleet: next})
	b.Await(`paddock.tiles.places.length === 6 && document.querySelector('#kinds-rows [data-title=Pods]').textContent === '101' && document.getElementById('counters-rows').children[3].children[2].textContent === '1'`)
	var changed int
	b.Run(chromedp.Evaluate(`paddock.changed`, &changed))
	if changed != 2 { // The row of the counter that grew.
		t.Errorf("%d elements came or went, want 2", changed)
	}
	b.Await(`document.activeElement === document.querySelector('#kinds-rows button')`)
	b.Quiet()
}
