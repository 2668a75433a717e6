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
	"golang.org/x/sync/errgroup"
)

// The waits between attempts to connect, and how long a runtime may take from there to Synchronize.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
	registering = 15 * time.Second
)

// Run keeps the connection to the runtime and everything in order until ctx ends. It returns the
// cause of that.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.connect(ctx) })
	group.Go(func() error { return p.reconcile(ctx) })
	return group.Wait()
}

// connect connects again and again. The first wait comes back after a connection that was of use.
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

// serve has one connection. It tells whether it came as far as Synchronize.
func (p *Plugin) serve(ctx context.Context) (useful bool, err error) {
	dial := p.config.Dial
	if dial == nil {
		dial = socket
	}
	link, err := dial(p)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	l := &linked{Link: link}
	p.link = l
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- link.Run(ctx) }()
	select {
	case err = <-ended:
	case <-p.config.After(registering):
		if p.isSynchronised(l) {
			err = <-ended
			break
		}
		// The stub waits for ever for a runtime that registers it and then goes away.
		err = fmt.Errorf("the runtime did not answer within %v", registering)
	}
	if c, closes := link.(io.Closer); closes {
		err = errors.Join(err, c.Close())
	}
	return p.disconnected(l), err
}

func (p *Plugin) isSynchronised(l *linked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.synchronised
}

// disconnected notes the end of a connection.
func (p *Plugin) disconnected(l *linked) (useful bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = nil
	if useful = l.synchronised; useful {
		p.lost = p.config.Now()
		p.config.Observer.Connected(false)
	}
	return useful
}

// Configure is told which runtime there is.
func (p *Plugin) Configure(ctx context.Context, _, runtime, release string) (api.EventMask, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == nil {
		return 0, errors.New("paddock: the connection was given up")
	}
	nri := p.link.RuntimeNRIVersion()
	p.link.mayUpdate = standsUpdates(runtime, release, nri)
	p.config.Log.InfoContext(ctx, "connected to the runtime", "runtime", runtime, "version", release, "nri", nri)
	if !p.link.mayUpdate {
		p.config.Log.WarnContext(ctx, "this runtime may hang on updates that it did not ask for: they wait for the next container that starts or stops",
			"need_nri", "0.12.1", "runtime", runtime, "version", release)
	}
	return 0, nil
}

// socketLink is a stub with its connection, which the stub does not close if it was never configured.
type socketLink struct {
	stub.Stub
	mu   sync.Mutex
	conn net.Conn
}

// socket connects to the runtime's socket.
func socket(p *Plugin) (Link, error) {
	l := &socketLink{}
	s, err := stub.New(p, stub.WithSocketPath(p.config.Socket), stub.WithPluginName(p.config.Name), stub.WithPluginIdx(p.config.Index),
		stub.WithDialer(l.dial), stub.WithOnClose(func() {}), stub.WithLogger(stubLog{p.config.Log}))
	if err != nil {
		return nil, fmt.Errorf("NRI plugin %s-%s: %w", p.config.Index, p.config.Name, err)
	}
	l.Stub = s
	return l, nil
}

func (l *socketLink) dial(path string) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", path, registering)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, nil
}

// Close closes the connection, whatever the stub has done.
func (l *socketLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	if err := l.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// stubLog is what the stub logs, a level lower: what matters is said here.
type stubLog struct{ log *slog.Logger }

func (l stubLog) write(ctx context.Context, format string, args []any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "nri: "+fmt.Sprintf(format, args...))
	}
}

// Debugf and its likes are the stub's.
func (l stubLog) Debugf(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }

// Infof is the stub's.
func (l stubLog) Infof(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }

// Warnf is the stub's.
func (l stubLog) Warnf(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }

// Errorf is the stub's.
func (l stubLog) Errorf(ctx context.Context, format string, args ...any) { l.write(ctx, format, args) }
