//go:build !race

package web

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/paddock-project/paddock/internal/testing/webuitest"
)

// screenshots is a directory into which the test writes pictures of the page for a person to look
// at.
var screenshots = flag.String("screenshots", "", "write pictures of the page into this directory")

var rewrite = flag.Bool("rewrite", false, "record the pictures of the page again")

// patience bounds every wait. It only ends tests that hang; tests on a busy machine are no
// benchmark.
const patience = webuitest.Patience

// browser is a browser that shows the page.
type browser struct {
	*webuitest.Browser
	t *testing.T
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	return &browser{webuitest.New(t), t}
}

// shows waits until the page shows the current state of the node and has nothing left to draw.
func (b *browser) shows(r *rig) {
	b.t.Helper()
	b.Await(fmt.Sprintf(`document.getElementById('moment').dataset.revision === '%d' && document.getElementById('picture').getAttribute('aria-busy') === 'false'`,
		r.engine.State().Generation()))
}

// click clicks with the mouse on the element that a selector finds, when the page is not drawing.
// An element that is redrawn between mouse down and mouse up does not get the click.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.Await(`document.getElementById('picture').getAttribute('aria-busy') === 'false'`)
	b.Run(chromedp.Click(selector, chromedp.ByQuery))
}

func (b *browser) picture(name string) { b.Picture(*screenshots, name) }

const cells = `document.querySelectorAll('#map .cpu')`

// tags is an expression for the texts in the cells.
const tags = `[...` + cells + `].map((c) => (c.querySelector('.tag') || {textContent: ''}).textContent).join(' ').trim()`

// TestPage does what a person does on the page.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 1)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(cells + `.length === 8 && document.getElementById('connection').textContent === 'live'`)
	b.Await(tags + ` === 'A1'`)

	// An admission appears without a reload, and the element with the focus keeps it.
	b.Run(chromedp.Evaluate(`document.getElementById('cpu2').focus(); document.activeElement.mine = true`, nil))
	r.admit("second", 2)
	t.Logf("an admission is seen after %v", b.Await(tags+` === 'A1 B1 B1' || `+tags+` === 'A1   B1 B1' || `+tags+`.split('B1').length === 3`))
	b.Await(`document.activeElement.id === 'cpu2' && document.activeElement.mine === true`)

	// With the keyboard, move to a neighbour and see which pod has it.
	b.Run(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.Enter))
	b.Await(`document.activeElement.id === 'cpu1' && document.getElementById('details-body').textContent.includes('CPU 1, core 1')`)

	// With the mouse, see which pod has it, since when and why.
	b.shows(r)
	b.click("#cpu0 rect")
	b.Await(`['default/first', 'Since', 'Aligned', 'Align'].every((t) => document.getElementById('details-body').textContent.includes(t))`)

	// A rejection appears by itself, with its account.
	r.admit("large", 9)
	b.Await(`document.querySelectorAll('#rejections button').length === 1 && document.getElementById('rejections').textContent.includes('default/large')`)
	b.click("#rejections button")
	b.Await(`[...document.querySelectorAll('#why .proposals li')].some((p) => p.textContent.startsWith('ask for 5 CPUs instead of 9 in container c CPUs on NUMA nodes 0-1'))`)
	b.picture("page")
	b.Quiet()
}

// TestPageRejection checks that the page asks what would admit a pod when the pod's rejection is
// opened, also with the keyboard, and does not ask for other rejections. The view stays open and
// the focus stays when the rejection is repeated.
func TestPageRejection(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 4)
	evil := `<img src=x onerror="document.title='owned'">` + strings.Repeat("n", 253)
	r.admit("other", 9)
	r.admit(evil, 6)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`document.querySelectorAll('#rejections button').length === 2 && !document.querySelector('.proposals')`)
	b.Run(chromedp.Evaluate(`document.querySelector('#rejections button').focus()`, nil), chromedp.KeyEvent(kb.Enter))
	const status = `(document.querySelector('#why [role=status]') || {textContent: ''}).textContent`
	b.Await(`document.querySelectorAll('.proposals').length === 1 && /^\d changes would admit it/.test(` + status + `)`)
	b.Await(`document.activeElement.id === 'why' && document.getElementById('why').textContent.includes('without default/first') && document.getElementById('why').textContent.includes('Tried, in ')`)
	b.Await(`!document.querySelector('img') && document.documentElement.scrollWidth <= window.innerWidth`)
	b.picture("rejection")

	r.admit(evil, 6)
	const first = `document.querySelector('#rejections button')`
	b.Run(chromedp.Evaluate(`document.querySelector('#rejections button').focus()`, nil))
	b.Await(first + `.textContent.includes('(2 times)') && !document.getElementById('why').hidden && document.activeElement === ` + first)
	b.Await(`document.querySelectorAll('.proposals').length === 1`)

	r.release("first")
	b.Run(chromedp.KeyEvent(kb.Enter))
	b.Await(status + ` === 'By now it would be admitted.'`)
	b.Await(`document.title === 'rig – Paddock'`)

	r.web.mu.Lock() // As if others have displaced it, and the page has not learned of it yet.
	r.web.rejections.list = nil
	r.web.mu.Unlock()
	b.Run(chromedp.Evaluate(`document.querySelector('#rejections button').focus()`, nil), chromedp.KeyEvent(kb.Enter))
	b.Await(status + `.includes('is not kept')`)
	b.Quiet()
}

