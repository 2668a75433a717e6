// Package hooks shows how long a runtime waited for the agent's answers. The times come from the
// agent's own metrics.
package hooks

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rows maps the histograms that are shown to the text before their numbers. The histogram of the
// hooks has one row per hook. An admission is nearly always part of the answer to RunPodSandbox.
var rows = map[string]string{
	"paddock_runtime_hook_duration_seconds_bucket": "",
	"paddock_pod_lookup_duration_seconds_bucket":   "RunPodSandbox: asking the kubelet",
	"paddock_admission_duration_seconds_bucket":    "RunPodSandbox: deciding, writing",
}

// histogram has cumulative counts of answers by their upper bound in seconds.
type histogram map[float64]uint64

// Hooks has the histograms of one or several agents, by row. The zero value is empty.
type Hooks struct {
	mu  sync.Mutex
	all map[string]histogram
}

// Add adds the metrics that an agent serves on /metrics.
func (h *Hooks) Add(metrics string) {
	for line := range strings.Lines(metrics) {
		h.add(strings.TrimSpace(line))
	}
}

// add parses a line such as NAME{hook="CreateContainer",le="0.0016"} 12.
func (h *Hooks) add(line string) {
	metric, labels, _ := strings.Cut(line, "{")
	row, shown := rows[metric]
	if !shown {
		return
	}
	labels, count, _ := strings.Cut(labels, "} ")
	var bound string
	for label := range strings.SplitSeq(labels, ",") {
		name, value, _ := strings.Cut(label, "=")
		value = strings.Trim(value, `"`)
		switch name {
		case "hook":
			row = value
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
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]histogram{}
	}
	if h.all[row] == nil {
		h.all[row] = histogram{}
	}
	h.all[row][le] += uint64(n)
}

// These are limits in seconds: longest99 for 99 of 100 answers to a hook, and longest for all.
// After longest, a runtime disconnects the agent.
const (
	longest99 = 0.05
	longest   = 2.0
)

// of returns the bound in seconds below which the given part of the answers is.
func (h histogram) of(part float64) float64 {
	bounds := slices.Sorted(maps.Keys(h))
	count := float64(h[bounds[len(bounds)-1]])
	for _, le := range bounds {
		if float64(h[le]) >= part*count {
			return le
		}
	}
	return 0
}

// Print prints how long the agents' answers took. The error names a hook that took too long for a
// runtime. Times over longest99 are only marked, because the speed of an emulated CPU is not known.
func (h *Hooks) Print(out io.Writer) error {
	if len(h.all) == 0 {
		return nil
	}
	var slow []error
	lines := []string{"", fmt.Sprintf("%-35s %6s %9s %9s %9s", "hooks, emulated CPUs", "count", "50% <", "99% <", "all <")}
	for _, row := range slices.Sorted(maps.Keys(h.all)) {
		one := h.all[row]
		count := one[math.Inf(1)]
		if count == 0 {
			continue
		}
		p50, p99, p100 := one.of(0.5), one.of(0.99), one.of(1)
		line := fmt.Sprintf("  %-33s %6d %6.1f ms %6.1f ms %6.1f ms", row, count, p50*1000, p99*1000, p100*1000)
		if p99 > longest99 {
			line += fmt.Sprintf("  over %.0f ms", longest99*1000)
		}
		lines = append(lines, line)
		if p100 > longest {
			slow = append(slow, fmt.Errorf("%s: an answer took more than %.0f s, after which a runtime goes on without us", row, longest))
		}
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return errors.Join(append(slow, err)...)
}
