package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// numa prints on which NUMA nodes the anonymous memory of containers is, in MiB. It prints one line
// per container. The words select containers as those of cpus. Less than 1 MiB is not printed.
func numa(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	o, err := vm.Do[wire.Observation](ctx, n.vm, wire.OpObserve, wire.Nothing{})
	if err != nil {
		return wire.Ended{}, err
	}
	var out strings.Builder
	for _, c := range o.Containers {
		if named(c.Pod, words) {
			fmt.Fprintf(&out, "%s %s  %s\n", c.Pod, c.Name, anonymous(c.Files["memory.numa_stat"]))
		}
	}
	return wire.Ended{Stdout: out.String()}, nil
}

// anonymous reads the line "anon N0=BYTES N1=BYTES" of memory.numa_stat
// (Documentation/admin-guide/cgroup-v2.rst).
func anonymous(stat string) string {
	var nodes []string
	for line := range strings.Lines(stat) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "anon" {
			continue
		}
		for _, word := range words[1:] {
			id, bytes, _ := strings.Cut(strings.TrimPrefix(word, "N"), "=")
			if n, err := strconv.ParseInt(bytes, 10, 64); err == nil && n >= 1<<20 {
				nodes = append(nodes, fmt.Sprintf("NUMA node %s: %d MiB", id, n>>20))
			}
		}
	}
	if nodes == nil {
		return "nothing"
	}
	return strings.Join(nodes, ", ")
}