// TestPageRemedy checks that the NUMA nodes that do not fit are marked with the reason, and that
// each proposal shows the map as it would be.
func TestPageRemedy(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 4)
	r.admit("large", 6)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(tags + `.includes('A1') && document.querySelectorAll('#pods button').length === 1`) // Elements that appear above move the one to be clicked.
	b.click("#rejections button")
	b.Await(`document.querySelectorAll('#map .fails').length === 2 && [...document.querySelectorAll('#map .why')].some((w) => w.textContent.includes('needs 6 CPUs, has '))`)
	b.picture("marked")
	b.click(`#why .show[data-proposal="1"]`)
	b.Await(`!document.getElementById('preview').hidden && document.querySelectorAll('#map .cpu[data-pod="uid-large"]:not(.dim)').length === 6 && !document.querySelector('#map .why')`)
	b.Await(`document.querySelectorAll('#map .cpu.dim').length === 2 && !document.querySelector('#map .cpu[data-pod="uid-first"]')`)
	b.picture("preview")
	// The address has the preview, for somebody else.
	b.Await(`location.search.includes('rejection=uid-large') && location.search.includes('preview=1')`)
	b.Run(chromedp.Reload())
	b.Await(`!document.getElementById('preview').hidden && document.querySelectorAll('#map .cpu[data-pod="uid-large"]:not(.dim)').length === 6`)
	b.click("#preview-close")
	b.Await(`document.getElementById('preview').hidden && document.querySelectorAll('#map .cpu[data-pod="uid-first"]').length === 4 && document.querySelectorAll('#map .fails').length === 2`)
	b.Run(chromedp.KeyEvent(kb.Escape))
	b.Await(`document.getElementById('why').hidden && !document.querySelector('#map .fails') && !document.querySelector('#map .why')`)
	b.Quiet()
}

// TestPageMoves checks that a move under way is an arrow from place to place, and a sentence for
// screen readers. Both come and go with the events. The pod shows the move too, and an earlier
// revision shows the arrow again.
func TestPageMoves(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 2)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(tags + ` === 'A1 A1' && document.getElementById('moving').textContent === ''`)
	r.move("first")
	const sentence = "default/first is being moved from CPUs 0-1 to 2-3"
	const says = `document.querySelector('[role=status]#moving').textContent`
	const arrows = `document.querySelectorAll('#map .move.underway')`
	t.Logf("a move is seen after %v", b.Await(says+` === '`+sentence+`.' && `+arrows+`.length === 1`))
	const arrow = arrows + `[0]`
	b.Await(arrow + `.getAttribute('role') === 'img' && ` + arrow + `.getAttribute('aria-label') === '` + sentence + `'`)
	b.Await(`getComputedStyle(` + arrow + `.querySelector('path')).strokeDasharray !== 'none' && document.getElementById('arrowhead') !== null`)
	b.Await(`document.getElementById('cpu2').getAttribute('aria-label').includes('the new place of pod default/first')`)
	b.Await(`document.getElementById('moment').textContent.endsWith('began to move default/first') && document.getElementById('pods').textContent.includes('2 CPUs, being moved')`)
	b.click("#cpu3 rect") // The arrow is over it, but does not take the click.
	b.Await(`document.getElementById('details-body').textContent.includes('from CPUs 0-1 to 2-3; it has both until it is moved')`)
	b.picture("moves")

	r.moved("first", true)
	b.Await(says + ` === '' && ` + arrows + `.length === 0 && document.getElementById('moment').textContent.endsWith(': moved default/first')`)
	b.click("#older")
	b.Await(arrows + `.length === 1 && ` + says + ` === '` + sentence + `.'`)
	b.Quiet()
}

