package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestScenarios plays the files in testdata. They are written in the language of
// internal/testing/scenario, which defines the commands machine, config and pod. The other commands
// print the series that changed: counters with the increment, gauges with the new value. After a
// change of behaviour, run go test -rewrite and read the diff.
//
//	admit NAME, remove NAME, tick
//	disk broken|works         whether writes of the state succeed
//	served ENDPOINT VERSION [error]
//	limited ENDPOINT VERSION
//	metrics                   everything, as Prometheus reads it
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, script golden.Script) {
		p := &player{node: scenario.New(func(string) (*machine.Machine, error) { return nil, errors.New("no recorded machines here") })}
		script.Play(func(c scenario.Command) []string { return p.run(t, c) })
	})
}

// player runs commands. node describes machines, configurations and pods, and rig has the state.
type player struct {
	node *scenario.Node
	rig  *rig
	last map[string]float64
}

func (p *player) run(t *testing.T, c scenario.Command) []string {
	t.Helper()
	switch c.Name {
	case "machine", "config", "pod":
		answer := p.node.Run(c)
		if c.Name == "config" && p.node.State() != nil {
			p.rig = newRig(p.node.State())
			p.last = series(scrape(t, p.rig.handler))
		}
		return strings.Split(answer, "\n")
	case "metrics":
		return strings.Split(strings.TrimSpace(exposition(t, scrape(t, p.rig.handler))), "\n")
	}
	answer, err := p.act(t.Context(), c)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	now := series(scrape(t, p.rig.handler))
	lines := append([]string{answer}, changes(p.last, now)...)
	p.last = now
	return lines
}

func (p *player) act(ctx context.Context, c scenario.Command) (string, error) {
	args := append(slices.Clone(c.Args), "", "", "")
	switch c.Name {
	case "admit":
		pod, err := p.node.Request(args[0])
		if err != nil {
			return "", err
		}
		return verdict(p.rig.engine.Admit(ctx, pod)), nil
	case "remove":
		return outcome("released", p.rig.engine.Release(ctx, args[0])), nil
	case "tick":
		return outcome("done", p.rig.engine.Tick(ctx)), nil
	case "disk":
		p.rig.broken = args[0] == "broken"
		return "ok", nil
	case "served":
		var err error
		if args[2] == "error" {
			err = errors.New("not found")
		}
		p.rig.telemetry.Served(args[0], args[1], err)
		return "ok", nil
	case "limited":
		p.rig.telemetry.Limited(args[0], args[1])
		return "ok", nil
	}
	return "", fmt.Errorf("no command %q", c.Name)
}

func verdict(plan *node.Plan, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case plan.Rejection != nil:
		return fmt.Sprintf("rejected: %s (%s)", plan.Rejection.Reason, plan.Rejection.Rule)
	case plan.Known:
		return "known"
	}
	return "admitted"
}

func outcome(word string, err error) string {
	if err != nil {
		return err.Error()
	}
	return word
}

// changes returns the differences: "+n" for counters and histograms, "= n" for gauges.
func changes(before, after map[string]float64) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, is := before[name], after[name]
		switch {
		case was == is:
		case isGauge(name):
			lines = append(lines, fmt.Sprintf("%s = %.14g", name, is))
		default:
			lines = append(lines, fmt.Sprintf("%s +%.10g", name, is-was))
		}
	}
	return lines
}

func isGauge(series string) bool {
	for _, begin := range []string{
		"kubelet_cpu_manager_shared", "kubelet_cpu_manager_exclusive", "kubelet_cpu_manager_allocation", "paddock_state_revision",
		"paddock_state_last", "paddock_state_bytes", "paddock_free", "paddock_allocatable", "paddock_unreleased", "paddock_container",
	} {
		if strings.HasPrefix(series, begin) {
			return true
		}
	}
	return series == "paddock_pods"
}
