package fleetcommand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// attempt is a computation that Ctrl-C ends without an answer.
type attempt struct {
	s            console.Streams
	ended        func() bool
	tried, total int64
}

// interruptible returns a context that Ctrl-C ends, and the attempt that counts under it how many
// pods are tried. The caller calls stop when the computation has ended.
func interruptible(ctx context.Context, s console.Streams, o *capacity.Options) (until context.Context, stop func(), a *attempt) {
	until, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	a = &attempt{s: s, ended: func() bool { return until.Err() != nil }}
	show := s.Progress("pods tried")
	o.Progress = func(tried, total int64) {
		if a.tried, a.total = tried, total; show != nil {
			show(tried, total)
		}
	}
	return until, stop, a
}

// outcome returns an error of the computation, or in place of it that the computation was
// interrupted, and after how many pods.
func (a *attempt) outcome(err error) error {
	if err == nil || !a.ended() {
		return err
	}
	a.s.EndProgress()
	switch tried := view.Number(int(a.tried)); {
	case a.tried == 0:
		return errors.New("interrupted before there was an answer")
	case a.tried == a.total:
		return fmt.Errorf("interrupted after all %s pods were tried, before the answer was complete", tried)
	case a.total > 0:
		return fmt.Errorf("interrupted after %s of %s pods were tried: there is no answer", tried, view.Number(int(a.total)))
	default:
		return fmt.Errorf("interrupted after %s pods were tried: there is no answer", tried)
	}
}
