package explain_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// drawn is a random node with some pods, and the script that creates it.
type drawn struct {
	t      *rapid.T
	n      *scenario.Node
	script []string
	pods   int
}

func (d *drawn) intn(low, high int, label string) int {
	return rapid.IntRange(low, high).Draw(d.t, label)
}

func (d *drawn) pick(label string, values ...string) string {
	return rapid.SampledFrom(values).Draw(d.t, label)
}

func (d *drawn) do(line string, input ...string) string {
	words := strings.Fields(line)
	c := scenario.Command{Name: words[0], Args: words[1:], Input: input}
	d.script = append(d.script, c.String()+"\n----\n")
	return d.n.Run(c)
}

func (d *drawn) fatalf(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf("%s\n\nas a scenario:\n\n%s", fmt.Sprintf(format, args...), strings.Join(d.script, "\n"))
}

func drawNode(t *rapid.T) *drawn {
	d := &drawn{t: t, n: scenario.New(nil)}
	d.do(fmt.Sprintf("machine sockets=%d numa=%d cores=%d threads=%d memory=%dGi hugepages-2Mi=%d distances=10,%d",
		d.intn(1, 2, "sockets"), d.intn(1, 3, "numa"), d.intn(1, 6, "cores"), d.intn(1, 2, "threads"),
		d.intn(1, 6, "memory"), d.intn(0, 1, "pages")*128, d.intn(11, 21, "distance")))
	config := "topology=" + d.pick("topology", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node", "none") +
		" scope=" + d.pick("scope", "pod", "container") + " cpu=" + d.pick("cpu", "static", "static", "static", "none")
	memory := d.pick("memory", " memory=Static", " memory=Static", "")
	options := d.pick("options", "", "", "", " options=full-pcpus-only", " options=distribute-cpus-across-numa", " options=align-by-socket", " options=strict-cpu-reservation",
		" options=prefer-align-cpus-by-uncorecache", " topology-options=prefer-closest-numa-nodes")
	gates := " gates=CPUManagerPolicyAlphaOptions"
	for _, c := range []string{config + memory + options + gates, config + memory + gates, config, "scope=pod cpu=none"} {
		if d.do("config " + c); d.n.State() != nil {
			break
		}
	}
	if d.n.State() == nil {
		d.fatalf("no settings are legal")
	}
	for range d.intn(0, 6, "pods") {
		if name := d.pod(6); name != "" {
			d.do("admit " + name)
		}
	}
	return d
}

// pod adds a pod to the script whose containers request up to a part of the machine, and returns
// its name. It returns the empty string if the API server would reject the pod.
func (d *drawn) pod(part int) string {
	name := fmt.Sprintf("p%d", d.pods)
	d.pods++
	most := max(2, 2*len(d.n.State().Machine().CPUs())/part)
	level := d.intn(0, 1, "pod level") == 1
	cpus, mib, pages := 0, 0, 0
	var lines []string
	container := func(containerType, name string) {
		kind := "whole"
		if level {
			kind = d.pick("kind", "whole", "whole", "shared", "fraction")
		}
		if kind == "shared" {
			lines = append(lines, containerType+" "+name)
			return
		}
		n, m := d.intn(1, most, "cpus"), 128*d.intn(1, d.intn(1, 24, "most memory"), "memory")
		cpus, mib = cpus+n, mib+m
		text := fmt.Sprintf("%s %s cpu=%d", containerType, name, n)
		if kind == "fraction" {
			text = fmt.Sprintf("%s %s cpu=%dm", containerType, name, n*1000-500)
		}
		text += fmt.Sprintf(" memory=%dMi", m)
		if d.intn(0, 4, "huge pages") == 4 {
			p := d.intn(1, 30, "pages")
			pages += p
			text += fmt.Sprintf(" hugepages-2Mi=%dMi", 2*p)
		}
		lines = append(lines, text)
	}
	for i := range d.intn(0, 2, "inits") {
		container(d.pick("type", "init", "sidecar"), fmt.Sprintf("i%d", i))
	}
	for i := range d.intn(1, 2, "apps") {
		container("app", fmt.Sprintf("c%d", i))
	}
	line := "pod " + name
	if level {
		line += fmt.Sprintf(" cpu=%d memory=%dMi", max(1, cpus+d.intn(0, 2, "more cpus")), max(1, mib+512*d.intn(0, 2, "more memory")))
		if pages > 0 {
			line += fmt.Sprintf(" hugepages-2Mi=%dMi", 2*pages)
		}
	}
	if answer := d.do(line, lines...); strings.HasPrefix(answer, "invalid") || strings.Contains(answer, "error:") {
		return ""
	}
	return name
}

// state returns the node with priorities and ages of its pods, and a pod that is not on it.
func (d *drawn) state() (*node.State, request.Pod, bool) {
	name := d.pod(3)
	if name == "" {
		return nil, request.Pod{}, false
	}
	pod, err := d.n.Request(name)
	if err != nil {
		d.fatalf("%v", err)
	}
	old := d.n.State()
	grants := make([]*node.Grant, len(old.Grants()))
	for i, g := range old.Grants() {
		changed := *g
		changed.Pod.Priority = int32(d.intn(-1, 1, "priority"))
		changed.Pod.Created = int64(d.intn(0, 2, "created"))
		grants[i] = &changed
	}
	s, err := node.Restore(old.Machine(), old.Policy(), grants)
	if err != nil {
		d.fatalf("%v", err)
	}
	if s, err = s.WithDevices(old.Devices().Inventory()); err != nil {
		d.fatalf("%v", err)
	}
	return s, pod, true
}

// setChecks sets the default number of rapid checks for this package, unless -rapid.checks is
// given.
func setChecks(t *testing.T, n string) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f == checks })
	if given {
		return
	}
	old := checks.Value.String()
	if err := checks.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(old); err != nil {
			t.Error(err)
		}
	})
}

