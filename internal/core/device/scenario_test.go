package device

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestScenarios runs the files in testdata. Each command works on the state that the previous ones
// left:
//
//	node nodes=LIST              a line for each device: resource, id, NUMA nodes or "-",
//	                             optionally "unhealthy"; none is assigned
//	take, return                 lines: resource, ids
//	hints RESOURCE n=N [reusable=(IDS)]
//	                             → the hint set, and its merge under best-effort
//	allocate RESOURCE n=N [on=LIST] [reusable=(IDS)]
//	                             → the ids; on= is the aligned mask
//	pod RESOURCE policy=POLICY   a line for each container: container type, number; aligned one by one
//	counts RESOURCE              → the counts of each NUMA node
//
// After a change of behaviour, run go test -rewrite and read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/fuzz") {
			return
		}
		p := &player{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.t, p.d = t, d
			out, err := p.run()
			if err != nil {
				return err.Error()
			}
			return out
		})
	})
}

type player struct {
	t     *testing.T
	d     *datadriven.TestData
	nodes mask.Mask
	usage Usage
}

func (p *player) run() (string, error) {
	switch p.d.Cmd {
	case "node":
		return p.node()
	case "take", "return":
		return p.move()
	case "hints":
		f := p.usage.Hints(p.resource(), p.number(), p.ids("reusable"))
		return p.describe(f), nil
	case "allocate":
		on := p.list("on")
		ids, err := p.usage.Allocate(p.resource(), p.number(), hint.Choice{Mask: on, HasMask: on != 0}, p.ids("reusable"))
		return strings.Join(ids, " "), err
	case "pod":
		return p.pod()
	case "counts":
		var b strings.Builder
		for _, c := range p.usage.Counts(p.resource()) {
			fmt.Fprintf(&b, "NUMA node %d: %d devices, %d assigned, %d free\n", c.Node, c.Total, c.Assigned, c.Free)
		}
		return b.String(), nil
	}
	p.d.Fatalf(p.t, "no command %q", p.d.Cmd)
	return "", nil
}

func (p *player) resource() string { return p.d.CmdArgs[0].Key }

func (p *player) number() (n int64) {
	p.d.ScanArgs(p.t, "n", &n)
	return n
}

func (p *player) ids(arg string) []string {
	for _, a := range p.d.CmdArgs {
		if a.Key == arg {
			return a.Vals
		}
	}
	return nil
}

func (p *player) list(arg string) mask.Mask {
	m, err := mask.Parse(strings.Join(p.ids(arg), ","))
	if err != nil {
		p.d.Fatalf(p.t, "%v", err)
	}
	return m
}

func (p *player) node() (string, error) {
	m := machineOf(p.t, p.list("nodes").Nodes()...)
	p.nodes = m.NodeMask()
	resources := map[string][]Device{}
	for line := range strings.Lines(p.d.Input) {
		words := strings.Fields(line)
		d := Device{ID: words[1], Healthy: len(words) < 4}
		if words[2] != "-" {
			var err error
			if d.Nodes, err = mask.Parse(words[2]); err != nil {
				return "", err
			}
		}
		resources[words[0]] = append(resources[words[0]], d)
	}
	inv, err := NewInventory(m, resources)
	if err != nil {
		return "", err
	}
	p.usage = NewUsage(inv)
	return strings.Join(inv.Resources(), " "), nil
}

func (p *player) move() (string, error) {
	for line := range strings.Lines(p.d.Input) {
		words := strings.Fields(line)
		if p.d.Cmd == "return" {
			p.usage = p.usage.Return(words[0], words[1:])
			continue
		}
		var err error
		if p.usage, err = p.usage.Take(words[0], words[1:]); err != nil {
			return "", err
		}
	}
	return p.assigned(), nil
}

func (p *player) assigned() string {
	var b strings.Builder
	for _, h := range p.usage.Assigned() {
		fmt.Fprintf(&b, "held: %s %s\n", h.Resource, strings.Join(h.IDs, " "))
	}
	if b.Len() == 0 {
		return "nothing is held"
	}
	return b.String()
}

func (p *player) describe(f hint.Set) string {
	c := hint.Merge([]hint.Set{f}, hint.Rules{Policy: hint.BestEffort, Nodes: p.nodes})
	text := fmt.Sprintf("%s; merged alone: %s preferred=%t", f.Kind, c.Mask, c.Preferred)
	if f.Why != "" {
		text = fmt.Sprintf("%s: %s", f.Kind, f.Why)
	}
	if f.Kind == hint.Fits {
		text = fmt.Sprintf("%s among %s, preferred on %d; merged alone: %s preferred=%t", f.Kind, f.Candidates, f.Preferred, c.Mask, c.Preferred)
	}
	return text
}

// pod aligns the containers and allocates their devices one after the other, as a Kubernetes node
// does.
func (p *player) pod() (string, error) {
	var policy string
	p.d.ScanArgs(p.t, "policy", &policy)
	policies := map[string]hint.Policy{"best-effort": hint.BestEffort, "restricted": hint.Restricted, "single-numa-node": hint.SingleNUMANode}
	containerTypes := map[string]request.ContainerType{"init": request.Init, "sidecar": request.Sidecar, "app": request.App}
	resource, usage, reuse := p.resource(), p.usage, Reuse(nil)
	var b strings.Builder
	for line := range strings.Lines(p.d.Input) {
		words := strings.Fields(line)
		n, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return "", err
		}
		f := usage.Hints(resource, n, reuse.IDs(resource))
		c := hint.Merge([]hint.Set{f}, hint.Rules{Policy: policies[policy], Nodes: p.nodes})
		if !c.Admit {
			return fmt.Sprintf("%s%s: refused, hints are %s", &b, words[0], p.describe(f)), nil
		}
		ids, err := usage.Allocate(resource, n, c, reuse.IDs(resource))
		if err != nil {
			return b.String() + words[0] + ": " + err.Error(), nil
		}
		if usage, err = usage.Take(resource, reuse.New(resource, ids)); err != nil {
			return "", err
		}
		reuse = reuse.After(containerTypes[words[0]], resource, ids)
		fmt.Fprintf(&b, "%s: %s preferred=%t: %s\n", words[0], c.Mask, c.Preferred, strings.Join(ids, " "))
	}
	p.usage = usage
	return b.String() + p.assigned(), nil
}
