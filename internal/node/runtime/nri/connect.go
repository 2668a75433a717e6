package nri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/paddock-project/paddock/internal/node/control"
	"github.com/paddock-project/paddock/internal/node/runtime/registration"
)

// These are the waits between attempts to connect, and the time limit of an attempt. A runtime that
// comes back is found within a second. Until then pods start without CPUs of their own, and an
// attempt at a socket that does not exist costs nothing.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = time.Second
	dialing     = 15 * time.Second
)

// connect connects to the runtime repeatedly until ctx ends. After a connection that was
// synchronised, the wait is firstWait again.
func (p *Plugin) connect(ctx context.Context) error {
	wait := firstWait
	for {
		useful, err := p.serve(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if useful {
			wait = firstWait
		}
		p.config.Log.WarnContext(ctx, "no connection to the runtime: pods start without CPUs of their own", "socket", p.config.Socket, "again_in", wait.String(), "error", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.config.After(wait):
		}
		wait = min(2*wait, longestWait)
	}
}

// serve serves one connection. It reports whether the runtime synchronised. When it returns, the
// connection's goroutines have ended.
func (p *Plugin) serve(ctx context.Context) (useful bool, err error) {
	dial := p.config.Dial
	if dial == nil {
		dial = p.socket
	}
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{Plugin: p, id: p.connections.Add(1), timeout: p.config.Timeout, cancel: cancel}
	if s.link, err = dial(s); err != nil {
		return false, err
	}
	p.send(ctx, message{of: control.Connected{Connection: s.id}, connects: s})
	ended := make(chan error, 1)
	go func() { ended <- s.link.Run(serving) }()
	running := true
	select {
	case err = <-ended:
		running = false
	case <-serving.Done():
		err = context.Cause(serving)
	}
	err = errors.Join(err, s.close())
	if running {
		if last := <-ended; err == nil {
			err = last
		}
	}
	useful, _ = ask[bool](context.WithoutCancel(ctx), p, control.Disconnected{Connection: s.id})
	return useful, err
}

// close ends the connection.
func (s *session) close() error {
	s.over.Store(true)
	if c, closes := s.link.(io.Closer); closes {
		return c.Close()
	}
	return nil
}

// socketLink is a stub and its connection. A stub that was never configured does not close the
// connection itself.
type socketLink struct {
	stub.Stub
	registration registration.Registration
	mu           sync.Mutex
	conn         net.Conn
}

// failurePolicy makes the runtime fail a request that is not answered in time and keep the
// connection, so that no pod starts without Paddock because of one late answer. Runtimes support it
// from NRI 0.12.5. Older ones, such as containerd 2.4.2, drop the plugin and continue without it.
// The policy applies to every request of the connection: a stop or a removal that is not answered
// fails too, and the kubelet repeats it.
var failurePolicy = &api.FailurePolicy{FailRequest: true, KeepConnected: true}

// socket connects to the runtime's socket.
func (p *Plugin) socket(handler any) (Link, error) {
	l := &socketLink{}
	s, err := stub.New(handler, stub.WithSocketPath(p.config.Socket), stub.WithPluginName(p.config.Name), stub.WithPluginIdx(p.config.Index),
		stub.WithFailurePolicy(failurePolicy), stub.WithDialer(l.dial), stub.WithOnClose(func() {}), stub.WithLogger(stubLog{p.config.Log}),
		l.registration.Option())
	if err != nil {
		return nil, fmt.Errorf("NRI plugin %s-%s: %w", p.config.Index, p.config.Name, err)
	}
	l.Stub = s
	return l, nil
}

func (l *socketLink) dial(path string) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", path, dialing)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, nil
}

// Close closes the connection, whatever state the stub is in. The stub's Run then returns.
func (l *socketLink) Close() error {
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

// stubLog logs the messages of the stub at debug level. This package itself logs what users need.
type stubLog struct{ log *slog.Logger }

func (l stubLog) write(ctx context.Context, format string, args []any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "nri: "+fmt.Sprintf(format, args...))
	}
}

// Debugf implements the stub's logger.
func (l stubLog) Debugf(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }

// Infof implements the stub's logger.
func (l stubLog) Infof(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }

// Warnf implements the stub's logger.
func (l stubLog) Warnf(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }

// Errorf implements the stub's logger.
func (l stubLog) Errorf(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }
