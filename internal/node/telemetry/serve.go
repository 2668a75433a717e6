package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/paddock-project/paddock/internal/base/access"
)

// Limits of the HTTP server. writeTimeout leaves room for a profile of 30 seconds.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 90 * time.Second
	idleTimeout     = 60 * time.Second
	shutdownTimeout = 400 * time.Millisecond // an agent ends within a second
	maxHeaderBytes  = 16 << 10
	maxScrapes      = 4
)

// Handler returns a handler that serves
//
//	/metrics        all metrics
//	/healthz        200 while the process answers
//	/readyz         200 if every check succeeds, 503 otherwise; one line for each check and for each of its
//	                limits. Clients on the node also get the errors, which can have names of files
//	                and pods, and addresses
//	/debug/pprof/   Go's profiles, only if profile is true
//
// No request changes anything. Profiles show the memory of the program. internal/base/access
// decides which clients have access.
func (t *Telemetry) Handler(profile bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", t.serveReady)
	if profile {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func (t *Telemetry) serveReady(w http.ResponseWriter, r *http.Request) {
	status, verdict := http.StatusOK, "ready\n"
	var b strings.Builder
	for _, c := range t.config.Checks {
		if err := c.Ready(); err != nil {
			status, verdict = http.StatusServiceUnavailable, "not ready\n"
			if !access.Local(r) {
				fmt.Fprintf(&b, "%s: not ready\n", c.Name)
				continue
			}
			fmt.Fprintf(&b, "%s: not ready: %v\n", c.Name, err)
			continue
		}
		fmt.Fprintf(&b, "%s: ready\n", c.Name)
		if c.Limits != nil {
			for _, limit := range c.Limits() {
				fmt.Fprintf(&b, "%s: %s\n", c.Name, limit)
			}
		}
	}
	answer(w, status, b.String()+verdict)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // The client is gone if this fails.
}

// Listen listens on a TCP address, such as 127.0.0.1:9926. If another
// program listens there, the error describes what to do.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("%q: expected an address with a port, such as 127.0.0.1:9925, or :9925 for every interface", address)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %w: end the program that listens there, or choose another port; port 0 is any free one", address, syscall.EADDRINUSE)
	}
	return listener, err
}

// Serve serves on the listener until ctx ends. It then waits up to shutdownTimeout for answers in
// progress, and closes the listener. If it ends earlier, it returns the reason.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving HTTP on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("ending the HTTP server on %s: %w", listener.Addr(), err)
	}
	return nil
}
