package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	for _, f := range load(t).goFiles {
		for _, complaint := range checkImports(f.dir(), f.test, f.imports) {
			t.Errorf("%s %s", f.path, complaint)
		}
	}
}

func TestOnlyCommandsPrint(t *testing.T) {
	for _, f := range load(t).goFiles {
		if f.test || strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		for _, p := range prints(f) {
			t.Errorf("%s: only cmd prints: return the text or write it to an io.Writer that the caller hands in", p)
		}
	}
}

// checkImports returns the violations in the imports of a file in dir. Tests may import any package
// of this module, because tests combine parts, except those in a nested module. The restrictions on
// libraries also apply to tests.
func checkImports(dir string, test bool, imports []string) []string {
	name := strings.TrimPrefix(dir, "internal/")
	if floorOf(name) < 0 && dir != "internal/arch" {
		return []string{"is in " + dir + ", which is on no floor of internal/arch/rooms_test.go: put it on one"}
	}
	var bad []string
	for _, imported := range imports {
		var why string
		if own, isOwn := strings.CutPrefix(imported, modulePath+"/"); isOwn {
			why = checkOwn(name, strings.TrimPrefix(own, "internal/"), test)
		} else {
			why = checkLibrary(name, imported, test)
		}
		if why != "" {
			bad = append(bad, fmt.Sprintf("imports %q: %s", imported, why))
		}
	}
	return bad
}

func checkOwn(name, own string, test bool) string {
	if own == "arch" || covers("cmd", own) {
		return "nobody imports " + own
	}
	here, there := floorOf(name), floorOf(own)
	first, second := within(edges, name), within(edges, own)
	switch {
	case there < 0:
		return own + " is on no floor"
	case within(modules, name) == "predict" && within(modules, own) != "":
		return ""
	case within(modules, name) != within(modules, own) && within(modules, name) != "":
		return adviceModule
	case test, here == 0:
		return ""
	case there == 0:
		return "only tests import " + own
	case covers("core", name):
		return checkCore(name, own)
	case within(pure, name) != "" && within(pure, own) == "" && !covers("core", own):
		return name + " is a value, and imports only the core and other values: " + adviceValue
	case there < here:
		return fmt.Sprintf("%s is above %s: %s", own, name, floors[here].what)
	case first != "" && second != "" && first != second:
		return adviceEdge
	}
	return ""
}

func checkCore(name, own string) string {
	i := slices.IndexFunc(rooms, func(r room) bool { return r.name == name })
	if i < 0 {
		return "has no row in internal/arch/rooms_test.go: say there what it may import"
	}
	if slices.Contains(rooms[i].may, own) || covers(name, own) {
		return ""
	}
	allowed := "no package of ours"
	if len(rooms[i].may) > 0 {
		allowed = "only " + strings.Join(rooms[i].may, ", ")
	}
	return fmt.Sprintf("%s may import %s: %s", name, allowed, adviceCore)
}

// TestFloorsHaveNoCircles checks that no room of a floor, together with the packages inside it,
// imports another room that imports it, directly or indirectly.
func TestFloorsHaveNoCircles(t *testing.T) {
	arrows := map[string]map[string]bool{}
	for _, f := range load(t).goFiles {
		from := roomOf(strings.TrimPrefix(f.dir(), "internal/"))
		if f.test || from == "" {
			continue
		}
		if arrows[from] == nil {
			arrows[from] = map[string]bool{}
		}
		for _, imported := range f.imports {
			to, own := strings.CutPrefix(imported, modulePath+"/internal/")
			if to = roomOf(to); own && to != "" && to != from && floorOf(to) == floorOf(from) {
				arrows[from][to] = true
			}
		}
	}
	if circle := findCircle(arrows); circle != nil {
		t.Errorf("packages import each other: %s", strings.Join(circle, " > "))
	}
	arrows["base/terminal"]["base/access"], arrows["base/access"]["base/terminal"] = true, true
	if findCircle(arrows) == nil {
		t.Error("a circle is not seen")
	}
}

