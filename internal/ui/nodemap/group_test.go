package nodemap_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

// TestWorkloads checks that names that controllers generate lead to one workload and that other
// names stay unchanged.
func TestWorkloads(t *testing.T) {
	m := exampleMachine(t, "xeon-2s")
	for name, want := range map[string]string{
		"web-6d5f7c9b8-x7k2p":   "default/web",
		"web-5bd9c8f7b4-b4k2z":  "default/web",
		"agent-x7k2p":           "default/agent",
		"db-0":                  "default/db",
		"db-12":                 "default/db",
		"import-3-b4k2z":        "default/import",
		"import-28374650-zx8vq": "default/import",
		"gateway":               "default/gateway",
		"web-cache":             "default/web-cache",
		"x7k2p":                 "default/x7k2p",
	} {
		got := mapOf("m", admit(t, crowded(t, m, 0), podOf(1, 1, name))).Pods[0].Workload
		if got != want {
			t.Errorf("%s is of workload %s, want %s", name, got, want)
		}
	}
}

// TestColouredBy checks that pods of a group share a colour, that other groups have another one,
// and that each pod has its own tag.
func TestColouredBy(t *testing.T) {
	s := admit(t, crowded(t, exampleMachine(t, "xeon-2s"), 0), podOf(1, 1, "web-0"), podOf(2, 1, "db-0"), podOf(3, 1, "web-1"), podOf(4, 0, "none-0"))
	m := mapOf("m", s)
	for _, c := range []struct {
		by      nodemap.Grouping
		colours []int
	}{
		{nodemap.ByPod, []int{0, 1, 2, 3}},
		{nodemap.ByWorkload, []int{2, 0, 2, 1}},
		{nodemap.ByNamespace, []int{0, 0, 0, 0}},
	} {
		for i, p := range m.ColouredBy(c.by).Pods {
			if p.Colour != c.colours[i] || p.Slot != i {
				t.Errorf("by %s: pod %s has colour %d and slot %d", c.by, p.Pod, p.Colour, p.Slot)
			}
		}
	}
	if _, err := nodemap.ParseGrouping("owner"); err == nil || !strings.Contains(err.Error(), "expected pod, namespace or workload") {
		t.Errorf("an unknown grouping: %v", err)
	}
}

// TestWithoutLegend checks that the picture ends with the key.
func TestWithoutLegend(t *testing.T) {
	m := mapOf("m", admit(t, crowded(t, exampleMachine(t, "vm-4cpu"), 0), podOf(1, 1, "web")))
	var whole, folded strings.Builder
	if err := m.SVG(&whole, false); err != nil {
		t.Fatal(err)
	}
	if err := m.WithoutLegend().SVG(&folded, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(whole.String(), "pod default/web (uid-001)") || strings.Contains(folded.String(), "pod default/web (uid-001)") || !strings.Contains(folded.String(), "the node shared pool") {
		t.Errorf("with the legend\n%s\nwithout\n%s", whole.String(), folded.String())
	}
}
