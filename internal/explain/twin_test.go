package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestAmountsAgainstEveryAmount compares the search for amounts with a brute-force search, on nodes
// that are small enough to plan every amount. A proposal must be the largest amount unless the
// search reports that it ended. "none" must be true for every amount, and for thousands of
// combinations of amounts.
func TestAmountsAgainstEveryAmount(t *testing.T) {
	setChecks(t, "1000")
	rejected, none, ended, proposed, nothing, raised := 0, 0, 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawTiny(t)
		name := d.tinyPod(2)
		if name == "" {
			return
		}
		s := d.n.State()
		pod, err := d.n.Request(name)
		if err != nil {
			d.fatalf("%v", err)
		}
		if s.Plan(pod).Rejection == nil {
			return
		}
		rejected++
		found, summary := amountsOf(d, s, pod)
		w := twin{drawn: d, s: s, pod: pod, summary: summary}
		if strings.Contains(summary, "not searched further") {
			if ended++; len(found) == 0 {
				nothing++
			}
		} else if strings.HasPrefix(summary, "none") {
			none++
			w.checkNone()
			return
		}
		proposed += len(found)
		if !strings.Contains(summary, "not searched further") {
			for _, p := range found {
				w.checkMost(p)
				w.checkEach(p)
				w.checkLeast(p)
			}
			raised += w.raised
		}
	})
	t.Logf("%d rejected: %d proposals, %d of them of more, %d none, %d searches ended, %d of them with nothing", rejected, proposed, raised, none, ended, nothing)
	if rejected < 20 || none < 3 || ended > rejected/3 || raised == 0 {
		t.Errorf("too few cases, or too many searches ended: %d rejected, %d of more, %d none, %d ended", rejected, raised, none, ended)
	}
}

// amountsOf returns the proposals of kind Amounts and the summary of their search.
func amountsOf(d *drawn, s *node.State, pod request.Pod) (found []explain.Proposal, summary string) {
	r := searched(d.t, s, pod)
	for _, p := range r.Proposals {
		if p.Kind == explain.Amounts {
			found = append(found, p)
		}
	}
	for _, tried := range r.Tried {
		if strings.HasPrefix(tried.What, "less") {
			summary = tried.Found
		}
	}
	return found, summary
}

// drawTiny draws a node with up to 4 NUMA nodes, each with up to 6 CPUs and 20 MiB, and some pods.
func drawTiny(t *rapid.T) *drawn {
	d := &drawn{t: t}
	d.n = scenario.New(nil)
	d.do("machine", tinyMachine(d)...)
	config := "topology=" + d.pick("topology", "best-effort", "restricted", "restricted", "single-numa-node", "none") +
		" scope=" + d.pick("scope", "pod", "container") + " cpu=static memory=Static reserved-memory=0:1Mi"
	options := d.pick("options", "", "", "", " options=full-pcpus-only", " options=distribute-cpus-across-numa", " options=align-by-socket",
		" options=strict-cpu-reservation reserved-cpus=0", " options=full-pcpus-only reserved-cpus=1") + d.pick("closest", "", " topology-options=prefer-closest-numa-nodes")
	for _, c := range []string{config + options + " gates=CPUManagerPolicyAlphaOptions", config} {
		if d.do("config " + c); d.n.State() != nil {
			break
		}
	}
	if d.n.State() == nil {
		d.fatalf("no settings are legal")
	}
	for range d.intn(0, 4, "pods") {
		if name := d.tinyPod(5); name != "" {
			d.do("admit " + name)
		}
	}
	return d
}

func tinyMachine(d *drawn) []string {
	threads, id, nodes := d.intn(1, 2, "threads"), 0, d.intn(1, d.intn(2, 4, "most numa"), "numa")
	var lines []string
	for n := range nodes {
		cores := d.intn(2, 6/threads, "cores")
		text := fmt.Sprintf("%d-%d", id, id+cores-1)
		if id += cores; threads == 2 {
			text, id = fmt.Sprintf("%s+%d-%d", text, id, id+cores-1), id+cores
		}
		lines = append(lines, fmt.Sprintf("node %d cores=%s memory=%dMi distances=%s socket=%d", n, text, d.intn(4, 20, "memory"), distances(d, n, nodes), n/2))
	}
	return lines
}

