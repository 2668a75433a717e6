package silencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/paddock-project/paddock/internal/node/kernelsettings"
	"github.com/paddock-project/paddock/internal/node/store"
)

const (
	// garbagePercent is GOGC. A round makes some hundred KiB of garbage, and 3 MiB are live.
	garbagePercent = 50
	// memoryLimit makes the collector work harder before the process needs more, in bytes.
	memoryLimit = 10 << 20
	headTime    = 5 * time.Second
)

// Here returns the world of a process on a node.
func Here(c *Config) World {
	return World{
		Disk: store.OS(), Files: kernelsettings.FS{Root: c.Root, Mount: c.CgroupRoot},
		Now: time.Now, After: time.After, Environment: os.Getenv, Ban: kernelsettings.Ban, //nolint:forbidigo // The real clock.
	}
}

// Serve runs until ctx ends, and serves the Handler on the address of the configuration.
func Serve(ctx context.Context, c Config, w World, log *slog.Logger) error {
	if w.Environment("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if w.Environment("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	s, err := New(c, w, log)
	if err != nil {
		return err
	}
	if c.Listen == "" {
		return s.Run(ctx)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), s.Close())
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headTime, ReadTimeout: headTime, WriteTimeout: headTime}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.Info("keeping exclusive CPUs quiet", "listen", listener.Addr().String(), "state", c.State)
	err = s.Run(ctx)
	closing := server.Close()
	if serving := <-served; !errors.Is(serving, http.ErrServerClosed) {
		closing = errors.Join(closing, serving)
	}
	return errors.Join(err, closing)
}
