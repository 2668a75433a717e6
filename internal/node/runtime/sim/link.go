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

// Link is the plugin's end of one connection: NRI's own stub over a connection in memory. Run
// connects once, and serves until the connection or its context ends.
type Link struct {
	stub.Stub
	runtime *Runtime

	mu   sync.Mutex
	conn net.Conn
	// configured is true if the runtime has sent Configure, or if giveUp has called it instead.
	configured bool
}

// Dial makes a link for a plugin. handler has the methods that NRI's stub looks for. more are
// options of the stub, applied after those of the link.
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

// notice intercepts every request of the runtime.
func (l *Link) notice(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	if strings.HasSuffix(info.FullMethod, "/Configure") {
		l.mu.Lock()
		l.configured = true
		l.mu.Unlock()
	}
	return method(ctx, unmarshal)
}

// giveUp ends a stub whose connection ended after it registered and before it was configured. Such
// a stub waits for Configure without a limit, so it gets an empty configuration. A stub that has
// not registered ends by itself.
func (l *Link) giveUp(registered bool) {
	l.mu.Lock()
	waits := registered && !l.configured
	l.configured = true
	l.mu.Unlock()
	if s, can := l.Stub.(interface {
		Configure(context.Context, *api.ConfigureRequest) (*api.ConfigureResponse, error)
	}); can && waits {
		_, _ = s.Configure(l.runtime.ctx, &api.ConfigureRequest{NRIVersion: l.runtime.config.NRIVersion}) // The answer is not used.
	}
}

// Close closes the connection, whatever state the stub is in.
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