// TestPageSearch checks that matches stay bright and listed, and the rest does not.
func TestPageSearch(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	evil := `<img src=x onerror="document.title='owned'">` + strings.Repeat("n", 253)
	r.admit("plain", 1)
	r.admit(evil, 1)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`document.querySelectorAll('#pods button').length === 2`)
	// The shortcut works from anywhere, and its key is not typed into the field.
	b.Await(`!document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true, cancelable: true})) && document.activeElement.id === 'search' && document.activeElement.value === ''`)
	b.Run(chromedp.SendKeys("#search", "PLAI", chromedp.ByQuery))
	b.Await(`document.querySelectorAll('#pods button').length === 1 && document.querySelectorAll('#map .cpu:not(.dim)').length === 1`)
	b.Await(`location.search === '?search=PLAI'`)
	b.Run(chromedp.KeyEvent(kb.Escape))
	b.Await(`document.querySelectorAll('#map .cpu.dim').length === 0 && location.search === ''`)
	b.click("#pods li:last-child button")
	b.Await(`document.getElementById('details-body').textContent.includes('<img src=x') && document.activeElement.id === 'details'`)
	b.Await(`document.title === 'rig – Paddock' && !document.querySelector('img') && document.documentElement.scrollWidth <= window.innerWidth`)
	b.picture("hostile")
	b.Quiet()
}

// TestPageLateDetails checks that the details of a pod do not take the focus from a reader who went
// on to the search before the node answered: the next letters would not reach the search.
func TestPageLateDetails(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 1)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`document.querySelectorAll('#pods button').length === 1`)
	b.shows(r)
	b.Run(chromedp.Evaluate(`const fetchNow = window.fetch; window.fetch = (...a) => new Promise((answer) => { window.answerNow = () => answer(fetchNow(...a)); })`, nil))
	b.click("#pods button")
	b.Await(`Boolean(window.answerNow) && document.activeElement.dataset.uid === 'uid-first'`)
	b.Run(chromedp.Evaluate(`document.getElementById('search').focus(); window.answerNow()`, nil))
	b.Await(`document.getElementById('details-body').textContent.includes('default/first')`)
	b.Run(chromedp.KeyEvent("first"))
	b.Await(`document.activeElement.id === 'search' && document.activeElement.value === 'first'`)
	b.Quiet()
}

// TestPageSearchFindsRejected checks that the search includes rejected pods and the reasons of
// their rejections.
func TestPageSearchFindsRejected(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("plain", 1)
	r.admit("large", 9)
	r.admit("huge", 40)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`document.querySelectorAll('#rejections button').length === 2`)
	b.Run(chromedp.SendKeys("#search", "hug", chromedp.ByQuery))
	b.Await(`document.querySelectorAll('#rejections button').length === 1 && document.getElementById('rejections').textContent.includes('default/huge') && document.getElementById('rejections-count').textContent === '1 of 2'`)
	b.Await(`document.querySelectorAll('#pods button').length === 0 && document.querySelectorAll('#map .cpu:not(.dim)').length === 0`)
	b.Quiet()
}

// TestPageSharedPool checks that a pod of the node shared pool is shown on the cells that no pod
// has.
func TestPageSharedPool(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("own", 3)
	r.admit("sharing", 0)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`document.querySelectorAll('#pods button').length === 2`)
	b.click("#pods li:last-child button")
	b.Await(`document.getElementById('details-body').textContent.includes('default/sharing') && document.querySelectorAll('#map .cpu.dim').length === 3`)
	b.Await(`document.querySelectorAll('#map .cpu:not(.dim)[data-pod=""]').length === 5`)
	b.Quiet()
}

