package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/containerd/nri/pkg/stub"

	"github.com/paddock-project/paddock/internal/node/runtime/registration"
)

// Link is the plugin's end of one connection: NRI's own stub over a connection in memory. Run
// connects once, and serves until the connection or its context ends.
type Link struct {
	stub.Stub
	runtime      *Runtime
	registration registration.Registration

	mu   sync.Mutex
	conn net.Conn
}

// Dial makes a link for a plugin. handler has the methods that NRI's stub looks for. more are
// options of the stub, applied after those of the link.
func (r *Runtime) Dial(handler any, name, index string, more ...stub.Option) (*Link, error) {
	l := &Link{runtime: r}
	options := append([]stub.Option{
		stub.WithPluginName(name), stub.WithPluginIdx(index), stub.WithOnClose(func() {}), stub.WithLogger(quiet{}), stub.WithDialer(l.Connect),
		l.registration.Option(),
	}, more...)
	s, err := stub.New(handler, options...)
	if err != nil {
		return nil, fmt.Errorf("NRI plugin %s-%s: %w", index, name, err)
	}
	l.Stub = s
	return l, nil
}

// Connect is the dialer of the stub. The path is not used.
func (l *Link) Connect(string) (net.Conn, error) {
	conn, err := l.runtime.connect(func() { l.registration.End(l.Stub) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, err
}

// Close closes the connection, whatever state the stub is in. Run then returns.
func (l *Link) Close() error {
	defer l.registration.End(l.Stub)
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return nil
	}
	if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// quiet drops the stub's log: the plugin and the runtime log what users need.
type quiet struct{}

// Debugf implements the stub's logger.
func (quiet) Debugf(context.Context, string, ...any) {}

// Infof implements the stub's logger.
func (quiet) Infof(context.Context, string, ...any) {}

// Warnf implements the stub's logger.
func (quiet) Warnf(context.Context, string, ...any) {}

// Errorf implements the stub's logger.
func (quiet) Errorf(context.Context, string, ...any) {}
