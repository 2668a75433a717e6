package arch

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRace checks that packages that "make race" skips use only one goroutine. No such package
// starts a goroutine, and neither does a package of this module that it or its tests import,
// because that package might call back.
func TestRace(t *testing.T) {
	tr := load(t)
	starts, imports, tested := map[string]string{}, map[string][]string{}, map[string]bool{}
	looked, tooMuch := importing(tr, makeList(t, tr, "RACING")), makeList(t, tr, "RACE_TOO")
	for _, dir := range makeList(t, tr, "RACE_LEAVES") {
		delete(looked, dir)
	}
	for _, f := range tr.goFiles {
		tested[f.dir()] = tested[f.dir()] || f.test
		imports[f.dir()] = append(imports[f.dir()], ownImports(f, looked)...)
		if where := goroutine(f); where != "" && (!f.test || !looked[f.dir()]) {
			starts[f.dir()] = where
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		if looked[dir] || !tested[dir] {
			continue
		}
		listed := slices.Contains(tooMuch, dir)
		for _, reached := range reach(dir, imports) {
			if where := starts[reached]; where != "" && !listed {
				t.Errorf("%s imports none of RACING in the Makefile, so make race leaves it out, and %s starts goroutines (%s): add %s to RACE_TOO there", dir, reached, where, dir)
			} else if where != "" {
				tooMuch = slices.DeleteFunc(tooMuch, func(listed string) bool { return listed == dir })
			}
		}
	}
	if len(tooMuch) > 0 {
		t.Errorf("RACE_TOO in the Makefile has %q, which make race tests anyway, or which have no tests, or which start no goroutine: remove them", tooMuch)
	}
}

// background matches a testscript command that runs concurrently with the following commands.
var background = regexp.MustCompile(`(?m)&\w*&?$`)

// TestRaceScripts checks the scripts of cmd/paddock that make race skips, which are those not named
// agent-*. They run one program after the other.
func TestRaceScripts(t *testing.T) {
	if skipped := makeList(t, load(t), "RACE_NOT"); !slices.Equal(skipped, []string{"TestDocsCommands|TestScripts/([^a]|a[^g])|TestHeapIsBounded|TestHostileAnswersTakeLittleMemory|TestFlippedBits|TestLoopIsBounded|TestFromTheKubeletsFiles|TestObservedAsRecorded|TestUpgradeAsRecorded|TestUpgradeStartsAsRecorded"}) {
		t.Errorf("RACE_NOT in the Makefile is %q: change this test with it", skipped)
	}
	scripts, err := filepath.Glob("../../cmd/paddock/testdata/script/*.txtar")
	if err != nil || len(scripts) < 40 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		commands, _, _ := strings.Cut(string(text), "\n-- ")
		if background.MatchString(commands) && !strings.HasPrefix(filepath.Base(name), "agent-") {
			t.Errorf("%s runs a program beside another one, and make race leaves it out: call it agent-*", name)
		}
	}
}

// makeList returns the words of a list variable in the Makefile.
func makeList(t *testing.T, tr tree, name string) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + ` +:= (.+)$`)
	for _, text := range tr.texts {
		if found := line.FindStringSubmatch(text.text); text.path == "Makefile" && found != nil {
			return strings.Fields(found[1])
		}
	}
	t.Fatalf("the Makefile has no line %s := …", name)
	return nil
}

// importing returns the packages that import one of wanted, in their files or tests.
func importing(tr tree, wanted []string) map[string]bool {
	found := map[string]bool{}
	for _, f := range tr.goFiles {
		if slices.ContainsFunc(f.imports, func(name string) bool { return slices.Contains(wanted, name) }) {
			found[f.dir()] = true
		}
	}
	return found
}

// ownImports returns the packages of this module that a file imports. It returns none for a test of
// a package in looked, because that test is not linked with other packages.
func ownImports(f *goFile, looked map[string]bool) (own []string) {
	if f.test && looked[f.dir()] {
		return nil
	}
	for _, name := range f.imports {
		if dir, isOwn := strings.CutPrefix(name, modulePath+"/"); isOwn {
			own = append(own, dir)
		}
	}
	return own
}

// goroutine returns where a file starts a goroutine itself or runs its tests in parallel, or "" if
// it does not. Anything else that starts a goroutine, e.g. a server, needs an import of RACING.
func goroutine(f *goFile) string {
	where := ""
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			where = f.set.Position(n.Pos()).String()
		case *ast.SelectorExpr:
			if n.Sel.Name == "Parallel" || n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" {
				where = f.set.Position(n.Pos()).String()
			}
		}
		return true
	})
	return where
}

// reach returns a package and the packages of this module that it imports, directly or indirectly.
func reach(dir string, imports map[string][]string) []string {
	found := []string{dir}
	for i := 0; i < len(found); i++ {
		for _, name := range imports[found[i]] {
			if !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found
}
