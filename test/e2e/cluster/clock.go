package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// stopwatch counts the commands of a page and takes the time between two of them.
type stopwatch struct {
	commands atomic.Int64
	since    atomic.Pointer[time.Time]
}

// count counts a command, unless it reads the stopwatch or compares the node.
func (s *stopwatch) count(command string) {
	switch name, _, _ := strings.Cut(command, " "); name {
	case "clock", "before", "after":
	default:
		s.commands.Add(1)
	}
}

// clock prints how many commands the page has run since the last clock. The time since then depends
// on the host and is written to the log of the test. The first clock of a page prints nothing.
func clock(_ context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	now := time.Now()
	commands, before := n.watch.commands.Swap(0), n.watch.since.Swap(&now)
	if before == nil {
		return wire.Ended{}, nil
	}
	say("%d commands in %.0f s", commands, now.Sub(*before).Seconds())
	return wire.Ended{Stdout: fmt.Sprintf("%d commands\n", commands)}, nil
}