// TestPageGroups checks that pods are grouped and coloured by namespace and workload, that groups
// and the legend fold, and that the address contains these settings.
func TestPageGroups(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	for _, name := range []string{"web-6d5f7c9b8-x7k2p", "web-6d5f7c9b8-b4k2z", "db-0"} {
		r.admit(name, 1)
	}
	b.Run(chromedp.Navigate(server.URL + "/?group=workload&sort=name"))
	b.Await(`document.querySelectorAll('#pods details').length === 2 && document.querySelectorAll('#pods button').length === 3`)
	b.Await(`[...document.querySelectorAll('#pods summary')].map((s) => s.textContent.trim()).join('; ') === 'default/db 1 pod, 1 CPU; default/web 2 pods, 2 CPUs'`)
	const fills = `[...document.querySelectorAll('#map .cpu')].filter((c) => c.dataset.pod.includes('web')).map((c) => c.querySelector('rect').className.baseVal)`
	b.Await(`new Set(` + fills + `).size === 1`)
	b.click("#pods summary")
	r.admit("other", 1)
	b.Await(`document.querySelectorAll('#pods details').length === 3 && !document.querySelector('#pods details').open`)

	const legend = `document.querySelector('#map svg').textContent.includes('default/db-0 (uid')`
	b.Await(legend)
	b.click("#legend")
	b.Await(`!` + legend + ` && document.getElementById('legend').getAttribute('aria-expanded') === 'false' && location.search.includes('legend=no')`)
	b.Run(chromedp.SetValue("#group", "pod", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById('group').dispatchEvent(new Event('change'))`, nil))
	b.Await(`new Set(` + fills + `).size === 2 && !document.querySelector('#pods details')`)
	b.picture("groups")
	b.Quiet()
}

// TestPageLink checks that the address leads to the same pod, revision and rejection, and that the
// page reports what is gone.
func TestPageLink(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("a", 1)
	r.admit("large", 9)
	r.admit("b", 1)
	b.Run(chromedp.Navigate(server.URL + "/?pod=uid-a&revision=1&rejection=uid-large"))
	b.Await(`document.getElementById('details-body').textContent.includes('default/a') && document.body.classList.contains('past')`)
	b.Await(`document.getElementById('why-title').textContent === 'Why default/large was rejected' && document.getElementById('moment').textContent.startsWith('Revision 1,')`)
	b.Await(`['pod=uid-a', 'revision=1', 'rejection=uid-large'].every((p) => location.search.includes(p))`)

	// The rejection is a mark on the slider, at the revision of its decision.
	b.Await(`document.querySelectorAll('#marks .mark').length === 1 && document.querySelector('.mark').getAttribute('aria-label') === 'Rejected in revision 1: default/large'`)
	// Times are relative for reading, with the zone in the tooltip.
	b.Await(`document.querySelector('#moment time').textContent.match(/^now$|ago$/) && document.querySelector('#moment time').title.includes(' · 20')`)

	b.Run(chromedp.Navigate(server.URL + "/?revision=77"))
	b.Await(`document.getElementById('notice').textContent.startsWith('Revision 77 is not kept') && document.querySelectorAll('#map .cpu').length === 8`)
	b.Quiet()
}

// TestPageLegend: the legend keeps its indentation when it is drawn again.
func TestPageLegend(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	b.Run(chromedp.Navigate(server.URL))
	b.Await(cells + `.length === 8`)
	r.admit("a", 1)
	b.Await(tags + ` === 'A1'`)
	r.admit("b", 1)
	b.Await(tags + `.includes('B1')`)
	b.Await(`[...document.querySelectorAll('#map text[*|space]')].length > 3 && [...document.querySelectorAll('#map text')].filter((t) => t.getAttribute('xml:space')).every((t) => t.getAttributeNS('http://www.w3.org/XML/1998/namespace', 'space') === 'preserve')`)
	b.Quiet()
}

// TestPagePhone checks that on a narrow screen the details appear at the lower edge, over the map.
func TestPagePhone(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("a", 2)
	b.Run(chromedp.EmulateViewport(400, 800), chromedp.Navigate(server.URL))
	b.Await(tags + `.includes('A1')`)
	b.Run(chromedp.Evaluate(`document.querySelector('#cpu0').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, nil))
	const box = `document.getElementById('details').getBoundingClientRect()`
	b.Await(`document.getElementById('details-body').textContent.includes('default/a') && ` + box + `.bottom <= window.innerHeight + 1 && ` + box + `.top > window.innerHeight / 2 - 10`)
	b.picture("phone")
	b.click("#details-close")
	b.Await(`!document.getElementById('details').classList.contains('open')`)
	b.Await(`document.documentElement.scrollWidth <= window.innerWidth`)
	// NUMA nodes are below each other, and large enough for a finger.
	b.Await(`document.getElementById('numa1').getAttribute('x') === document.getElementById('numa0').getAttribute('x') && Number(document.querySelector('#map svg').getAttribute('width')) <= 400`)
	b.Await(`[...document.querySelectorAll('button, select')].filter((e) => e.offsetParent).every((e) => e.getBoundingClientRect().height >= 24 && e.getBoundingClientRect().width >= 24)`)
	b.Quiet()
}

