// Package webuitest provides a browser for tests of web pages: a headless Chromium with its own
// data directory, which the tests of a process share. Each test has a page of its own.
//
// There is no browser under the race detector, and test files that use one have the build
// constraint !race. They test what a page shows, which one goroutine of the browser determines.
// Compiling the browser's protocol for the detector would take longer than all tests of the
// servers, which do run there.
package webuitest

import (
	"testing"
	"time"
)

// Patience bounds every wait. It only ends tests that hang, so it is longer than a busy machine
// needs.
const Patience = 5 * time.Minute

// atEnd ends the browser of this process. It is nil until a test has started one.
var atEnd func()

// Main runs the tests of a package and then ends their browser. TestMain uses it in place of its
// testing.M.
type Main struct{ *testing.M }

// Run runs the tests. It returns their exit code.
func (m Main) Run() int {
	code := m.M.Run()
	if atEnd != nil {
		atEnd()
	}
	return code
}