// distances returns the distances of the n-th NUMA node.
func distances(d *drawn, n, nodes int) string {
	var list []string
	for i := range nodes {
		far := 10 + 10*max(n-i, i-n)
		if i != n {
			far += d.intn(0, 1, "far") * 7
		}
		list = append(list, fmt.Sprint(far))
	}
	return strings.Join(list, ",")
}

// tinyPod adds a pod to the script whose containers request up to a part of the machine, and
// returns its name. It returns the empty string if the API server would reject the pod.
func (d *drawn) tinyPod(part int) string {
	name := fmt.Sprintf("p%d", d.pods)
	d.pods++
	m := d.n.State().Machine()
	most := max(2, 2*len(m.CPUs())/part)
	level := d.intn(0, 1, "pod level") == 1
	cpus, mem := 0, 0
	var lines []string
	for i := range d.intn(1, 3, "containers") {
		containerType := "app"
		if i == 0 {
			containerType = d.pick("type", "init", "sidecar", "app", "app")
		}
		kind := d.pick("kind", "whole", "whole", "memory", "shared")
		if kind == "shared" && level {
			lines = append(lines, fmt.Sprintf("%s c%d", containerType, i))
			continue
		}
		n, amount := d.intn(1, most, "cpus"), d.intn(1, 40/part, "memory")
		text := fmt.Sprintf("%d", n)
		if kind != "whole" {
			text = "100m"
			n = 1
		}
		cpus, mem = cpus+n, mem+amount
		lines = append(lines, fmt.Sprintf("%s c%d cpu=%s memory=%dMi", containerType, i, text, amount))
	}
	if len(lines) > 0 && !strings.HasPrefix(lines[len(lines)-1], "app") {
		lines = append(lines, "app last cpu=1 memory=1Mi")
		cpus, mem = cpus+1, mem+1
	}
	line := "pod " + name
	if level {
		line += fmt.Sprintf(" cpu=%d memory=%dMi", max(1, cpus+d.intn(0, 2, "more cpus")), max(1, mem+d.intn(0, 3, "more memory")))
	}
	if answer := d.do(line, lines...); strings.HasPrefix(answer, "invalid") || strings.Contains(answer, "error:") {
		return ""
	}
	return name
}

// twin tries all amounts by brute force.
type twin struct {
	*drawn
	s       *node.State
	pod     request.Pod
	summary string
	raised  int // proposals to ask for more under restricted
}

// slots returns the amounts that can be lowered, at pod level and in containers.
func (w *twin) slots() []explain.Change {
	var out []explain.Change
	policy := w.s.Policy()
	pool := w.pod.Kind == request.PodLevel && policy.Topology != node.TopologyNone && policy.Scope == node.PodScope
	add := func(container, resource string, n int64) {
		if n > 0 {
			out = append(out, explain.Change{Container: container, Resource: resource, From: n})
		}
	}
	if pool && policy.StaticCPU {
		add("", request.CPU, int64(w.pod.BudgetCPUs))
	}
	for _, a := range w.pod.BudgetMemory {
		if pool && w.pod.QoS == request.Guaranteed {
			add("", a.Resource, a.Value)
		}
	}
	for _, c := range w.pod.Containers {
		add(c.Name, request.CPU, int64(c.CPUs))
		for _, a := range c.Memory {
			if w.pod.QoS == request.Guaranteed {
				add(c.Name, a.Resource, a.Value)
			}
		}
	}
	return out
}

func (w *twin) unit(resource string) int64 {
	switch {
	case resource == machine.Memory:
		return mib
	case w.s.Policy().CPU.FullPCPUsOnly:
		return int64(w.s.Machine().CPUsPerCore())
	}
	return 1
}

