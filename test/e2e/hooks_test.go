package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// hookMetric is the histogram of every hook.
const hookMetric = "paddock_runtime_hook_duration_seconds_bucket"

// histogram counts answers by upper bound in seconds, cumulated.
type histogram map[float64]uint64

// collectHooks keeps the histograms of an agent that is about to end.
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
		addHook(world.hooks, strings.TrimSpace(line))
	}
}

// addHook takes a line like NAME{hook="CreateContainer",le="0.0016"} 12.
func addHook(all map[string]histogram, line string) {
	labels, ok := strings.CutPrefix(line, hookMetric+"{")
	if !ok {
		return
	}
	labels, count, _ := strings.Cut(labels, "} ")
	var hook, bound string
	for label := range strings.SplitSeq(labels, ",") {
		name, value, _ := strings.Cut(label, "=")
		value = strings.Trim(value, `"`)
		switch name {
		case "hook":
			hook = value
		case "le":
			bound = value
		}
	}
	le, err := strconv.ParseFloat(bound, 64)
	if err != nil {
		return
	}
	n, err := strconv.ParseFloat(count, 64)
	if err != nil {
		return
	}
	if all[hook] == nil {
		all[hook] = histogram{}
	}
	all[hook][le] += uint64(n)
}

// printHooks prints how long the agent's answers took: for each part of the answers the bound that
// they were below of.
func printHooks(out io.Writer, all map[string]histogram) error {
	if len(all) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "\nhooks, emulated CPUs    count      50%%      99%%     100%%\n"); err != nil {
		return err
	}
	for _, hook := range slices.Sorted(maps.Keys(all)) {
		h := all[hook]
		bounds := slices.Sorted(maps.Keys(h))
		count := h[bounds[len(bounds)-1]]
		if count == 0 {
			continue
		}
		line := fmt.Sprintf("  %-20s %6d", hook, count)
		for _, part := range []float64{0.5, 0.99, 1} {
			for _, le := range bounds {
				if float64(h[le]) >= part*float64(count) {
					line += fmt.Sprintf("  <%6.1fms", le*1000)
					break
				}
			}
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
