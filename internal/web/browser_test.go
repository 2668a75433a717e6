package web

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// screenshots is a directory for pictures of the page, to be looked at.
var screenshots = flag.String("screenshots", "", "write pictures of the page into this directory")

// requireBrowser is the environment variable that makes a browser that is not there a failure.
const requireBrowser = "PADDOCK_REQUIRE_BROWSER"

// patience is how long anything may take; tests on a busy machine are no benchmark.
const patience = 20 * time.Second

// browser is a page in a headless Chromium, which has a directory of its own for what it remembers.
type browser struct {
	t          *testing.T
	ctx        context.Context
	complaints chan string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv(requireBrowser) != "" {
			t.Fatalf("there is no Chromium, and %s is set", requireBrowser)
		}
		t.Skip("there is no Chromium")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.WindowSize(1500, 1000), chromedp.WSURLReadTimeout(patience),
	}
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		cancelAllocator()
	})
	b := &browser{t: t, ctx: ctx, complaints: make(chan string, 100)}
	chromedp.ListenTarget(ctx, func(event any) {
		if entry, is := event.(*log.EventEntryAdded); is && entry.Entry.Source == log.SourceSecurity || is && entry.Entry.Source == log.SourceJavascript {
			b.complaints <- entry.Entry.Text
		}
	})
	b.run(log.Enable())
	return b
}

// run does something in the page.
func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// await waits until an expression is true in the page, and tells how long that took.
func (b *browser) await(expression string) time.Duration {
	b.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Poll(expression, nil, chromedp.WithPollingInterval(10*time.Millisecond))); err != nil {
		var body string
		_ = chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText", &body))
		b.t.Fatalf("%s: %v; the page says:\n%s", expression, err, body)
	}
	return time.Since(begin)
}

// picture writes a screenshot if they are wanted.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	var data []byte
	b.run(chromedp.FullScreenshot(&data, 100))
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), data, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails where the page did what its policy forbids, or broke.
func (b *browser) quiet() {
	b.t.Helper()
	for {
		select {
		case text := <-b.complaints:
			if !strings.Contains(text, "net::ERR_") { // A server that is away is part of the tests.
				b.t.Errorf("the page complains: %s", text)
			}
		default:
			return
		}
	}
}

const cells = `document.querySelectorAll('#map .cpu')`

// tags is an expression for what stands in the cells.
const tags = `[...` + cells + `].map((c) => (c.querySelector('.tag') || {textContent: ''}).textContent).join(' ').trim()`

// TestPage goes through what a person does on the page.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 1)
	b.run(chromedp.Navigate(server.URL))
	b.await(cells + `.length === 8 && document.getElementById('connection').textContent === 'live'`)
	b.await(tags + ` === 'A1'`)

	// An admission shows without a reload, and what has the focus keeps it.
	b.run(chromedp.Evaluate(`document.getElementById('cpu2').focus(); document.activeElement.mine = true`, nil))
	r.admit("second", 2)
	t.Logf("an admission is seen after %v", b.await(tags+` === 'A1 B1 B1' || `+tags+` === 'A1   B1 B1' || `+tags+`.split('B1').length === 3`))
	b.await(`document.activeElement.id === 'cpu2' && document.activeElement.mine === true`)

	// With the keyboard: to a neighbour, and who has it.
	b.run(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.Enter))
	b.await(`document.activeElement.id === 'cpu1' && document.getElementById('details-body').textContent.includes('CPU 1, core 1')`)

	// With the mouse: who, since when and why.
	b.run(chromedp.Click("#cpu0 rect", chromedp.ByQuery))
	b.await(`['default/first', 'Since', 'admitted default/first', 'Align'].every((t) => document.getElementById('details-body').textContent.includes(t))`)

	// A refusal comes by itself, with its account.
	r.admit("large", 9)
	b.await(`document.querySelectorAll('#refusals details').length === 1 && document.getElementById('refusals').textContent.includes('default/large')`)
	b.run(chromedp.Click("#refusals summary", chromedp.ByQuery))
	b.await(`[...document.querySelectorAll('#refusals .proposals li')].some((p) => p.textContent === 'ask for 5 CPUs instead of 9 in container c CPUs on NUMA nodes 0-1')`)
	b.picture("page")
	b.quiet()
}

// TestPageRefusal: what would admit a pod is asked for when its refusal is opened, with the keyboard as
// well, and of the others nothing; the refusal stays open and keeps the focus when it comes again.
func TestPageRefusal(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 4)
	evil := `<img src=x onerror="document.title='owned'">` + strings.Repeat("n", 253)
	r.admit("other", 9)
	r.admit(evil, 6)
	b.run(chromedp.Navigate(server.URL))
	b.await(`document.querySelectorAll('#refusals details').length === 2 && !document.querySelector('.proposals')`)
	b.run(chromedp.Focus("#refusals summary", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	const status = `(document.querySelector('#refusals [role=status]') || {textContent: ''}).textContent`
	b.await(`document.querySelectorAll('.proposals').length === 1 && /^\d changes would admit it/.test(` + status + `)`)
	b.await(`document.querySelector('.remedies').textContent.includes('without default/first') && document.querySelector('.remedies').textContent.includes('Tried, in ')`)
	b.await(`!document.querySelector('img') && document.documentElement.scrollWidth <= window.innerWidth`)
	b.picture("refusal")

	r.admit(evil, 6)
	const first = `document.querySelector('#refusals > details')`
	b.await(first + `.textContent.includes('(2 times)') && ` + first + `.open && document.activeElement === ` + first + `.querySelector('summary')`)
	b.await(`document.querySelectorAll('.proposals').length === 1`)

	r.release("first")
	b.run(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Enter))
	b.await(status + ` === 'By now it would be admitted.'`)
	b.await(`document.title === 'rig – Paddock'`)

	r.web.mu.Lock() // As when others have pushed it out, and the page has not heard of it yet.
	r.web.refusals.list = nil
	r.web.mu.Unlock()
	b.run(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Enter))
	b.await(status + `.includes('is not kept')`)
	b.quiet()
}