// roomOf returns the room of a package on its floor: "node/runtime" for node/runtime/nri. It
// returns "" for packages of the core, which have their own rules, and for floors that are one
// room.
func roomOf(name string) string {
	words := strings.SplitN(name, "/", 3)
	if len(words) < 2 || words[0] == "core" {
		return ""
	}
	return words[0] + "/" + words[1]
}

// findCircle returns a path along the arrows that ends where it began, or nil if there is none.
func findCircle(arrows map[string]map[string]bool) []string {
	done := map[string]bool{}
	var way []string
	var walk func(from string) []string
	walk = func(from string) []string {
		if i := slices.Index(way, from); i >= 0 {
			return append(slices.Clone(way[i:]), from)
		}
		if done[from] {
			return nil
		}
		done[from], way = true, append(way, from)
		for _, to := range slices.Sorted(maps.Keys(arrows[from])) {
			if circle := walk(to); circle != nil {
				return circle
			}
		}
		way = way[:len(way)-1]
		return nil
	}
	for _, from := range slices.Sorted(maps.Keys(arrows)) {
		if circle := walk(from); circle != nil {
			return circle
		}
	}
	return nil
}

func checkLibrary(name, imported string, test bool) string {
	if test && covers("core", name) && !isStandard(imported) && !slices.Contains(coreTests, imported) {
		return adviceModule
	}
	if above := within(pure, name) != ""; (above || strings.HasPrefix(name, "core/")) && !test {
		if !isStandard(imported) {
			return "the core uses the standard library only: let a codec (internal/codec/podspec, internal/codec/discover, …) translate, and hand in a value of the core"
		}
		for _, l := range impure {
			if covers(l.prefix, imported) && !(above && imported == "time") {
				return "the core decides and touches nothing: " + l.why
			}
		}
	}
	// The longest prefix applies: log/slog before log.
	var best *library
	for i, l := range libraries {
		if covers(l.prefix, imported) && (best == nil || len(l.prefix) > len(best.prefix)) {
			best = &libraries[i]
		}
	}
	if best == nil || (test && isStandard(imported)) || slices.ContainsFunc(best.only, func(p string) bool { return matches(p, name) }) {
		return ""
	}
	if len(best.only) == 0 {
		return "nobody imports it: " + best.why
	}
	return fmt.Sprintf("only %s may: %s", strings.Join(best.only, ", "), best.why)
}

func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// TestNoClocks checks that packages that are values use no clock and no timer. They are given the
// time.
func TestNoClocks(t *testing.T) {
	for _, f := range load(t).goFiles {
		if f.test || within(pure, strings.TrimPrefix(f.dir(), "internal/")) == "" {
			continue
		}
		for _, c := range clocks(f) {
			t.Errorf("%s: %s", c, adviceValue)
		}
	}
	f, err := parse("internal/x/x.go", "package x\nimport \"time\"\nvar a, b = time.Now(), time.Unix(0, 0)")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := clocks(f), []string{"internal/x/x.go:3 uses time.Now"}; !slices.Equal(got, want) {
		t.Errorf("clocks = %q, want %q", got, want)
	}
}

// clocks returns the places where f uses a clock or a timer.
func clocks(f *goFile) (found []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			if x != nil && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}, s.Sel.Name) {
				found = append(found, fmt.Sprintf("%s:%d uses time.%s", f.path, f.set.Position(n.Pos()).Line, s.Sel.Name))
			}
		}
		return true
	})
	return found
}

// prints returns the places where f writes to the standard output or error.
func prints(f *goFile) []string {
	names := map[string]string{}
	for _, spec := range f.syntax.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if name != "fmt" && name != "os" {
			continue
		}
		local := name
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = name
	}
	var found []string
	report := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s:%d uses %s", f.path, f.set.Position(n.Pos()).Line, what))
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch what := names[x.Name] + "." + n.Sel.Name; what {
			case "fmt.Print", "fmt.Printf", "fmt.Println", "os.Stdout", "os.Stderr":
				report(n, what)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				report(n, id.Name)
			}
		}
		return true
	})
	return found
}

