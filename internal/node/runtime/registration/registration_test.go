package registration_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// plugin is asked about nothing but its configuration.
type plugin struct{}

func (plugin) Configure(ctx context.Context, _, _, _ string) (api.EventMask, error) {
	return 0, context.Cause(ctx)
}
func (plugin) RunPodSandbox(context.Context, *api.PodSandbox) error { return nil }

// TestEnds checks that a stub ends whenever its connection ends during the registration: after each
// number of reads, from the plugin's side and from the runtime's. Under the race detector, it also
// checks that nothing is configured in the runtime's place while the stub registers.
func TestEnds(t *testing.T) {
	for _, runtimes := range []bool{false, true} {
		for reads := range 12 {
			r := sim.New(t.Context(), sim.Config{Now: time.Now, After: time.After})
			reached := make(chan struct{})
			once := sync.OnceFunc(func() { close(reached) })
			var link *sim.Link
			link, err := r.Dial(plugin{}, "plugin", "10", stub.WithDialer(func(path string) (net.Conn, error) {
				conn, err := link.Connect(path)
				return &counted{Conn: conn, left: reads, reached: once}, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- link.Run(ctx) }()
			select {
			case <-reached:
			case <-time.After(100 * time.Millisecond): // The registration has fewer reads.
			}
			if runtimes {
				r.Disconnect()
			} else if err := link.Close(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-ended:
				if errors.Is(err, ctx.Err()) {
					t.Errorf("after %d reads: Run returned %v", reads, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("after %d reads, the runtime's side %v: the stub does not end", reads, runtimes)
			}
			cancel()
			r.Close()
		}
	}
}

// counted counts the reads of a connection.
type counted struct {
	net.Conn
	left    int
	reached func()
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left--; c.left < 0 {
		c.reached()
	}
	return c.Conn.Read(p)
}
