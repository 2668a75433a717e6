package arch

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// table is a table of a page.
type table struct {
	page   string
	header []string
	rows   [][]string
}

// tables returns the tables of a page whose header has a column.
func tables(t *testing.T, page, column string) (found []table) {
	t.Helper()
	var current *table
	for line := range strings.Lines(pageText(t, page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			current = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case current == nil:
			found = append(found, table{page: page, header: cells})
			current = &found[len(found)-1]
		case !strings.HasPrefix(cells[0], "---"):
			current.rows = append(current.rows, cells)
		}
	}
	found = slices.DeleteFunc(found, func(tb table) bool { return !slices.Contains(tb.header, column) })
	if len(found) == 0 {
		t.Fatalf("%s has no table with the column %q", page, column)
	}
	return found
}

func pageText(t *testing.T, page string) string {
	t.Helper()
	for _, f := range load(t).texts {
		if f.path == page {
			return f.text
		}
	}
	t.Fatalf("%s is missing", page)
	return ""
}

// cell returns the cell of a row in a column.
func (tb table) cell(row []string, column string) string {
	i := slices.Index(tb.header, column)
	if i < 0 || i >= len(row) {
		return ""
	}
	return row[i]
}

// These match what a cell names: a target of the Makefile, a section of .ci/run, and a test.
var (
	inCode       = regexp.MustCompile("`([^`]+)`")
	makeTarget   = regexp.MustCompile("`make ([a-z0-9-]+)`")
	ciSection    = regexp.MustCompile("`\\.ci/run` ([a-z-]+)")
	namedTest    = regexp.MustCompile("`([a-z0-9/-]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// proofs are what can be named as a proof.
type proofs struct {
	makefile, ci string
	tests        map[string]bool // package.Test
}

func readProofs(t *testing.T) proofs {
	t.Helper()
	p := proofs{makefile: pageText(t, "Makefile"), ci: pageText(t, ".ci/run"), tests: map[string]bool{}}
	for _, f := range load(t).texts {
		if strings.HasSuffix(f.path, "_test.go") {
			for _, m := range testFunction.FindAllStringSubmatch(f.text, -1) {
				p.tests[path.Dir(f.path)+"."+m[1]] = true
			}
		}
	}
	return p
}

// wrong returns what a cell names and does not exist, and whether it names anything.
func (p proofs) wrong(cell string) (wrong []string, named bool) {
	for _, m := range makeTarget.FindAllStringSubmatch(cell, -1) {
		named = true
		if !strings.Contains(p.makefile, "\n"+m[1]+":") {
			wrong = append(wrong, "the Makefile has no target "+m[1])
		}
	}
	for _, m := range ciSection.FindAllStringSubmatch(cell, -1) {
		named = true
		if !strings.Contains(p.ci, "\nsection "+m[1]+" ") {
			wrong = append(wrong, ".ci/run has no section "+m[1])
		}
	}
	for _, m := range namedTest.FindAllStringSubmatch(cell, -1) {
		named = true
		if !p.tests[m[1]+"."+m[2]] {
			wrong = append(wrong, m[1]+" has no test "+m[2])
		}
	}
	return wrong, named
}

// TestClaimsNameTheirTests checks that each row of the tables about what works, what is kept and
// what is protected names what tests it, and that this exists.
func TestClaimsNameTheirTests(t *testing.T) {
	p := readProofs(t)
	rows := 0
	for page, columns := range map[string][]string{"RELEASES.md": {"tested by", "kept by"}, "SECURITY.md": {"tested by"}} {
		for _, column := range columns {
			for _, tb := range tables(t, page, column) {
				for _, row := range tb.rows {
					rows++
					cell := tb.cell(row, column)
					wrong, named := p.wrong(cell)
					for _, w := range wrong {
						t.Errorf("%s: %s: %s", page, row[0], w)
					}
					if !named && !strings.HasPrefix(cell, "not tested: ") && !strings.HasPrefix(cell, "see ") {
						t.Errorf("%s: %s: %q names no test: name one, write \"not tested: \" with the reason, or leave the row out", page, row[0], cell)
					}
				}
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d rows were read", rows)
	}
}

// TestClaimsCanFail checks that a cell without a proof, and one that names what is not there, are
// found.
func TestClaimsCanFail(t *testing.T) {
	p := proofs{makefile: "\ntest: x\n", ci: "\nsection lint 3 make\n", tests: map[string]bool{"a/b.TestC": true}}
	for cell, want := range map[string]string{
		"`make test`": "[] true", "`make tests`": "[the Makefile has no target tests] true", "`.ci/run` lint": "[] true",
		"`.ci/run` race": "[.ci/run has no section race] true", "`a/b.TestC`": "[] true", "`a.TestC`, `make test`": "[a has no test TestC] true",
		"everything": "[] false",
	} {
		wrong, named := p.wrong(cell)
		if got := fmt.Sprint(wrong, named); got != want {
			t.Errorf("%s: %s, want %s", cell, got, want)
		}
	}
}

// versionFiles are where tests name the versions of what they run.
var versionFiles = []string{
	"docs/runtimes.md", "scheduler/go.mod", "test/chart/go.mod", "test/kueue/go.mod", "test/noderesourcetopology/go.mod", "test/e2e/README.md", "test/e2e/parts/parts.go",
	"test/record/kubelet-1.33/go.mod", "test/record/kubelet-1.34/go.mod", "test/record/kubelet-1.35/go.mod", "test/record/kubelet-1.36/go.mod", "test/record/kubelet-1.37/go.mod",
}

var release = regexp.MustCompile(`\b\d+\.\d+(?:\.\d+)?\b`)

// TestSupportedVersionsAreTested checks that each version in the table of what a release works with
// is in a file from which tests take their versions.
func TestSupportedVersionsAreTested(t *testing.T) {
	known := map[string]bool{}
	for _, name := range versionFiles {
		for _, v := range release.FindAllString(strings.ReplaceAll(pageText(t, name), "v", " "), -1) {
			known[v] = true
		}
	}
	versions := 0
	for _, tb := range tables(t, "RELEASES.md", "versions") {
		for _, row := range tb.rows {
			for _, v := range release.FindAllString(tb.cell(row, "versions"), -1) {
				versions++
				if !known[v] {
					t.Errorf("%s %s: no file of the tests has this version: %s", row[0], v, strings.Join(versionFiles, ", "))
				}
			}
		}
	}
	if versions < 20 {
		t.Errorf("%d versions were read", versions)
	}
}

// names returns the words in code of all tables of a page with these columns.
func names(t *testing.T, page, column string, columns ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, tb := range tables(t, page, column) {
		for _, row := range tb.rows {
			for _, c := range columns {
				for _, m := range inCode.FindAllStringSubmatch(tb.cell(row, c), -1) {
					found[m[1]] = true
				}
			}
		}
	}
	return found
}

// differ reports the names that one side has and the other does not.
func differ(t *testing.T, page string, listed, there map[string]bool) {
	t.Helper()
	for _, n := range slices.Sorted(maps.Keys(there)) {
		if !listed[n] {
			t.Errorf("%s does not have %s: give it a level", page, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(listed)) {
		if !there[n] {
			t.Errorf("%s has %s, which does not exist", page, n)
		}
	}
}

// TestEverySchemaHasALevel checks the table of JSON schemas.
func TestEverySchemaHasALevel(t *testing.T) {
	there := map[string]bool{}
	files, err := os.ReadDir("../../docs/schemas")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		there[strings.TrimSuffix(f.Name(), ".json")] = true
	}
	differ(t, "RELEASES.md", names(t, "RELEASES.md", "schema", "schema"), there)
}

// annotation matches the whole literal of an annotation or a label.
var annotation = regexp.MustCompile(`"((?:cache\.)?paddock-project\.github\.io/[a-z-]*)"`)

// internalNames are in the help of commands and in the scheduler, and in no object.
var internalNames = []string{"paddock-project.github.io/program", "paddock-project.github.io/request", "paddock-project.github.io/"}

// TestEveryAnnotationHasALevel checks that each annotation and label in the program is in a table.
func TestEveryAnnotationHasALevel(t *testing.T) {
	listed := map[string]bool{}
	for name := range names(t, "RELEASES.md", "what it is", "name") {
		listed[strings.TrimSuffix(name, "CONTAINER")] = true
	}
	found := 0
	for _, f := range load(t).texts {
		if !strings.HasSuffix(f.path, ".go") || strings.HasSuffix(f.path, "_test.go") || !slices.Contains([]string{"internal", "scheduler", "cmd"}, strings.SplitN(f.path, "/", 2)[0]) ||
			strings.HasPrefix(f.path, "internal/testing/") {
			continue
		}
		for _, m := range annotation.FindAllStringSubmatch(f.text, -1) {
			if found++; !listed[m[1]] && !slices.Contains(internalNames, m[1]) {
				t.Errorf("%s: %s has no level in RELEASES.md", f.path, m[1])
			}
		}
	}
	if found < 8 {
		t.Errorf("%d annotations were found", found)
	}
}

// These match literals that are names of metrics, or the beginning of some.
var (
	metric          = regexp.MustCompile(`"((?:paddock|kubelet|resource_manager)_[a-z0-9_]+)"`)
	schedulerMetric = regexp.MustCompile(`Name: "([a-z_]+)"|counter\("([a-z_]+)"`)
)

// TestEveryMetricHasALevel checks that the table of docs/metrics.md has every metric of the agent,
// of paddock quiet and of the scheduler, and no other.
func TestEveryMetricHasALevel(t *testing.T) {
	listed := names(t, "docs/metrics.md", "metrics", "metrics")
	there, prefixes := map[string]bool{}, map[string]bool{}
	for _, f := range load(t).texts {
		if !strings.HasSuffix(f.path, ".go") || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		switch path.Dir(f.path) {
		case "internal/node/telemetry", "internal/silencer":
			for _, m := range metric.FindAllStringSubmatch(f.text, -1) {
				if strings.HasSuffix(m[1], "_") {
					prefixes[m[1]] = true
				} else {
					there[m[1]] = true
				}
			}
		case "scheduler/plugin", "scheduler/duties":
			if !strings.Contains(f.text, "StabilityLevel") {
				continue
			}
			for _, m := range schedulerMetric.FindAllStringSubmatch(f.text, -1) {
				there["paddock_scheduler_"+m[1]+m[2]] = true
			}
		}
	}
	for prefix := range prefixes {
		found := false
		for name := range listed {
			if strings.HasPrefix(name, prefix) {
				there[name], found = true, true
			}
		}
		if !found {
			t.Errorf("docs/metrics.md has no metric that begins with %s", prefix)
		}
	}
	if len(there) < 90 {
		t.Errorf("%d metrics were found", len(there))
	}
	differ(t, "docs/metrics.md", listed, there)
}