// TestPageWide checks that the map takes the whole width where its texts would be too small beside
// the lists, that the reader can choose otherwise, and that the map can be enlarged.
func TestPageWide(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("a", 2)
	b.Run(chromedp.EmulateViewport(1440, 900), chromedp.Navigate(server.URL))
	b.Await(tags + `.includes('A1')`)
	const scale = `document.querySelector('#map svg').getBoundingClientRect().width / Number(document.querySelector('#map svg').getAttribute('width'))`
	const size = `Math.min(...[...document.querySelectorAll('#map text')].map((e) => parseFloat(getComputedStyle(e).fontSize))) * ` + scale
	b.Await(`document.getElementById('wide').getAttribute('aria-pressed') === 'true' && ` + size + ` >= 11`)
	b.click("#wide")
	b.Await(`!document.querySelector('main').classList.contains('wide') && location.search === '?wide=no'`)
	b.Run(chromedp.Evaluate(`document.getElementById('zoom').value = '2'; document.getElementById('zoom').dispatchEvent(new Event('change'))`, nil))
	b.Await(`location.search.includes('zoom=2') && document.getElementById('map').scrollWidth > 1.9 * document.getElementById('map').clientWidth`)
	// Choosing a CPU is announced.
	b.Run(chromedp.Evaluate(`document.querySelector('#cpu0').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, nil))
	b.Await(`document.getElementById('chosen').textContent.startsWith('CPU 0,')`)
	b.Quiet()
}

// TestPageHistory checks that the slider goes back in time, that new events do not move the reader
// away, and that Live returns to the present.
func TestPageHistory(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("a", 1)
	r.admit("b", 1)
	r.admit("large", 9)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(tags + `.includes('B1') && document.querySelectorAll('#rejections button').length === 1`)
	b.Run(chromedp.Focus("#slider", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	b.Await(`document.getElementById('moment').textContent.startsWith('Revision 1,') && !` + tags + `.includes('B1')`)
	b.Await(`document.querySelectorAll('#rejections button').length === 0`) // The pod was rejected later.
	r.admit("c", 1)
	b.Await(`document.getElementById('slider').max === '3' && document.getElementById('slider').value === '1' && document.body.classList.contains('past')`)
	b.picture("past")
	b.click("#live")
	b.Await(tags + `.includes('C1') && !document.body.classList.contains('past')`)
	b.Quiet()
}

// TestPageSurvivesARestart checks that the page reports that it has lost the agent, and continues
// with the next one.
func TestPageSurvivesARestart(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	r.admit("old", 1)
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	first := &http.Server{Handler: r.web.Handler(t.Context(), http.NotFoundHandler()), ReadHeaderTimeout: patience}
	go func() { _ = first.Serve(listener) }()
	b.Run(chromedp.Navigate("http://" + address))
	b.Await(tags + ` === 'A1'`)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	b.Await(`document.getElementById('connection').className === 'off' && document.getElementById('picture').classList.contains('lost') && document.getElementById('lost').textContent.includes('does not answer')`)
	again := newRig(t)
	again.admit("new-1", 1)
	again.admit("new-2", 1)
	if listener, err = listen.Listen(t.Context(), "tcp", address); err != nil {
		t.Fatal(err)
	}
	second := &http.Server{Handler: again.web.Handler(t.Context(), http.NotFoundHandler()), ReadHeaderTimeout: patience}
	go func() { _ = second.Serve(listener) }()
	t.Cleanup(func() { _ = second.Close() })
	b.Await(`document.getElementById('connection').className === 'on' && document.getElementById('lost').hidden && document.getElementById('pods').textContent.includes('default/new-2') && ` + tags + `.includes('B1')`)
	b.Quiet()
}

// TestPageFull checks that 250 pods on 512 CPUs are all shown, and that one more appears.
func TestPageFull(t *testing.T) {
	b := newBrowser(t)
	r := newRigOf(t, 256)
	server := r.serve()
	for i := range 250 {
		r.admit(fmt.Sprintf("pod-%03d-%s", i, strings.Repeat("n", i)), 2)
	}
	b.Run(chromedp.Navigate(server.URL))
	b.Await(cells + `.length === 512 && document.querySelectorAll('#pods button').length === 250`)
	b.Await(`new Set([...` + cells + `].map((c) => c.dataset.pod)).size === 251`)
	r.release("pod-000-")
	r.admit("one-more", 2)
	t.Logf("an admission is seen after %v", b.Await(`document.getElementById('pods').textContent.includes('default/one-more') && document.getElementById('cpu0').dataset.pod === 'uid-one-more'`))
	b.Await(`document.documentElement.scrollWidth <= window.innerWidth`)
	b.picture("full")
	b.Quiet()
}

// TestPageDark checks that the dark page is complete. Its picture is for a person to look at.
func TestPageDark(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	for i := range 3 {
		r.admit(fmt.Sprintf("p%d", i), 2)
	}
	b.Run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}), chromedp.Navigate(server.URL))
	b.Await(cells + `.length === 8 && getComputedStyle(document.body).backgroundColor === 'rgb(20, 22, 26)'`)
	b.picture("dark")
	b.Quiet()
}
