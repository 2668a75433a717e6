// Package webui has what the pages of Paddock share: a script, headers that limit what a browser
// may do with an answer, streams, and a limit on concurrent computations.
package webui

import (
	_ "embed" // the script
	"net/http"
)

// TextJS is the script text.js, which the scripts of all pages import.
//
//go:embed text.js
var TextJS []byte

// ServeTextJS serves TextJS.
func ServeTextJS(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = rw.Write(TextJS) // An error means that the reader is gone.
}

// Harden limits what a browser may do with an answer: it loads nothing from other hosts and stores
// nothing.
func Harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(rw, r)
	})
}
