package arch

import (
	"fmt"
	"go/ast"
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

// checkImports returns what is wrong with the imports of a file in dir. A test may use any
// package of ours, since a test is where parts meet; the libraries have their places for
// tests too.
func checkImports(dir string, test bool, imports []string) []string {
	r, ok := roomOf(dir)
	if !ok {
		return []string{"is in " + dir + ", which has no row in internal/arch/rooms_test.go: say there what it may import"}
	}
	name := strings.TrimPrefix(dir, "internal/")
	var bad []string
	for _, imported := range imports {
		var why string
		if own, isOwn := strings.CutPrefix(imported, modulePath+"/"); isOwn {
			why = checkOwn(r, name, strings.TrimPrefix(own, "internal/"), test)
		} else {
			why = checkLibrary(name, imported, test)
		}
		if why != "" {
			bad = append(bad, fmt.Sprintf("imports %q: %s", imported, why))
		}
	}
	return bad
}

func checkOwn(r room, name, own string, test bool) string {
	if own == "arch" || strings.HasPrefix(own, "cmd/") {
		return "nobody imports " + own
	}
	if !test && slices.Contains(testOnly, own) && !slices.Contains(testOnly, r.name) {
		return "only tests import " + own
	}
	if test || covers(name, own) || slices.ContainsFunc(r.may, func(p string) bool { return matches(p, own) }) {
		return ""
	}
	allowed := "no package of ours"
	if len(r.may) > 0 {
		allowed = "only " + strings.Join(r.may, ", ")
	}
	return fmt.Sprintf("%s may import %s: %s", name, allowed, r.right)
}

func checkLibrary(name, imported string, test bool) string {
	if strings.HasPrefix(name, "core/") && !test {
		if !isStandard(imported) {
			return "the core uses the standard library only: let a codec (internal/podspec, internal/discover, …) translate, and hand in a value of the core"
		}
		for _, l := range impure {
			if covers(l.prefix, imported) {
				return "the core decides and touches nothing: " + l.why
			}
		}
	}
	// The longest prefix speaks: log/slog before log.
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

// The rules must be able to fail: each line here is a forbidden or an allowed import.
func TestImportRulesBite(t *testing.T) {
	own := func(s string) string { return modulePath + "/internal/" + s }
	cases := []struct {
		dir, imported string
		test          bool
		want          string // a part of the complaint; "" for none
	}{
		{"internal/core/cpu", own("core/cpuset"), false, ""},
		{"internal/core/cpu", own("core/memory"), false, "arrows point one way"},
		{"internal/core/cpu", own("core/node"), false, "arrows point one way"},
		{"internal/core/mask", own("core/cpuset"), false, "no package of ours"},
		{"internal/core/node", own("podspec"), false, "only core/cpu"},
		{"internal/core/node", own("podspec"), true, ""},
		{"internal/core/node", "os", false, "internal/discover"},
		{"internal/core/node", "os", true, ""},
		{"internal/core/node", "sync/atomic", false, "single writer"},
		{"internal/core/node", "math/rand/v2", false, "same answer"},
		{"internal/core/node", "math/bits", false, ""},
		{"internal/core/node", "golang.org/x/exp/maps", false, "standard library only"},
		{"internal/podspec", own("core/request"), false, ""},
		{"internal/podspec", own("kubeletcfg"), false, "know the core and nothing else"},
		{"internal/podspec", "log/slog", false, "the edges log"},
		{"internal/web", own("telemetry"), false, "edges never know each other"},
		{"internal/runtime/nri", own("runtime/sim"), false, "edges never know each other"},
		{"internal/runtime/nri", "github.com/containerd/nri/pkg/stub", false, ""},
		{"internal/agent", "github.com/containerd/nri/pkg/stub", false, "internal/runtime/nri"},
		{"internal/agent", own("runtime/nri"), false, ""},
		{"internal/agent", "log", false, "log/slog"},
		{"internal/engine", "github.com/prometheus/client_golang/prometheus", true, "internal/telemetry"},
		{"internal/engine", "k8s.io/kubelet/pkg/apis/podresources/v1", false, "internal/podres"},
		{"internal/engine", "k8s.io/kubernetes/pkg/kubelet", true, "docs/rules"},
		{"internal/view", modulePath + "/cmd/paddock", true, "nobody imports"},
		{"internal/engine", own("store/crashfs"), true, ""},
		{"internal/agent", own("store/crashfs"), false, "only tests"},
		{"internal/store/crashfs", own("store"), false, ""},
		{"internal/attic", "fmt", false, "has no row"},
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
