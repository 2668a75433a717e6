package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

func (n *node) cmdBurn(ctx context.Context, c scenario.Command) ([]string, error) {
	if len(c.Args) != 3 {
		return nil, fmt.Errorf("want POD/CONTAINER THREADS DURATION")
	}
	pod, name, err := n.known(c.Args)
	if err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(c.Args[2])
	if err != nil {
		return nil, err
	}
	before, err := n.throttled(ctx, string(pod.UID), name)
	if err != nil {
		return nil, err
	}
	if err := n.burn(ctx, string(pod.UID), name, c.Args[1], d); err != nil {
		return nil, err
	}
	after, err := n.throttled(ctx, string(pod.UID), name)
	if err != nil {
		return nil, err
	}
	if after > before {
		return []string{"throttled"}, nil
	}
	return []string{"never throttled"}, nil
}

// burn keeps threads of a container busy. It returns when they are done.
func (n *node) burn(ctx context.Context, uid, name, threads string, d time.Duration) error {
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpInContainer, wire.InContainer{
		UID: uid, Name: name, Argv: []string{"/pause", "burn", threads, d.String()}, Timeout: d + patience,
	})
	if err == nil && ended.Code != 0 {
		err = fmt.Errorf("burn ended with %d: %s", ended.Code, ended.Stderr)
	}
	return err
}

func (n *node) throttled(ctx context.Context, uid, name string) (uint64, error) {
	o, err := n.observe(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range o.Containers {
		if c.UID == uid && c.Name == name {
			return c.Throttled, nil
		}
	}
	return 0, fmt.Errorf("%s of %s does not run", name, uid)
}

// ofNode matches e.g. "N3=2" in the line of a huge mapping: two pages of NUMA node 3.
var ofNode = regexp.MustCompile(`\bN([0-9]+)=([0-9]+)`)

func (n *node) cmdHuge(ctx context.Context, c scenario.Command) ([]string, error) {
	pod, name, err := n.known(c.Args)
	if err != nil || len(c.Args) != 2 {
		return nil, fmt.Errorf("want POD/CONTAINER BYTES: %w", err)
	}
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpInContainer, wire.InContainer{
		UID: string(pod.UID), Name: name, Argv: []string{"/pause", "huge", c.Args[1]}, Timeout: patience,
	})
	if err != nil {
		return nil, err
	}
	if ended.Code != 0 {
		return []string{fmt.Sprintf("ended with %d", ended.Code)}, nil
	}
	pages := map[string]int{}
	for line := range strings.Lines(ended.Stdout) {
		if !strings.Contains(line, " huge ") {
			continue
		}
		for _, found := range ofNode.FindAllStringSubmatch(line, -1) {
			count, err := strconv.Atoi(found[2])
			if err != nil {
				return nil, err
			}
			pages[found[1]] += count
		}
	}
	var lines []string
	for id, count := range pages {
		lines = append(lines, fmt.Sprintf("node %s: %d pages", id, count))
	}
	slices.Sort(lines)
	return lines, nil
}

// cmdChurn runs pods of six kinds. While each pod starts, it removes the third last pod. It checks
// the invariants after every pod.
func (n *node) cmdChurn(ctx context.Context, c scenario.Command) ([]string, error) {
	kinds := [][]string{
		{"cpu=2 memory=128Mi", "app own cpu=1 memory=64Mi", "app rest"},
		{"", "app one cpu=1 memory=64Mi"},
		{"", "app small cpu=100m.. memory=32Mi.."},
		{"cpu=1 memory=96Mi", "init first cpu=1 memory=64Mi", "app own cpu=1 memory=64Mi"},
		{"cpu=2 memory=128Mi", "app own cpu=2 memory=128Mi"},
		{"", "app free"},
	}
	if len(c.Args) != 1 {
		return nil, fmt.Errorf("want a number of pods")
	}
	total, err := strconv.Atoi(c.Args[0])
	if err != nil {
		return nil, err
	}
	var alive []string
	for i := range total {
		kind := kinds[i%len(kinds)]
		name := fmt.Sprintf("churn%02d", i)
		removed := make(chan error, 1)
		if len(alive) > 2 {
			first := n.pods[alive[0]]
			delete(n.pods, first.Name)
			alive = alive[1:]
			go func() {
				_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpRemove, wire.Remove{UID: string(first.UID)})
				removed <- err
			}()
		} else {
			removed <- nil
		}
		args := append([]string{name}, strings.Fields(kind[0])...)
		lines, err := n.cmdRun(ctx, scenario.Command{Name: "run", Args: args, Input: kind[1:]})
		if err := errors.Join(err, <-removed); err != nil {
			return lines, err
		}
		if strings.HasPrefix(lines[0], "rejected") {
			return append([]string{name}, lines...), nil
		}
		alive = append(alive, name)
		if broken := n.invariants(ctx); len(broken) > 0 {
			return append([]string{name}, broken...), nil
		}
	}
	_, err = n.cmdRemove(ctx, scenario.Command{Args: alive})
	return []string{fmt.Sprintf("%d pods came and went", total)}, err
}
