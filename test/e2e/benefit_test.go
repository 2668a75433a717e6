package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// benefitPolicies are the policies that docs/benefit.md compares. The pod has a container that
// polls with one thread on each of its two CPUs, and a helper that could use two CPUs.
var benefitPolicies = []struct {
	name string
	// agent has the settings of the agent. If nil, no agent runs.
	agent []string
	// amounts are the pod-level resources.
	amounts    string
	containers []string
}{
	{"none", nil, "cpu=3 memory=256Mi", []string{"app loop cpu=2 memory=128Mi", "app helper"}},
	{"static", []string{"topology=restricted", "scope=container"}, "", []string{"app loop cpu=2 memory=128Mi", "app helper cpu=500m memory=64Mi"}},
	{"pool", []string{"topology=restricted", "scope=pod"}, "cpu=3 memory=256Mi", []string{"app loop cpu=2 memory=128Mi", "app helper"}},
}

const (
	// benefitTime is how long the containers work.
	benefitTime = 20 * time.Second
	// neighbours is the number of threads of a pod that requests four CPUs and has no limit. It is
	// more than the machine has CPUs.
	neighbours = "12"
)

// scheduled is what the kernel's scheduler did to the threads of a container, and how often quotas
// throttled them.
type scheduled struct {
	involuntary, migrations, timeslices int
	// own is the throttling by the container's quota, pod that by its pod's quota.
	own, pod wire.Throttling
}

// TestBenefit prints the table of docs/benefit.md. On an emulated machine the counts differ from
// run to run. The result that exclusive CPUs avoid most of them does not.
func TestBenefit(t *testing.T) {
	if !*benefit {
		t.Log("make benefit compares policies")
		return
	}
	m := open(t, "benefit", "2numa")
	found := map[string]scheduled{}
	for _, p := range benefitPolicies {
		m.run(t, p.name, func(t *testing.T, n *node) {
			if p.agent != nil {
				n.must(t, "agent "+strings.Join(p.agent, " "))
			}
			n.must(t, "run noisy", "app neighbours cpu=4..")
			n.must(t, "run latency "+p.amounts, p.containers...)
			n.must(t, "settle")
			for name, s := range n.measure(t) {
				found[p.name+"/"+name] = s
			}
		})
	}
	if t.Failed() {
		return
	}
	fmt.Printf("\n%s", benefitTable(found))
	none := found["none/loop"]
	for _, name := range []string{"static/loop", "pool/loop"} {
		s := found[name]
		if 2*s.involuntary > none.involuntary || s.own.Throttled+s.pod.Throttled > 0 {
			fail(t, "%s is throttled, or has more than half of the switches of none/loop: %+v, %+v", name, s, none)
		}
	}
	if none.own.Throttled+none.pod.Throttled == 0 {
		fail(t, "none/loop is not throttled: %+v", none)
	}
}

func benefitTable(found map[string]scheduled) string {
	var out strings.Builder
	fmt.Fprintf(&out, "in %.0f s         involuntary                          periods throttled\n", benefitTime.Seconds())
	fmt.Fprintln(&out, "policy  container  switches  migrations  timeslices  container        pod")
	for _, p := range benefitPolicies {
		for _, name := range []string{"loop", "helper"} {
			s := found[p.name+"/"+name]
			fmt.Fprintf(&out, "%-6s  %-9s  %8d  %10d  %10d  %9s  %9s\n", p.name, name, s.involuntary, s.migrations, s.timeslices, periods(s.own), periods(s.pod))
		}
	}
	return out.String()
}

// periods formats throttled periods, or returns "-" if there is no quota.
func periods(t wire.Throttling) string {
	if t.Periods == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", t.Throttled, t.Periods)
}

// measure lets the neighbours and both containers of the pod latency work at the same time.
func (n *node) measure(t *testing.T) map[string]scheduled {
	t.Helper()
	ctx, pod := t.Context(), n.pods["latency"]
	before, err := n.observe(ctx)
	if err != nil {
		fail(t, "%v", err)
	}
	names := []string{"loop", "helper"}
	found, errs := make([]scheduled, len(names)), make([]error, len(names)+1)
	var all sync.WaitGroup
	// The neighbours start before the containers, and work until the end.
	all.Go(func() {
		errs[len(names)] = n.burn(ctx, string(n.pods["noisy"].UID), "neighbours", neighbours, benefitTime+10*time.Second)
	})
	if err := pause(ctx, 2*time.Second); err != nil {
		fail(t, "%v", err)
	}
	for i, name := range names {
		all.Go(func() { found[i], errs[i] = n.loop(ctx, pod, name) })
	}
	all.Wait()
	after, err := n.observe(ctx)
	if err := errors.Join(append(errs, err)...); err != nil {
		fail(t, "%v", err)
	}
	result := map[string]scheduled{}
	for i, name := range names {
		found[i].own = since(throttling(before, pod, name), throttling(after, pod, name))
		found[i].pod = since(podThrottling(before, pod), podThrottling(after, pod))
		result[name] = found[i]
	}
	return result
}

// loop keeps two threads of a container busy and returns what the scheduler did to them.
func (n *node) loop(ctx context.Context, pod *v1.Pod, name string) (s scheduled, err error) {
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpInContainer, wire.InContainer{
		UID: string(pod.UID), Name: name, Argv: []string{"/loop", "2", strconv.Itoa(int(benefitTime.Seconds()))}, Timeout: patience,
	})
	if err != nil {
		return s, err
	}
	if _, err := fmt.Sscanf(ended.Stdout, "involuntary %d migrations %d timeslices %d", &s.involuntary, &s.migrations, &s.timeslices); err != nil {
		return s, fmt.Errorf("loop ended with %d: %q %s: %w", ended.Code, ended.Stdout, ended.Stderr, err)
	}
	return s, nil
}

func since(before, after seen) wire.Throttling {
	return wire.Throttling{Periods: after.Periods - before.Periods, Throttled: after.Throttled - before.Throttled}
}