// The rules must be able to fail: each case is a forbidden or an allowed import.
func TestImportRulesBite(t *testing.T) {
	own := func(s string) string { return modulePath + "/internal/" + s }
	cases := []struct {
		dir, imported string
		test          bool
		want          string // a part of the complaint; "" if the import is allowed
	}{
		{"internal/core/cpu", own("core/cpuset"), false, ""},
		{"internal/core/cpu", own("core/memory"), false, "arrows point one way"},
		{"internal/core/cpu", own("core/node"), false, "arrows point one way"},
		{"internal/core/mask", own("core/cpuset"), false, "no package of ours"},
		{"internal/core/node", own("core/moves"), false, "only core/cpu"},
		{"internal/core/attic", own("core/mask"), false, "has no row"},
		{"internal/core/node", "os", false, "internal/codec/discover"},
		{"internal/core/node", "os", true, ""},
		{"internal/core/node", "sync/atomic", false, "single writer"},
		{"internal/core/node", "math/rand/v2", false, "same answer"},
		{"internal/core/node", "math/bits", false, ""},
		{"internal/core/node", "golang.org/x/exp/maps", false, "standard library only"},
		{"internal/codec/podspec", own("core/request"), false, ""},
		{"internal/codec/podspec", own("codec/discover"), false, ""},
		{"internal/codec/podspec", own("kubelet/config"), false, "kubelet/config is above codec/podspec: codecs know"},
		{"internal/codec/podspec", "log/slog", false, "the edges log"},
		{"internal/explain", own("base/terminal"), false, ""},
		{"internal/explain", own("kubelet/quirk"), false, "is above explain"},
		{"internal/node/engine", own("ui/view"), false, "is above node/engine"},
		{"internal/cluster/fleet", own("node/engine"), false, ""},
		{"internal/cli/inputs", own("agent"), false, "internal/agent"},
		{"internal/ui/web", own("node/telemetry"), false, "edges never know each other"},
		{"internal/node/runtime/nri", own("node/runtime/sim"), false, "edges never know each other"},
		{"internal/node/runtime/nri", own("node/runtime"), false, ""},
		{"internal/node/runtime/nri", "github.com/containerd/nri/pkg/stub", false, ""},
		{"internal/agent", "github.com/containerd/nri/pkg/stub", false, "internal/node/runtime/nri"},
		{"internal/agent", own("node/runtime/nri"), false, ""},
		{"internal/agent", "log", false, "log/slog"},
		{"internal/node/engine", "github.com/prometheus/client_golang/prometheus", true, "internal/node/telemetry"},
		{"internal/node/engine", "k8s.io/kubelet/pkg/apis/podresources/v1", false, "internal/node/podres"},
		{"internal/node/engine", "k8s.io/kubernetes/pkg/kubelet", true, "docs/rules"},
		{"internal/ui/view", modulePath + "/cmd/paddock", true, "nobody imports"},
		{"internal/node/engine", own("testing/crashfs"), true, ""},
		{"internal/agent", own("testing/crashfs"), false, "only tests"},
		{"internal/testing/crashfs", own("node/store"), false, ""},
		{"internal/node/control", own("core/converge"), false, ""},
		{"internal/node/control", own("node/engine"), false, "imports only the core"},
		{"internal/node/control", own("node/runtime/sim"), true, ""},
		{"internal/node/control", "time", false, ""},
		{"internal/node/control", "context", false, "never waits"},
		{"internal/node/control", "github.com/containerd/nri/pkg/api", false, "standard library only"},
		{"internal/attic", "fmt", false, "is on no floor"},
		{"internal/agent", own("attic"), false, "is on no floor"},
	}
	for _, c := range cases {
		got := strings.Join(checkImports(c.dir, c.test, []string{c.imported}), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s (test %v) importing %s: complaint %q, want one with %q", c.dir, c.test, c.imported, got, c.want)
		}
	}
}

func TestPrintsAreSeen(t *testing.T) {
	f, err := parse("internal/x/x.go", `package x
import (
	f "fmt"
	"os"
)
func a() {
	f.Println("1")
	f.Fprintln(os.Stderr, "2")
	println("3")
	_ = f.Sprint("not this one")
}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"internal/x/x.go:7 uses fmt.Println", "internal/x/x.go:8 uses os.Stderr", "internal/x/x.go:9 uses println"}
	if got := prints(f); !slices.Equal(got, want) {
		t.Errorf("prints = %q, want %q", got, want)
	}
}
