package telemetry_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// TestNamesOfTheRules checks that every metric in the table of docs/rules/api-metrics.md, section
// 6, exists with its type and labels.
func TestNamesOfTheRules(t *testing.T) {
	hintSets := scrape(t, newRig(emptyNode(t, configs[1])).handler)
	rows := rulesTable(t)
	if len(rows) < 23 {
		t.Fatalf("%d names in the table: it is not read whole", len(rows))
	}
	for name, row := range rows {
		f := hintSets[name]
		if f == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != row.kind {
			t.Errorf("%s is a %s, want a %s", name, got, row.kind)
		}
		if got := labelNames(f); !slices.Equal(got, row.labels) {
			t.Errorf("%s has labels %q, want %q", name, got, row.labels)
		}
	}
	for name := range hintSets {
		if _, ruled := rows[name]; !ruled && !strings.HasPrefix(name, "paddock_") {
			t.Errorf("%s is in no rule and is not called paddock_", name)
		}
	}
}

type row struct {
	kind   string
	labels []string
}

var brackets = regexp.MustCompile(`\([^)]*\)`)

// rulesTable expands "a / _b / _c" to the name a, and to names that end in b and c instead of the
// last words of a.
func rulesTable(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile("../../../docs/rules/api-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## 6. Metrics")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]row{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !slices.Contains([]string{"counter", "gauge", "histogram"}, strings.TrimSpace(cells[2])) {
			continue
		}
		prefix := "kubelet_"
		if strings.Contains(cells[1], "(no prefix)") {
			prefix = ""
		}
		var labels []string
		for l := range strings.SplitSeq(brackets.ReplaceAllString(cells[3], ""), ",") {
			if l = strings.TrimSpace(l); l != "–" {
				labels = append(labels, l)
			}
		}
		slices.Sort(labels)
		stem := ""
		for i, part := range strings.Split(strings.Trim(brackets.ReplaceAllString(cells[1], ""), " *"), " / ") {
			if part = strings.TrimSpace(part); i > 0 {
				part = stem + part
			} else {
				stem, _, _ = strings.Cut(part, "_requests_")
				stem, _, _ = strings.Cut(stem, "_errors_")
			}
			rows[prefix+strings.Trim(part, "* ")] = row{strings.TrimSpace(cells[2]), labels}
		}
	}
	return rows
}

func labelNames(f *dto.MetricFamily) []string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return names
}

// TestOwnNamesFollowTheConventions checks the names that Paddock adds with the linter of
// Prometheus. The names of the reference are not checked.
func TestOwnNamesFollowTheConventions(t *testing.T) {
	r := newRig(emptyNode(t, configs[1]))
	problems, err := promlint.New(get(r.handler, "/metrics").Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "paddock_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