// TestProposalsAreAdmitted checks that every proposal admits the pod when it is applied. A set of
// pods to remove must be as small as possible and consist of the pods that can be spared best.
func TestProposalsAreAdmitted(t *testing.T) {
	setChecks(t, "600")
	rejected, proposed := 0, map[explain.Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := drawNode(t)
		s, pod, ok := d.state()
		if !ok {
			return
		}
		before := s.Plan(pod).Rejection
		r := searched(t, s, pod)
		if before == nil {
			if len(r.Proposals)+len(r.Tried) > 0 {
				d.fatalf("an admitted pod has remedies: %+v", r)
			}
			return
		}
		rejected++
		for _, p := range r.Proposals {
			proposed[p.Kind]++
			d.checkProposal(s, pod, p)
		}
		d.checkSpared(s, pod, r)
	})
	t.Logf("%d refused, proposals: %v", rejected, proposed)
	if rejected < 20 || len(proposed) < 3 {
		t.Errorf("too few cases: %d refused, proposals %v", rejected, proposed)
	}
}

func (d *drawn) checkProposal(s *node.State, pod request.Pod, p explain.Proposal) {
	changed, asked, err := p.Apply(s, pod)
	if err != nil {
		d.fatalf("%s: %v", p.Text, err)
	}
	if err := changed.Check(); err != nil {
		d.fatalf("%s: %v", p.Text, err)
	}
	if r := changed.Plan(asked).Rejection; r != nil {
		d.fatalf("%s, and it is refused: %v", p.Text, r)
	}
	if p.Text == "" || p.Outcome == "" {
		d.fatalf("a proposal says nothing: %+v", p)
	}
	if p.Kind != explain.Amounts {
		return
	}
	for _, c := range p.Changes {
		if c.To < 1 || c.From == c.To {
			d.fatalf("%s: %+v", p.Text, c)
		}
	}
	// For one amount of one container, one more step is rejected, because the proposal is the
	// largest amount.
	unit := int64(1) << 20
	if c := p.Changes[0]; len(p.Changes) == 1 && c.Container != "" && c.To < c.From && (c.Resource == machine.Memory || c.Resource == request.CPU) {
		if c.Resource == request.CPU {
			if unit = 1; s.Policy().CPU.FullPCPUsOnly {
				unit = int64(s.Machine().CPUsPerCore())
			}
		}
		if s.Policy().Scope == node.PodScope && pod.Kind == request.PodLevel || c.To+unit >= c.From {
			return
		}
		more := explain.Proposal{Changes: []explain.Change{{Container: c.Container, Resource: c.Resource, From: c.From, To: c.To + unit}}}
		if _, asked, _ := more.Apply(s, pod); s.Plan(asked).Rejection == nil {
			d.fatalf("%s, and %d is admitted", p.Text, c.To+unit)
		}
	}
}

// checkSpared compares the proposal with all sets of pods.
func (d *drawn) checkSpared(s *node.State, pod request.Pod, r explain.Remedies) {
	var summary string
	for _, t := range r.Tried {
		if t.What == "the absence of pods" {
			summary = t.Found
		}
	}
	want := spared(s, pod)
	var got []string
	for _, p := range r.Proposals {
		for _, a := range p.Without {
			got = append(got, a.Pod)
		}
	}
	slices.Sort(got)
	switch {
	case strings.Contains(summary, "not searched further"):
	case (want == nil) != (got == nil) || len(got) != len(want):
		d.fatalf("without %v, of %v would be as well; it says %q", got, want, summary)
	case !slices.Equal(got, want):
		d.fatalf("without %v, %v can be spared better; it says %q", got, want, summary)
	}
}

