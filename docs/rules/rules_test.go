package rules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/docs/rules"
)

// Ids that no rule has are split in two, because a test of internal/arch looks for ids in the
// sources.
func TestFind(t *testing.T) {
	for _, test := range []struct {
		text, found, missing string
	}{
		{"R-HINT-62", "R-HINT-62", ""},
		{"r-hint-62", "R-HINT-62", ""},
		{"Q-3", "Q-3", ""},
		{"R-CPU-41…45", "R-CPU-41 R-CPU-42 R-CPU-43 R-CPU-44 R-CPU-45", ""},
		{"R-CPU-41-42", "R-CPU-41 R-CPU-42", ""},
		{"(R-MEM-32, R-MEM-33)", "R-MEM-32 R-MEM-33", ""},
		{"R-HINT" + "-999", "", "R-HINT" + "-999"},
		{"R-HINTS" + "-62 Q" + "-99999999999999999999", "", "R-HINTS" + "-62 Q" + "-99999999999999999999"},
		{"restricted", "", ""},
	} {
		found, missing := rules.Find(test.text)
		var ids []string
		for _, r := range found {
			ids = append(ids, r.ID)
			if r.Text == "" || r.Page == "" || r.Section == "" {
				t.Errorf("%s is not complete: %+v", r.ID, r)
			}
		}
		if got := strings.Join(ids, " "); got != test.found || strings.Join(missing, " ") != test.missing {
			t.Errorf("Find(%q) = %s, %v; want %s, %s", test.text, got, missing, test.found, test.missing)
		}
	}
}

func TestNearest(t *testing.T) {
	for id, want := range map[string]string{
		"R-HINT" + "-69": "R-HINT-67 R-HINT-68 R-HINT-70",
		"R-HNT" + "-62":  "R-HINT-61 R-HINT-62 R-HINT-63",
		"Q" + "-999":     "Q-49 Q-50 Q-51",
	} {
		if got := strings.Join(rules.Nearest(id, 3), " "); got != want {
			t.Errorf("Nearest(%s) = %s, want %s", id, got, want)
		}
	}
}

// TestQuirks checks that a quirk describes what Paddock does about it.
func TestQuirks(t *testing.T) {
	found, _ := rules.Find("Q-3")
	if got := found[0].Paddock; !strings.Contains(got, "KEP-5526") {
		t.Errorf("Q-3: Paddock %q", got)
	}
}

// TestPlain checks that each rule that a message of the program names has a sentence in plain
// words, and that each sentence belongs to a rule.
func TestPlain(t *testing.T) {
	plain := map[string]bool{}
	for _, r := range rules.All() {
		if r.Plain != "" {
			plain[r.ID] = true
		}
	}
	for _, id := range named(t) {
		if !plain[id] {
			t.Errorf("%s is named in the program's output and has no sentence in plain.md", id)
		}
	}
	page, err := os.ReadFile("plain.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^\| ([RQ]-\S+) \|`).FindAllStringSubmatch(string(page), -1) {
		if !plain[line[1]] {
			t.Errorf("plain.md has %s, which is no rule", line[1])
		}
	}
}

// named returns the ids in string literals of the program. For a range it returns the first id.
func named(t *testing.T) []string {
	t.Helper()
	literal := regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	id := regexp.MustCompile(`\b(R-[A-Z]+-\d+|Q-\d+)`)
	var ids []string
	for _, root := range []string{"../../internal", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "// ")
				for _, s := range literal.FindAllString(code, -1) {
					ids = append(ids, id.FindAllString(s, -1)...)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
