package kubelet

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/node/absence"
)

// Endpoint reads the kubelet's answers as they are: its pods with their whole status, its
// configuration, and its metrics. It is safe for use by several goroutines.
type Endpoint struct {
	client *client
	base   url.URL
}

// NewEndpoint returns an endpoint for an address, whose path is not used. It sends no request yet.
func NewEndpoint(a Address, now func() time.Time) (*Endpoint, error) {
	c, err := newClient(a, now)
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	base, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	return &Endpoint{client: c, base: *base}, nil
}

// Process returns the number of the process that answers about pods. It grows with each process,
// and is 0 before the first one.
func (e *Endpoint) Process() uint64 {
	e.client.mu.Lock()
	defer e.client.mu.Unlock()
	return e.client.process.Number
}

// Get returns the answer to a path such as "/configz", which may have at most so many bytes. The
// caller limits the time.
func (e *Endpoint) Get(ctx context.Context, path string, most int) ([]byte, error) {
	at := e.base
	at.Path = path
	answer, err := e.client.send(ctx, at.String())
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return bounded.Read(at.String(), answer.Body, most)
}

// Pods visits the items of the kubelet's list of pods in turn. The bytes of an item are valid until
// visit returns. An item that is larger than maxItem makes the whole answer invalid. After an
// error, no item counts. Pods waits for at most askTimeout.
func (e *Endpoint) Pods(ctx context.Context, visit func(item []byte) error) (absence.Process, error) {
	return e.client.ask(ctx, func(item []byte, whole bool) error {
		if !whole {
			return errTooBig
		}
		return visit(item)
	})
}

// Close closes idle connections.
func (e *Endpoint) Close() { e.client.http.CloseIdleConnections() }