// spared tries all sets of pods: the smallest sets first, then those of which most pods fit again,
// then by the pods that matter most.
func spared(s *node.State, pod request.Pod) []string {
	grants := slices.Clone(s.Grants())
	slices.SortFunc(grants, func(a, b *node.Grant) int {
		switch {
		case a.Pod.Priority != b.Pod.Priority:
			return int(a.Pod.Priority - b.Pod.Priority)
		case a.Pod.Created != b.Pod.Created:
			return int(b.Pod.Created - a.Pod.Created)
		}
		return int(b.Sequence) - int(a.Sequence)
	})
	best, most := 0, -1
	for set := 1; set < 1<<len(grants); set++ {
		size := bits.OnesCount(uint(set))
		if best != 0 && size > bits.OnesCount(uint(best)) {
			continue
		}
		fit := fitAgain(s, pod, grants, set)
		if fit >= 0 && (best == 0 || size < bits.OnesCount(uint(best)) || fit > most) {
			best, most = set, fit
		}
	}
	var names []string
	for i, g := range grants {
		if best>>i&1 == 1 {
			names = append(names, g.Pod.ID())
		}
	}
	slices.Sort(names)
	return names
}

// fitAgain returns how many pods of a set fit again after a pod is admitted in their place. It
// returns -1 if the pod is rejected.
func fitAgain(s *node.State, pod request.Pod, grants []*node.Grant, set int) int {
	for i, g := range grants {
		if set>>i&1 == 1 {
			s = s.Release(g.Pod.UID)
		}
	}
	fit := -1
	admit := func(p request.Pod) bool {
		plan := s.Plan(p)
		if plan.Rejection != nil {
			return false
		}
		next, err := s.Apply(plan)
		if err == nil {
			s = next
			fit++
		}
		return err == nil
	}
	if !admit(pod) {
		return fit
	}
	for i := len(grants) - 1; i >= 0; i-- {
		if set>>i&1 == 1 {
			admit(grants[i].Pod)
		}
	}
	return fit
}

// TestDecisionIsRight checks that an explanation is the same each time, prints, and is valid JSON.
// What it reports about the merge must be true: a losing set is not the chosen one. If everything
// fits on a losing set of one NUMA node that is also preferred, that NUMA node is higher or
// farther.
func TestDecisionIsRight(t *testing.T) {
	setChecks(t, "400")
	rapid.Check(t, func(t *rapid.T) {
		d := drawNode(t)
		s, pod, ok := d.state()
		if !ok {
			return
		}
		plan := s.Plan(pod)
		first, second := encoded(d, s, plan), encoded(d, s, s.Plan(pod))
		if first != second {
			d.fatalf("two explanations of one decision:\n%s\n%s", first, second)
		}
		decision := explain.Of(s, plan)
		if len(decision.Alignments) != len(plan.Trace.Alignments) || len(decision.Asks.Containers) != len(pod.Containers) {
			d.fatalf("something is left out: %s", first)
		}
		for i, a := range decision.Alignments {
			d.checkAlignment(a, plan.Trace.Alignments[i])
		}
		text := view.ExplanationOf(s, plan, nil).Text(terminal.Style{}, true)
		var read view.Explanation
		if err := json.Unmarshal([]byte(first), &read); err != nil || read.Text(terminal.Style{}, true) != text {
			d.fatalf("%v, the document reads\n%s\nand the explanation\n%s", err, read.Text(terminal.Style{}, true), text)
		}
		for _, line := range strings.Split(text, "\n") {
			if strings.HasSuffix(line, " ") || strings.ContainsRune(line, '\uFFFD') {
				d.fatalf("a line ends in a space, or does not print: %q", line)
			}
		}
	})
}

func encoded(d *drawn, s *node.State, plan *node.Plan) string {
	text, err := json.Marshal(view.ExplanationOf(s, plan, nil))
	if err != nil {
		d.fatalf("%v", err)
	}
	return string(text)
}

func (d *drawn) checkAlignment(a explain.Alignment, asked node.Alignment) {
	for _, l := range a.Losers {
		if a.Admitted && slices.Equal(l.NUMANodes, a.NUMANodes) {
			d.fatalf("%v won and lost", a.NUMANodes)
		}
		for _, f := range asked.HintSets {
			has := true
			for _, n := range l.NUMANodes {
				has = has && f.Candidates.Has(n)
			}
			if l.Fits && len(f.Explicit) == 0 && f.Candidates != 0 && !has {
				d.fatalf("%v is told to fit, and %s cannot be there", l.NUMANodes, f.Resource)
			}
		}
		if !a.Admitted && l.Fits && !strings.Contains(l.Why, "prefers") && len(l.NUMANodes) == 1 {
			d.fatalf("%v fits, and nobody objects, and nothing was chosen: %s", l.NUMANodes, l.Why)
		}
	}
	for _, f := range a.Fits {
		if f.Sets == "" {
			d.fatalf("%s is missing", f.Resource)
		}
	}
}
