//go:build !race

package web

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/webuitest"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestPictures compares the page of a node and of a rejection with recorded pictures, on a laptop,
// a tablet and a phone, light and dark.
func TestPictures(t *testing.T) {
	b := newBrowser(t)
	r := newRigOf(t, 16)
	server := r.serve()
	r.admit("first", 4)
	r.admit("second", 9)
	r.admit("third", 10)
	r.admit("large", 8)
	for _, size := range webuitest.Sizes {
		for name, query := range map[string]string{"node": "/?pod=uid-second", "rejection": "/?rejection=uid-large"} {
			b.Open(size, server.URL+query)
			b.Await(cells + `.length === 32 && document.querySelectorAll('#pods button').length === 3 && document.getElementById('picture').getAttribute('aria-busy') === 'false'`)
			if name == "node" {
				b.Await(`document.getElementById('details-body').textContent.includes('default/second')`)
			} else {
				b.Await(`document.querySelectorAll('#why .proposals li').length > 0 && document.querySelectorAll('#map .fails').length === 2`)
			}
			b.Await(`document.documentElement.scrollWidth <= window.innerWidth`)
			b.Compare(name+"-"+size.String(), *rewrite, *screenshots)
		}
	}
	b.Quiet()
}

// TestPageUse checks that the page shows how busy the CPUs are when the reader wants that, also on
// a map that was drawn again, and not for a past state.
func TestPageUse(t *testing.T) {
	b := newBrowser(t)
	r := newRig(t)
	r.web.config.Use = func(s *node.State) *view.Use {
		at := r.clock
		u := &view.Use{At: &at, Seconds: 60, Age: 5, CPUs: map[int]float64{0: 0.5, 1: 0}}
		u.Reserved, u.Idle = 2, 1
		u.Owners = []view.CPUUse{{Pod: "default/first", UID: "uid-first", Container: "c", CPUs: 2, Mean: 0.5, Peak: 0.61, Last: 0.5, Seconds: 600, Idle: 1}}
		return u
	}
	server := r.serve()
	r.admit("first", 2)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(tags + ` === 'A1 A1' && !document.querySelector('#map .busy')`)
	b.click("#use")
	b.Await(`document.querySelectorAll('#map .busy').length === 2 && document.querySelector('#cpu0 .busy').height.baseVal.value > 5 && document.querySelector('#cpu1 .busy').height.baseVal.value === 0`)
	b.Await(`document.getElementById('cpu0').getAttribute('aria-label').endsWith(', 50 % busy') && document.getElementById('use-about').textContent.includes('1 of 2 CPUs') && location.search.includes('use=yes')`)
	b.click("#cpu0 rect")
	b.Await(`document.getElementById('details-body').textContent.includes('container c: 0.5 of 2 CPUs on average, at most 0.6 in a minute, measured for 10 min; 1 idle')`)
	r.admit("second", 1)
	b.Await(tags + `.includes('B1') && document.querySelectorAll('#map .busy').length === 2`)
	b.picture("use")
	b.click("#older")
	b.Await(`document.querySelectorAll('#map .busy').length === 0 && document.getElementById('use-about').textContent.includes('is not kept')`)
	b.click("#live")
	b.Await(`document.querySelectorAll('#map .busy').length === 2`)
	b.click("#use")
	b.Await(`document.querySelectorAll('#map .busy').length === 0 && document.getElementById('use-about').hidden && !document.getElementById('cpu0').getAttribute('aria-label').includes('busy')`)
	b.Quiet()
}
