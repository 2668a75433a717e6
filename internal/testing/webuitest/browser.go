//go:build !race

package webuitest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

// requireBrowser is the environment variable that makes a missing browser a failure.
const requireBrowser = "PADDOCK_REQUIRE_BROWSER"

// Browser is a page of its own in a browser that the tests of a process share.
type Browser struct {
	t          *testing.T
	Context    context.Context
	complaints chan string
}

// shared is the browser of this process. Starting one takes longer than most tests.
var shared struct {
	mu        sync.Mutex
	context   context.Context // nil until a test needs a browser
	allocator context.CancelFunc
}

// end ends the shared browser.
func end() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	_ = chromedp.Cancel(shared.context) // The tests have ended; the browser may have ended before.
	shared.allocator()
	chromedp.FromContext(shared.context).Allocator.Wait()
	shared.context = nil
}

// New opens an empty page, which is closed at the end of the test. It skips the test if there is no
// browser.
func New(t *testing.T) *Browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t))
	closed := make(chan struct{})
	context.AfterFunc(t.Context(), func() { // Before other cleanups: a server waits for the connections of its pages.
		defer close(closed)
		_ = chromedp.Cancel(ctx)
		cancel()
	})
	t.Cleanup(func() { <-closed })
	b := &Browser{t: t, Context: ctx, complaints: make(chan string, 100)}
	chromedp.ListenTarget(ctx, func(event any) {
		if entry, is := event.(*log.EventEntryAdded); is && entry.Entry.Source == log.SourceSecurity || is && entry.Entry.Source == log.SourceJavascript {
			b.complaints <- entry.Entry.Text
		}
	})
	if err := chromedp.Run(ctx, log.Enable()); err != nil { // The first call opens the page, which lives as long as its context.
		t.Fatal(err)
	}
	return b
}

// browser returns the context of the shared browser, and starts one if there is none or if it has
// ended.
func browser(t *testing.T) context.Context {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.context != nil && shared.context.Err() == nil {
		return shared.context
	}
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
		chromedp.NoFirstRun, chromedp.WindowSize(1500, 1000), chromedp.WSURLReadTimeout(Patience),
	}
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...) // It lives as long as the process.
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithBrowserOption(chromedp.WithDialTimeout(Patience)))
	if err := chromedp.Run(ctx); err != nil {
		cancel()
		t.Fatal(err)
	}
	shared.context, shared.allocator, atEnd = ctx, cancel, end
	return ctx
}

// Run runs actions in the page.
func (b *Browser) Run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, Patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Await waits until an expression is true in the page. It returns how long that took.
func (b *Browser) Await(expression string) time.Duration {
	b.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(b.Context, Patience)
	defer cancel()
	poll := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(10*time.Millisecond), chromedp.WithPollingTimeout(0)) // The default limit is 30 seconds.
	if err := chromedp.Run(ctx, poll); err != nil {
		b.t.Fatalf("%s: %v; the page has:\n%s", expression, err, b.Text("document.body.innerText"))
	}
	return time.Since(begin)
}

// Text returns the value of an expression of type string.
func (b *Browser) Text(expression string) string {
	b.t.Helper()
	var text string
	b.Run(chromedp.Evaluate(expression, &text))
	return text
}

// Picture writes a screenshot to a directory. It does nothing if directory is empty.
func (b *Browser) Picture(directory, name string) {
	b.t.Helper()
	if directory == "" {
		return
	}
	var data []byte
	b.Run(chromedp.FullScreenshot(&data, 100))
	if err := os.WriteFile(filepath.Join(directory, name+".png"), data, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// Quiet fails the test if the page violated its security policy or had an error.
func (b *Browser) Quiet() {
	b.t.Helper()
	for {
		select {
		case text := <-b.complaints:
			if !strings.Contains(text, "net::ERR_") { // Tests also stop the server on purpose.
				b.t.Errorf("the page complains: %s", text)
			}
		default:
			return
		}
	}
}