// admits reports whether the API server accepts and the node admits the pod with these amounts.
func (w *twin) admits(changes []explain.Change) bool {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c explain.Change) bool { return c.From == c.To })
	_, pod, err := explain.Proposal{Changes: changes}.Apply(w.s, w.pod)
	return err == nil && explain.AgainstAPI(pod).Text == "" && w.s.Plan(pod).Rejection == nil
}

// checkNone checks that no single amount, no limit for all containers and none of many combinations
// is admitted.
func (w *twin) checkNone() {
	slots := w.slots()
	try := func(changes []explain.Change) {
		if w.admits(changes) {
			w.fatalf("says %q; %+v is admitted, of %+v", w.summary, changes, w.pod)
		}
	}
	for _, one := range slots {
		for unit := w.unit(one.Resource); one.To+unit <= one.From; {
			one.To += unit
			try([]explain.Change{one})
		}
	}
	for range 300 {
		changes := slices.Clone(slots)
		for i := range changes {
			unit := w.unit(changes[i].Resource)
			if changes[i].Resource == request.CPU && w.intn(0, 3, "whole units") == 0 {
				unit = 1
			}
			if changes[i].To = changes[i].From; changes[i].From > unit && w.intn(0, 3, "changed") > 0 {
				changes[i].To = unit * int64(w.intn(1, int(changes[i].From/unit), "to"))
			}
		}
		try(changes)
	}
}

// checkEach checks that the pod is rejected if any one amount of a proposal is larger and the
// others are unchanged.
func (w *twin) checkEach(p explain.Proposal) {
	for i, c := range p.Changes {
		if w.shares(p, c) {
			continue
		}
		unit := w.unit(c.Resource)
		for n := c.To + unit; n <= c.From; n += unit {
			changes := slices.Clone(p.Changes)
			changes[i].To = n
			if w.admits(changes) {
				w.fatalf("says %q and %q; %+v is admitted", w.summary, p.Text, changes)
			}
		}
	}
}

// checkLeast checks that smaller amounts than that of a proposal to ask for more are rejected.
func (w *twin) checkLeast(p explain.Proposal) {
	if len(p.Changes) > 1 || p.Changes[0].To < p.Changes[0].From {
		return
	}
	c := p.Changes[0]
	unit := w.unit(c.Resource)
	for n := c.To - unit; n > c.From; n -= unit {
		less := c
		if less.To = n; w.admits([]explain.Change{less}) {
			w.fatalf("proposes %q; %+v is admitted", p.Text, less)
		}
	}
	if w.s.Policy().Topology == node.TopologyRestricted {
		w.raised++
	}
}

// shares reports whether a change applies to a slice of a pool of which other containers get the
// rest, which remains in proportion.
func (w *twin) shares(p explain.Proposal, c explain.Change) bool {
	budget, own := int64(0), int64(0)
	for _, one := range w.slots() {
		switch {
		case one.Resource != c.Resource:
		case one.Container == "":
			budget = one.From
		default:
			own += one.From
		}
	}
	pooled := slices.ContainsFunc(p.Changes, func(o explain.Change) bool { return o.Container == "" })
	return c.Container != "" && budget > 0 && (pooled || budget > own)
}

// checkMost checks that larger amounts than those of a proposal for one resource are rejected.
func (w *twin) checkMost(p explain.Proposal) {
	most, pool := p.Changes[0], false
	for _, c := range p.Changes {
		if c.Resource != most.Resource || c.To > c.From {
			return
		}
		pool = pool || c.Container == ""
		if c.To > most.To {
			most = c
		}
	}
	unit := w.unit(most.Resource)
	for _, one := range w.slots() {
		if one.Resource != most.Resource || pool != (one.Container == "") || !pool && one.Container != most.Container {
			continue
		}
		for limit := most.To + unit; limit < one.From; limit += unit {
			var changes []explain.Change
			for _, c := range p.Changes { // The same changes, but with more for each amount that is lowered.
				if pool && c.Container != "" {
					continue
				}
				c.To = min(c.From, limit)
				changes = append(changes, c)
			}
			if w.admits(changes) {
				w.fatalf("says %q and %q; %+v is admitted", w.summary, p.Text, changes)
			}
		}
	}
}
