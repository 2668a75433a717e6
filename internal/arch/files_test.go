package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxFileLines     = 500
	maxTestFuncLines = 60
)

func TestEveryPackageHasAComment(t *testing.T) {
	comments := map[string]string{}
	for _, f := range load(t).goFiles {
		if f.test && f.dir() != "internal/arch" {
			continue
		}
		comments[f.dir()] += f.syntax.Doc.Text()
		if doc := f.syntax.Doc.Text(); doc != "" && f.syntax.Name.Name != "main" && !strings.HasPrefix(doc, "Package "+f.syntax.Name.Name+" ") {
			t.Errorf("%s: the package comment does not begin with %q", f.path, "Package "+f.syntax.Name.Name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(comments)) {
		if comments[dir] == "" {
			t.Errorf("%s has no package comment: say what the package promises", dir)
		}
	}
}

func TestSizes(t *testing.T) {
	unused := maps.Clone(exceptions)
	for _, f := range load(t).goFiles {
		for _, c := range tooLarge(f) {
			if _, ok := exceptions[c.what]; ok {
				delete(unused, c.what)
				continue
			}
			t.Errorf("%s %s", c.what, c.why)
		}
	}
	for what := range unused {
		t.Errorf("%s: the exception in internal/arch/exceptions_test.go is no longer needed", what)
	}
}

type complaint struct{ what, why string }

// tooLarge returns f and its test functions if they exceed their limits. The linter's funlen checks
// other functions.
func tooLarge(f *goFile) []complaint {
	if f.generated() {
		return nil
	}
	var found []complaint
	if n := strings.Count(f.text, "\n"); n > maxFileLines {
		found = append(found, complaint{f.path, fmt.Sprintf("has %d lines, more than %d: it holds more than one thought", n, maxFileLines)})
	}
	if !f.test {
		return found
	}
	for _, d := range f.syntax.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1
		if n > maxTestFuncLines {
			found = append(found, complaint{f.path + " " + fn.Name.Name, fmt.Sprintf("has %d lines, more than %d: cases live in tables and files", n, maxTestFuncLines)})
		}
	}
	return found
}

// ruleID matches the id of a rule or a quirk, alone or at the start of a range or list:
// R-DEM-60…67, R-CPU-110..114, R-HINT-21/22/31.
var ruleID = regexp.MustCompile(`\b(R-[A-Z0-9]+-|Q-)([0-9]+(?:(?:…|–|\.{2,3}|/)[0-9]+)*)\b`)

// definition matches the start of a rule in docs/rules.
var definition = regexp.MustCompile(`(?m)^- \*\*((?:R-[A-Z0-9]+-|Q-)[0-9]+)\b`)

func TestEveryRuleIsFound(t *testing.T) {
	tr := load(t)
	where := map[string]string{}
	for _, f := range tr.texts {
		if path.Dir(f.path) != "docs/rules" {
			continue
		}
		for _, m := range definition.FindAllStringSubmatch(f.text, -1) {
			if first, ok := where[m[1]]; ok {
				t.Errorf("%s stands in %s and in %s", m[1], first, f.path)
			}
			where[m[1]] = f.path
		}
	}
	if len(where) < 300 {
		t.Errorf("docs/rules has %d rules, which cannot be all", len(where))
	}
	for _, f := range tr.texts {
		if path.Dir(f.path) == "internal/arch" {
			continue // the examples in these tests
		}
		for _, id := range mentions(f.text) {
			if where[id] == "" {
				t.Errorf("%s names %s, which no line of docs/rules begins with", f.path, id)
			}
		}
	}
}

// mentions returns the rules that text names. For a range, it returns both ends.
func mentions(text string) []string {
	var ids []string
	for _, m := range ruleID.FindAllStringSubmatch(text, -1) {
		numbers := strings.FieldsFunc(m[2], func(r rune) bool { return r < '0' || r > '9' })
		for _, n := range numbers {
			ids = append(ids, m[1]+n)
		}
	}
	return ids
}

func TestMentions(t *testing.T) {
	got := mentions("as R-CPU-12 says (R-DEM-60…67, R-HINT-40/41, R-MEM-32..35, Q-5), but not XR-CPU-1 or R-CPU")
	want := []string{"R-CPU-12", "R-DEM-60", "R-DEM-67", "R-HINT-40", "R-HINT-41", "R-MEM-32", "R-MEM-35", "Q-5"}
	if !slices.Equal(got, want) {
		t.Errorf("mentions = %q, want %q", got, want)
	}
}

// Words that do not belong in the repository. They are concatenated here so that this file does not
// contain them.
var unwanted = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(^|[\s/#(*])(` + "TO" + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`), "what is not done is an issue, not a comment"},
	{regexp.MustCompile(`(^|[\s"'(=:])/(` + "wo" + `rk|ro` + `ot|ho` + `me|Us` + `ers)/[a-zA-Z.]`), "a path of somebody's machine"},
	{regexp.MustCompile(`/tmp/[a-z]+_jobs`), "a path of somebody's machine"},
}

func TestNoUnwantedWords(t *testing.T) {
	for _, f := range load(t).texts {
		for _, complaint := range unwantedIn(f.text) {
			t.Errorf("%s:%s", f.path, complaint)
		}
	}
}

func unwantedIn(text string) []string {
	var found []string
	for i, line := range strings.Split(text, "\n") {
		for _, u := range unwanted {
			if m := u.pattern.FindString(line); m != "" {
				found = append(found, fmt.Sprintf("%d holds %q: %s", i+1, strings.TrimSpace(m), u.why))
			}
		}
	}
	return found
}

func TestUnwantedWordsAreSeen(t *testing.T) {
	for _, line := range []string{"// TO" + "DO: later", "open(\"/ro" + "ot/x\")", "see /ho" + "me/ada/notes"} {
		if len(unwantedIn(line)) != 1 {
			t.Errorf("%q is not seen", line)
		}
	}
	for _, line := range []string{"a root/path", "--root-dir /var/lib/kubelet", "/home", "method"} {
		if got := unwantedIn(line); len(got) != 0 {
			t.Errorf("%q is refused: %v", line, got)
		}
	}
}

// maxCommentColumns is the maximum width of a comment line. A tab counts as 4 columns.
const maxCommentColumns = 100

// sentence matches a comment line that is not a list, preformatted text or a directive.
var sentence = regexp.MustCompile(`^// [^\s#*|-]`)

// TestCommentsAreWrapped skips api, whose comments are the descriptions in the CRDs and keep their
// line breaks.
func TestCommentsAreWrapped(t *testing.T) {
	for _, f := range load(t).goFiles {
		if f.generated() || strings.HasPrefix(f.path, "api/") {
			continue
		}
		for i, line := range strings.Split(f.text, "\n") {
			columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if columns > maxCommentColumns && sentence.MatchString(strings.TrimLeft(line, "\t")) {
				t.Errorf("%s:%d: the comment has %d columns, more than %d: wrap it", f.path, i+1, columns, maxCommentColumns)
			}
		}
	}
}
