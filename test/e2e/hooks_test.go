package e2e

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// hookMetric is the histogram of every hook.
const hookMetric = "paddock_nri_hook"

// collectHooks keeps the histogram of an agent that is about to end.
func (n *node) collectHooks() {
	if !n.running {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: metricsURL + "/metrics"})
	if err != nil {
		return // It was killed on purpose.
	}
	for line := range strings.Lines(answer.Stdout) {
		if strings.HasPrefix(line, hookMetric) {
			world.hooks = append(world.hooks, strings.TrimSpace(line))
		}
	}
}

// printHooks adds up what was kept.
func printHooks(out io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
