package fleetcommand

import (
	"errors"
	"testing"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
)

// TestInterrupted checks what a computation that Ctrl-C ended tells about how far it came, and that
// other errors stay as they are.
func TestInterrupted(t *testing.T) {
	for _, c := range []struct {
		tried, total int64
		want         string
	}{
		{0, 0, "interrupted before there was an answer"},
		{1024, 5000, "interrupted after 1,024 of 5,000 pods were tried: there is no answer"},
		{1024, 0, "interrupted after 1,024 pods were tried: there is no answer"},
		{5000, 5000, "interrupted after all 5,000 pods were tried, before the answer was complete"},
	} {
		var o capacity.Options
		ctx, stop, a := interruptible(t.Context(), console.Streams{}, &o)
		o.Progress(c.tried, c.total)
		other := errors.New("another error")
		if err := a.outcome(other); err == nil || err.Error() != other.Error() {
			t.Errorf("%d of %d: before the interruption: %v, want %v", c.tried, c.total, err, other)
		}
		stop()
		if err := a.outcome(ctx.Err()); err == nil || err.Error() != c.want {
			t.Errorf("%d of %d: %v, want %s", c.tried, c.total, err, c.want)
		}
		if err := a.outcome(nil); err != nil {
			t.Errorf("%d of %d: %v without an error", c.tried, c.total, err)
		}
	}
}
