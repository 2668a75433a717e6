package view_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// divided returns the documents of classtest's node.
func divided(t *testing.T) (view.Plan, view.Report) {
	t.Helper()
	s := classtest.State(t)
	var plans []*node.Plan
	for _, pod := range classtest.Pods() {
		plans = append(plans, s.Plan(pod))
	}
	usage, err := explain.Usage(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return view.PlanOf("two", "single-numa-node", plans, s), view.ReportOf("two", "single-numa-node", s, usage)
}

// TestCaches checks the parts of the caches in a plan, in both widths, and in a report.
func TestCaches(t *testing.T) {
	plan, report := divided(t)
	style := terminal.Style{Width: 0}
	golden.Compare(t, "testdata/caches.txt", plan.Text(style, false)+"\n"+plan.Text(style, true)+"\n"+report.Text(style))
}

// TestCachesOff checks that a node without the option has no word about them.
func TestCachesOff(t *testing.T) {
	p := classtest.Policy()
	p.CPU.DividesCaches = false
	s, err := node.New(classtest.Machine(t), p)
	if err != nil {
		t.Fatal(err)
	}
	plan := s.Plan(classtest.Pods()[2])
	if s, err = s.Apply(plan); err != nil {
		t.Fatal(err)
	}
	usage, err := explain.Usage(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	text := view.PlanOf("two", "", []*node.Plan{plan}, s).Text(terminal.Style{}, true) + view.ReportOf("two", "", s, usage).Text(terminal.Style{})
	for _, word := range []string{"ache", "CLASS", "class", "L3", "BANDWIDTH"} {
		if strings.Contains(text, word) {
			t.Errorf("there is %q in\n%s", word, text)
		}
	}
}

func TestSharesText(t *testing.T) {
	for want, class := range map[string]cache.Class{
		"":                     nil,
		"ways 0-3 of L3 0":     {{Cache: 0, Ways: 15}},
		"ways 0-3 of L3 0-2,5": {{Cache: 0, Ways: 15}, {Cache: 1, Ways: 15}, {Cache: 2, Ways: 15}, {Cache: 5, Ways: 15}},
		"ways 0 of L3 0,2, 20% of the bandwidth; ways 4-5 of L3 1, 20% of the bandwidth": {{Cache: 0, Ways: 1, Bandwidth: 20}, {Cache: 1, Ways: 48, Bandwidth: 20}, {Cache: 2, Ways: 1, Bandwidth: 20}},
		"30% of the bandwidth of L3 1": {{Cache: 1, Bandwidth: 30}},
	} {
		if got := view.SharesText(view.SharesOf(class)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestResizedCaches checks that a resize that brings a container to another cache names its new
// part of it.
func TestResizedCaches(t *testing.T) {
	p := classtest.Policy()
	p.Topology = node.TopologyNone
	s, err := node.New(classtest.Machine(t), p)
	if err != nil {
		t.Fatal(err)
	}
	pod := classtest.Pods()[0]
	set := func(cpus int) {
		c := pod.Containers[0]
		c.CPUs, c.CPURequest, c.CPULimit = cpus, int64(cpus)*1000, int64(cpus)*1000
		pod.Containers = []request.Container{c}
	}
	set(14)
	if s, err = s.Apply(s.Plan(pod)); err != nil {
		t.Fatal(err)
	}
	set(18)
	plan := s.Resize(pod.UID, pod)
	if plan.Rejection != nil {
		t.Fatal(plan.Rejection)
	}
	text := view.PlanOf("two", "", []*node.Plan{plan}, s).Text(terminal.Style{}, false)
	const want = "ways 0-3 of L3 0, 20% of the bandwidth, then ways 0-3 of L3 0-1, 20% of the bandwidth"
	if !strings.Contains(text, want) {
		t.Errorf("there is no %q in\n%s", want, text)
	}
}

// TestFragments checks what is shown of a cache whose free ways are not contiguous: which pod to
// create again, and that no pod is named that would free nothing.
func TestFragments(t *testing.T) {
	owner := func(pod string, ways cache.Ways) explain.CacheOwner {
		return explain.CacheOwner{Pod: pod, Ways: ways.String(), Set: ways}
	}
	var out strings.Builder
	for _, owners := range [][]explain.CacheOwner{
		{owner("prod/a", 0x003)},
		{owner("prod/a", 0x00c)},
		{owner("prod/a", 0x00c), owner("prod/b", 0x0c0)},
		{owner("prod/a", 0x018), owner("prod/a", 0x060)},
		{owner("prod/a", 0x00e), owner("prod/b", 0x0e0)},
	} {
		c := &explain.Caches{Classes: 15, UsedClasses: len(owners), Kept: 0x600, L3: []explain.CacheReport{{ID: 1, Ways: 11, ClassWays: 9, Owners: owners}}}
		report := view.Report{Usage: explain.Report{Caches: c}}
		for line := range strings.Lines(report.Text(terminal.Style{})) {
			if strings.Contains(line, "prod/") || strings.Contains(line, "fragmented") {
				out.WriteString(line)
			}
		}
		out.WriteString("\n")
	}
	golden.Compare(t, "testdata/fragments.txt", out.String())
}
