package plane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Slow is a proxy for the API server that can delay the responses to watches. It serves one client,
// and sends requests with that client's identity.
type Slow struct {
	server *http.Server
	url    string

	mu sync.Mutex
	by time.Duration
}

// NewSlow starts a proxy on loopback that connects with the given configuration.
func NewSlow(config *rest.Config) (*Slow, error) {
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Slow{url: "http://" + listener.Addr().String()}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), // When an API server is killed, responses end.
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Has("watch") {
				r.Body = s.late(r.Request.Context(), r.Body)
			}
			return nil
		},
	}}
	go func() { _ = s.server.Serve(listener) }() // It ends with Close.
	return s, nil
}

// URL returns the URL at which the proxy listens.
func (s *Slow) URL() string { return s.url }

// By delays the responses to watches by that time from now on. Zero ends the delay.
func (s *Slow) By(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = d
}

// Close ends the proxy.
func (s *Slow) Close() error { return s.server.Close() }

// piece is a part of a response to a watch, with the time at which it is due.
type piece struct {
	data []byte
	err  error
	due  time.Time
}

// late is a response whose pieces are delivered in order, each when it is due.
type late struct {
	*io.PipeReader
	body io.Closer
}

// Close ends the response.
func (l late) Close() error { return errors.Join(l.PipeReader.Close(), l.body.Close()) }

func (s *Slow) late(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	const most = 10_000 // More pieces than arrive in the longest delay. Beyond it the API server waits, as for a client that does not read.
	pieces := make(chan piece, most)
	go func() {
		defer close(pieces)
		for buffer := make([]byte, 32<<10); ; {
			n, err := body.Read(buffer)
			s.mu.Lock()
			p := piece{bytes.Clone(buffer[:n]), err, time.Now().Add(s.by)}
			s.mu.Unlock()
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	reader, writer := io.Pipe()
	go func() {
		for p := range pieces {
			select {
			case <-time.After(time.Until(p.due)):
			case <-ctx.Done():
			}
			_, err := writer.Write(p.data)
			if err = cmp.Or(p.err, err); err != nil {
				_ = writer.CloseWithError(err) // CloseWithError never fails.
				return
			}
		}
		_ = writer.CloseWithError(context.Cause(ctx))
	}()
	return late{reader, body}
}
