package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// cmdHotplug takes CPUs offline or online. If the agent runs, it waits until the agent has noticed.
func (n *node) cmdHotplug(ctx context.Context, c scenario.Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, fmt.Errorf("want a list of CPUs, such as 2-3")
	}
	cpus, err := cpuset.Parse(c.Args[0])
	if err != nil {
		return nil, err
	}
	if _, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpPlug, wire.Plug{CPUs: cpus.IDs(), Online: c.Name == "online"}); err != nil {
		return nil, err
	}
	return nil, n.awaitCPUs(ctx)
}

// awaitCPUs waits until the CPUs that the agent can assign are those that are online and not
// reserved.
func (n *node) awaitCPUs(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for n.running {
		o, err := n.observe(ctx)
		if err != nil {
			return err
		}
		online, err := cpuset.Parse(o.Online)
		if err != nil {
			return err
		}
		reserved, err := cpuset.Parse(n.settings["reserved-cpus"])
		if err != nil {
			return err
		}
		want := online.Difference(reserved).Len()
		have, err := n.allocatableCPUs(ctx)
		if err == nil && have == want {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d CPUs are online and not reserved, the agent knows of %d: %w", want, have, err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// allocatableCPUs returns the sum of paddock_allocatable_cpus.
func (n *node) allocatableCPUs(ctx context.Context) (int, error) {
	text, err := n.metrics(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(series, "paddock_allocatable_cpus{") {
			continue
		}
		var cpus int
		if _, err := fmt.Sscan(value, &cpus); err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		sum += cpus
	}
	return sum, nil
}

// allOnline brings the CPUs online again that an aborted scenario left offline.
func (n *node) allOnline(ctx context.Context) error {
	o, err := n.observe(ctx)
	if err != nil {
		return err
	}
	online, err := cpuset.Parse(o.Online)
	if err != nil {
		return err
	}
	present, err := cpuset.Parse(o.Present)
	if err != nil {
		return err
	}
	if online.Equal(present) {
		return nil
	}
	_, err = vm.Do[wire.Nothing](ctx, n.vm, wire.OpPlug, wire.Plug{CPUs: present.Difference(online).IDs(), Online: true})
	return err
}
