//go:build !race

package web

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const dims = `[...document.querySelectorAll('#map .device:not(.dim)')].map((d) => d.querySelector('.id').textContent).join(' ')`

// TestPageDevices checks that devices are on the map with their container and their NUMA node. A
// reader selects them with the mouse and the keyboard like CPUs. They are highlighted with their
// pod and found by their names.
func TestPageDevices(t *testing.T) {
	b := newBrowser(t)
	r := bestEffort(t)
	server := r.serve()
	r.admitWith("near", 3, gpu0)
	r.admitWith("far", 4, gpu0, gpu1)
	b.Run(chromedp.Navigate(server.URL))
	const shown = `[...document.querySelectorAll('#map .device')].map((d) => d.textContent.replace(d.querySelector('title').textContent, '')).sort().join(' ')`
	b.Await(shown + ` === 'gpu-0A1+B1≠0 gpu-1B1@1'`)
	b.Await(`document.querySelectorAll('#map .device.remote').length === 1 && document.querySelectorAll('#pods .bad').length === 1`)
	b.Await(`[...document.querySelectorAll('#map .device')].every((d) => d.getAttribute('role') === 'button' && d.getAttribute('aria-label') === d.querySelector('title').textContent)`)

	// With the mouse, see both pods that share the device, and where it is.
	b.shows(r)
	b.click(`#map [id^="device0-"] rect`)
	b.Await(`['example.com/gpu gpu-0 on NUMA node 0: shared by container c of pod default/near', 'default/far', 'example.com/gpu gpu-0 on NUMA 0'].every((t) => document.getElementById('details-body').textContent.includes(t))`)
	b.Await(`document.querySelectorAll('#pods [aria-current]').length === 2 && location.search.includes('device=0-')`)

	// With the keyboard, move from the device above to the CPU beside it and back, and see which
	// container has it.
	b.Run(chromedp.Evaluate(`document.getElementById('cpu0').focus()`, nil), chromedp.KeyEvent(kb.ArrowDown))
	b.Await(`document.activeElement.id.startsWith('device0-') && document.activeElement.tabIndex === 0`)
	b.Run(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.Enter))
	b.Await(`document.activeElement.id.startsWith('device1-') && document.getElementById('details-body').textContent.includes('on NUMA node 1: assigned to container c of pod default/far')`)
	b.Await(`document.getElementById('details-body').textContent.includes('Remote') && ` + dims + ` === 'gpu-0 gpu-1' && document.querySelectorAll('#map .cpu:not(.dim)').length === 4`)

	b.picture("devices")

	// They are highlighted with their pod and found by name.
	b.click(`#pods button[data-uid="uid-near"]`)
	b.Await(dims + ` === 'gpu-0' && document.querySelectorAll('#map .cpu:not(.dim)').length === 3`)
	b.Run(chromedp.SendKeys("#search", "GPU-1", chromedp.ByQuery))
	b.Await(`document.querySelectorAll('#pods button').length === 1 && document.getElementById('pods').textContent.includes('default/far')`)
	b.Quiet()
}

// TestPageDeviceNames checks that the page shows all names of devices and pods as text, that an
// address leads to a device again, and that a device that is gone does not break the page.
func TestPageDeviceNames(t *testing.T) {
	b := newBrowser(t)
	r := bestEffort(t)
	server := r.serve()
	evil := `<img src=x onerror="document.title='owned'"> "b" c`
	r.admitWith(evil, 1, nic)
	r.admitWith("plain", 1, nic)
	b.Run(chromedp.Navigate(server.URL))
	b.Await(`document.querySelectorAll('#map .device').length === 1 && JSON.parse(document.querySelector('#map .device').dataset.pods).length === 2`)
	b.shows(r)
	b.click("#map .device rect")
	b.Await(`document.getElementById('details-body').textContent.includes('by claim fast') && document.getElementById('details-body').textContent.includes('<img src=x')`)
	b.Await(`document.title === 'rig – Paddock' && !document.querySelector('img') && !document.querySelector('#map b')`)
	var address string
	b.Run(chromedp.Evaluate(`location.href`, &address))
	b.Run(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	b.Await(`document.querySelector('#map .device.chosen') && document.getElementById('details-body').textContent.includes('nic.example.com node/nic <b>"0" on NUMA node 1: shared by')`)
	r.release("plain")
	if err := r.engine.Release(t.Context(), "uid-"+evil); err != nil {
		t.Fatal(err)
	}
	b.Await(`document.querySelectorAll('#map .device').length === 0 && document.querySelectorAll('#pods button').length === 0`)
	b.Quiet()
}
