package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
)

// Link is one connection of a plugin, the plugin's end: NRI's own stub over a connection in memory. Run connects and
// serves until the connection or its context ends, once.
type Link struct {
	stub.Stub
	runtime *Runtime

	mu   sync.Mutex
	conn net.Conn
	// configured tells that the runtime has asked for the configuration, or never will and that was settled.
	configured bool
}

// Dial makes a link for a plugin: handler has the methods that NRI's stub looks for. The options are the stub's and
// come after those that make the link.
func (r *Runtime) Dial(handler any, name, index string, more ...stub.Option) (*Link, error) {
	l := &Link{runtime: r}
	options := append([]stub.Option{
		stub.WithPluginName(name), stub.WithPluginIdx(index), stub.WithOnClose(func() {}), stub.WithLogger(quiet{}), stub.WithDialer(l.dial),
		stub.WithTTRPCOptions(nil, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(l.notice)}),
	}, more...)
	s, err := stub.New(handler, options...)
	if err != nil {
		return nil, fmt.Errorf("NRI plugin %s-%s: %w", index, name, err)
	}
	l.Stub = s
	return l, nil
}

// dial is the stub's dialer.
func (l *Link) dial(string) (net.Conn, error) {
	conn, err := l.runtime.connect(l.giveUp)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, err
}

// notice sees every request of the runtime.
func (l *Link) notice(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	if strings.HasSuffix(info.FullMethod, "/Configure") {
		l.mu.Lock()
		l.configured = true
		l.mu.Unlock()
	}
	return method(ctx, unmarshal)
}

// giveUp ends a stub that has registered and whose connection ended before it was configured. It waits for that
// without a limit, so it gets an empty configuration. One that has not registered ends by itself.
func (l *Link) giveUp(registered bool) {
	l.mu.Lock()
	waits := registered && !l.configured
	l.configured = true
	l.mu.Unlock()
	if s, can := l.Stub.(interface {
		Configure(context.Context, *api.ConfigureRequest) (*api.ConfigureResponse, error)
	}); can && waits {
		_, _ = s.Configure(l.runtime.ctx, &api.ConfigureRequest{NRIVersion: l.runtime.config.NRIVersion}) // Nobody waits for the answer.
	}
}

// Close closes the connection, whatever the stub has done.
func (l *Link) Close() error {
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

// quiet is the stub's log: whatever matters, the plugin and the runtime report.
type quiet struct{}

// Debugf is the stub's.
func (quiet) Debugf(context.Context, string, ...any) {}

// Infof is the stub's.
func (quiet) Infof(context.Context, string, ...any) {}

// Warnf is the stub's.
func (quiet) Warnf(context.Context, string, ...any) {}

// Errorf is the stub's.
func (quiet) Errorf(context.Context, string, ...any) {}
