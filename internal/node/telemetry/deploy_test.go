package telemetry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/node/telemetry"
)

const deploy = "../../../deploy/"

// scrapeLabels are the labels that Prometheus adds to every series.
var scrapeLabels = []string{"job", "instance"}

// agentOfANode returns a rig with every metric that an agent can have.
func agentOfANode(t *testing.T) *rig {
	t.Helper()
	r := newRig(emptyNode(t, divided), telemetry.Check{Name: "state", Ready: func() error { return nil }})
	r.telemetry.NewRuntime()
	r.telemetry.NewThrottling(func() []telemetry.Throttled { return nil })
	r.telemetry.NewUse(func() int { return 0 })
	r.telemetry.NewInterruptions(func() []telemetry.Interruptions { return []telemetry.Interruptions{{Source: "device"}} })
	r.telemetry.NewPredictions([]string{"differs"}, func(string) int { return 0 })
	r.telemetry.NewHugePages(func() []telemetry.HugePages { return []telemetry.HugePages{{Resource: "hugepages-2Mi"}} })
	r.telemetry.NewHandover([]string{"applied"}, func() int { return 0 })
	r.telemetry.NewMoves(func() int { return 0 }, func() int { return 0 })
	r.telemetry.NewNotices(func() int { return 0 })
	r.telemetry.NewPublication()
	r.telemetry.NewExport()
	return r
}

// exported returns all series of a node as label sets that include the name, and the series "up".
func exported(t *testing.T) []labels.Labels {
	t.Helper()
	r := agentOfANode(t)
	p := expfmt.NewTextParser(model.LegacyValidation)
	hintSets, err := p.TextToMetricFamilies(get(r.handler, "/metrics").Body)
	if err != nil {
		t.Fatal(err)
	}
	all := []labels.Labels{
		labels.FromStrings("__name__", "up", "job", "paddock", "instance", "node"),
		// Of paddock-scheduler, which is in another module.
		labels.FromStrings("__name__", "paddock_scheduler_rejected_pods", "job", "paddock-scheduler", "instance", "node"),
	}
	for name, f := range hintSets {
		suffixes := []string{""}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			suffixes = []string{"_bucket", "_count", "_sum"}
		}
		for _, m := range f.GetMetric() {
			for _, suffix := range suffixes {
				b := labels.NewBuilder(labels.FromStrings("__name__", name+suffix, "job", "paddock", "instance", "node"))
				for _, l := range m.GetLabel() {
					b.Set(l.GetName(), l.GetValue())
				}
				if suffix == "_bucket" {
					b.Set("le", "+Inf")
				}
				all = append(all, b.Labels())
			}
		}
	}
	return all
}

// checkExpression returns an error if Prometheus cannot parse the expression, if it selects a
// series that no node has, or if it groups by a label that none of its series has.
func checkExpression(expr string, all []labels.Labels) error {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return err
	}
	known := slices.Clone(scrapeLabels)
	var bad error
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && bad == nil {
			i := slices.IndexFunc(all, func(l labels.Labels) bool { return matchesAll(s.LabelMatchers, l) })
			if i < 0 {
				bad = fmt.Errorf("no node has a series %s", s)
				return nil
			}
			all[i].Range(func(l labels.Label) { known = append(known, l.Name) })
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok && bad == nil {
			for _, label := range a.Grouping {
				if !slices.Contains(known, label) {
					bad = fmt.Errorf("%s groups by %s, which its series do not have", a, label)
				}
			}
		}
		return nil
	})
	return bad
}

func matchesAll(matchers []*labels.Matcher, l labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
}

func TestExpressionsAreChecked(t *testing.T) {
	all := exported(t)
	for expr, want := range map[string]string{
		"sum by (job) (rate(paddock_state_writes_total[5m]))":                          "",
		"histogram_quantile(0.9, rate(paddock_admission_duration_seconds_bucket[5m]))": "",
		"sum(paddock_state_writes_total":                                               "unclosed",
		"paddock_state_writes":                                                         "no node has",
		"paddock_admission_duration_seconds > 1":                                       "no node has",
		`resource_manager_container_assignments{assignment_type="shared_from_pod"}`:    "no node has",
		`resource_manager_allocations_total{sauce="pod"}`:                              "no node has",
		"sum by (isolation) (paddock_pods)":                                            "groups by isolation",
		"rate(paddock_pods)":                                                           "expected type range vector",
	} {
		err := checkExpression(expr, all)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", expr, err, want)
		}
	}
}

