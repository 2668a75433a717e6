//go:build !race

package web

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestPageInterruptions checks that a cell shows how often its CPU is interrupted when the reader
// wants that, for eyes and for a screen reader, beside how busy it is, and not for a past state.
func TestPageInterruptions(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	r.web.config.Interruptions = func() *view.Interruptions {
		return &view.Interruptions{Seconds: 15, Age: 3, CPUs: map[int]view.CPUInterruptions{
			0: {PerSecond: 1000, Sources: map[noise.Class]float64{noise.Timer: 990, noise.Device: 10}}, 1: {PerSecond: 0.2, Sources: map[noise.Class]float64{noise.IPI: 0.2}},
		}}
	}
	server := r.serve()
	r.admit("first", 2)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(tags + ` === 'A1 A1' && !document.querySelector('#map .noise') && document.getElementById('interruptions-about').hidden`)
	b.click("#interruptions")
	b.Await(`document.querySelectorAll('#map .noise').length === 2 && document.querySelector('#cpu0 .noise').height.baseVal.value > 5 && document.querySelector('#cpu1 .noise').height.baseVal.value === 1`)
	b.Await(`document.getElementById('cpu0').getAttribute('aria-label').endsWith(', interrupted 1000 times a second: timer 990, devices 10') && document.getElementById('interruptions-about').textContent.includes('in 15 s, 3 s ago') && location.search.includes('interruptions=yes')`)
	r.admit("second", 1)
	b.Await(tags + `.includes('B1') && document.querySelectorAll('#map .noise').length === 2`)
	b.picture("interruptions")
	b.click("#older")
	b.Await(`document.querySelectorAll('#map .noise').length === 0 && document.getElementById('interruptions-about').textContent.includes('is not kept')`)
	b.click("#live")
	b.Await(`document.querySelectorAll('#map .noise').length === 2`)
	b.click("#interruptions")
	b.Await(`document.querySelectorAll('#map .noise').length === 0 && document.getElementById('interruptions-about').hidden && !document.getElementById('cpu0').getAttribute('aria-label').includes('interrupted')`)
	b.Quiet()
}

// TestPageWithoutInterruptions checks the reason that the page shows where nothing is counted.
func TestPageWithoutInterruptions(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	server := r.serve()
	r.admit("first", 2)
	b.Run(chromedp.Navigate(server.URL + "/?interruptions=yes"))
	b.Await(`document.getElementById('interruptions-about').textContent.startsWith('this agent does not count what interrupts CPUs')`)
}

// get returns the status and the body of an answer.
func get(t *testing.T, address string) (int, string) {
	t.Helper()
	answer, err := http.Get(address) //nolint:noctx // It is a test.
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestServedInterruptions checks what programs and "paddock map --agent" get.
func TestServedInterruptions(t *testing.T) {
	r := newRig(t)
	r.admit("first", 2)
	address := r.serve().URL
	if status, body := get(t, address+"/api/interruptions"); status != http.StatusNotFound || !strings.Contains(body, "does not count") {
		t.Errorf("%d %s", status, body)
	}
	r.web.config.Interruptions = func() *view.Interruptions {
		return &view.Interruptions{Seconds: 15, CPUs: map[int]view.CPUInterruptions{0: {PerSecond: 1000, Sources: map[noise.Class]float64{noise.Timer: 1000}}}}
	}
	status, body := get(t, address+"/api/interruptions")
	var answer view.Interruptions
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.CPUs[0].Sources[noise.Timer] != 1000 {
		t.Errorf("%d %s: %v", status, body, err)
	}
	if _, body := get(t, address+"/api/map?form=term"); !strings.Contains(body, "Interrupted, times a second: CPU 0 A1 1000") {
		t.Error(body)
	}
	r.admit("second", 1)
	if _, body := get(t, address+"/api/map?form=term&revision=1"); strings.Contains(body, "Interrupted") {
		t.Error("a past state has the interruptions of now: " + body)
	}
}