// TestPageSearch: what is found stays bright and listed, the rest does not.
func TestPageSearch(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	evil := `<img src=x onerror="document.title='owned'">` + strings.Repeat("n", 253)
	r.admit("plain", 1)
	r.admit(evil, 1)
	b.run(chromedp.Navigate(server.URL))
	b.await(`document.querySelectorAll('#pods button').length === 2`)
	b.run(chromedp.SendKeys("#search", "PLAI", chromedp.ByQuery))
	b.await(`document.querySelectorAll('#pods button').length === 1 && document.querySelectorAll('#map .cpu:not(.dim)').length === 1`)
	b.run(chromedp.KeyEvent(kb.Escape))
	b.await(`document.querySelectorAll('#map .cpu.dim').length === 0`)
	b.run(chromedp.Click("#pods li:last-child button", chromedp.ByQuery))
	b.await(`document.getElementById('details-body').textContent.includes('<img src=x') && document.activeElement.id === 'details'`)
	b.await(`document.title === 'rig – Paddock' && !document.querySelector('img') && document.documentElement.scrollWidth <= window.innerWidth`)
	b.picture("hostile")
	b.quiet()
}

// TestPageHistory: the slider goes back, new events do not take one away, and Live leads back.
func TestPageHistory(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("a", 1)
	r.admit("b", 1)
	b.run(chromedp.Navigate(server.URL))
	b.await(tags + `.includes('B1')`)
	b.run(chromedp.Focus("#slider", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	b.await(`document.getElementById('moment').textContent.startsWith('Revision 1,') && !` + tags + `.includes('B1')`)
	r.admit("c", 1)
	b.await(`document.getElementById('slider').max === '3' && document.getElementById('slider').value === '1' && document.body.classList.contains('past')`)
	b.picture("past")
	b.run(chromedp.Click("#live", chromedp.ByQuery))
	b.await(tags + `.includes('C1') && !document.body.classList.contains('past')`)
	b.quiet()
}

// TestPageSurvivesARestart: the page says that it has lost the agent, and goes on with the next one.
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
	b.run(chromedp.Navigate("http://" + address))
	b.await(tags + ` === 'A1'`)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	b.await(`document.getElementById('connection').className === 'off'`)
	again := newRig(t)
	again.admit("new-1", 1)
	again.admit("new-2", 1)
	if listener, err = listen.Listen(t.Context(), "tcp", address); err != nil {
		t.Fatal(err)
	}
	second := &http.Server{Handler: again.web.Handler(t.Context(), http.NotFoundHandler()), ReadHeaderTimeout: patience}
	go func() { _ = second.Serve(listener) }()
	t.Cleanup(func() { _ = second.Close() })
	b.await(`document.getElementById('connection').className === 'on' && document.getElementById('pods').textContent.includes('default/new-2') && ` + tags + `.includes('B1')`)
	b.quiet()
}

// TestPageFull: 250 pods on 512 CPUs are all there, and one more is seen.
func TestPageFull(t *testing.T) {
	b := newBrowser(t)
	r := newRigOf(t, 256)
	server := r.serve()
	for i := range 250 {
		r.admit(fmt.Sprintf("pod-%03d-%s", i, strings.Repeat("n", i)), 2)
	}
	b.run(chromedp.Navigate(server.URL))
	b.await(cells + `.length === 512 && document.querySelectorAll('#pods button').length === 250`)
	b.await(`new Set([...` + cells + `].map((c) => c.dataset.pod)).size === 251`)
	r.release("pod-000-")
	r.admit("one-more", 2)
	t.Logf("an admission is seen after %v", b.await(`document.getElementById('pods').textContent.includes('default/one-more') && document.getElementById('cpu0').dataset.pod === 'uid-one-more'`))
	b.await(`document.documentElement.scrollWidth <= window.innerWidth`)
	b.picture("full")
	b.quiet()
}

// TestPageDark: the dark page is as complete; it is here to be looked at.
func TestPageDark(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	for i := range 3 {
		r.admit(fmt.Sprintf("p%d", i), 2)
	}
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}), chromedp.Navigate(server.URL))
	b.await(cells + `.length === 8 && getComputedStyle(document.body).backgroundColor === 'rgb(20, 22, 26)'`)
	b.picture("dark")
	b.quiet()
}