type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func TestAlertRules(t *testing.T) {
	var file ruleFile
	readYAML(t, "prometheus/alerts.yaml", &file)
	proofs, err := os.ReadFile(deploy + "prometheus/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := exported(t)
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || seen[r.Alert] {
				t.Errorf("group %s: alert %q twice or without a name", g.Name, r.Alert)
			}
			seen[r.Alert] = true
			if err := checkExpression(r.Expr, all); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if err := checkRule(r); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if !strings.Contains(string(proofs), "alertname: "+r.Alert+"\n") {
				t.Errorf("%s: alerts_test.yaml does not say when it fires", r.Alert)
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("%d alerts: the file is not read whole", len(seen))
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func checkRule(r rule) error {
	if r.For != "" {
		d, err := model.ParseDuration(r.For)
		if err != nil {
			return err
		}
		if time.Duration(d) < time.Minute {
			return fmt.Errorf("fires after %s, which a single lost scrape can cause", r.For)
		}
	}
	if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
		return fmt.Errorf("severity %q", r.Labels["severity"])
	}
	human := func(v any) string { return fmt.Sprint(v) }
	for _, name := range []string{"summary", "description"} {
		text := "{{$labels := .Labels}}{{$value := .Value}}" + r.Annotations[name]
		tmpl, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"humanize": human, "humanizePercentage": human, "humanizeDuration": human}).Parse(text)
		if err != nil {
			return err
		}
		var b strings.Builder
		known := map[string]string{"job": "paddock", "instance": "node", "resource_name": "cpu", "check": "state", "hook": "RunPodSandbox", "cgroup": "pod"}
		if err := tmpl.Execute(&b, map[string]any{"Labels": known, "Value": 1.5}); err != nil {
			return err
		}
		if b.Len() == 0 {
			return fmt.Errorf("no %s", name)
		}
	}
	return nil
}

type dashboard struct {
	Title      string  `json:"title"`
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int                                      `json:"id"`
	Type        string                                   `json:"type"`
	Title       string                                   `json:"title"`
	Description string                                   `json:"description"`
	GridPos     struct{ X, Y, W, H int }                 `json:"gridPos"`
	FieldConfig struct{ Defaults struct{ Unit string } } `json:"fieldConfig"`
	Targets     []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

// variable matches a variable of a dashboard in an expression.
var variable = regexp.MustCompile(`\$(?:\{(\w+)[^}]*\}|(\w+))`)

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(deploy + "grafana/paddock.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"__rate_interval": "5m"}
	for _, v := range d.Templating.List {
		values[v.Name] = ".*"
	}
	all := exported(t)
	ids, charts := map[int]bool{}, 0
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 {
			t.Errorf("panel %d %q: no title, an id twice, or outside of the grid", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		charts++
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no description, no unit or no targets", p.Title)
		}
		for _, target := range p.Targets {
			expr := variable.ReplaceAllStringFunc(target.Expr, func(v string) string {
				parts := variable.FindStringSubmatch(v)
				value, ok := values[parts[1]+parts[2]]
				if !ok {
					t.Errorf("panel %q: no variable %s", p.Title, v)
				}
				return value
			})
			if err := checkExpression(expr, all); err != nil || target.LegendFormat == "" {
				t.Errorf("panel %q: %v; legend %q", p.Title, err, target.LegendFormat)
			}
		}
	}
	if charts < 15 || d.Title == "" || d.UID == "" {
		t.Errorf("%d charts, title %q, uid %q: the file is not read whole", charts, d.Title, d.UID)
	}
}

// TestREADMEListsWhatPaddockAdds checks that the README lists these metrics by name, type and
// labels.
func TestREADMEListsWhatPaddockAdds(t *testing.T) {
	text, err := os.ReadFile(deploy + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 5 && strings.HasPrefix(cells[1], " paddock_") {
			listed[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2]) + " " + strings.TrimSpace(cells[3])
		}
	}
	r := agentOfANode(t)
	there := map[string]string{}
	for name, f := range scrape(t, r.handler) {
		if strings.HasPrefix(name, "paddock_") {
			there[name] = strings.ToLower(f.GetType().String()) + " " + sortedWords(strings.Join(labelNames(f), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if kind, names, _ := strings.Cut(listed[name], " "); kind+" "+sortedWords(names) != there[name] {
			t.Errorf("deploy/README.md says %q of %s, which is %q", listed[name], name, there[name])
		}
	}
	if len(listed) != len(there) {
		t.Errorf("%d names are listed, %d are there", len(listed), len(there))
	}
}

func sortedWords(list string) string {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(words)
	return strings.Join(words, ", ")
}
