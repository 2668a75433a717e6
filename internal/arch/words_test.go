package arch

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wording is a phrase that people do not read in Paddock, and what they read instead.
type wording struct {
	pattern *regexp.Regexp
	instead string
}

// plain is for what the program prints, logs and serves, and for the pages.
var plain = []wording{
	{regexp.MustCompile(`(?i)\bnobody\b`), "no pod, no container or no process"},
	{regexp.MustCompile(`(?i)\bnot to be had\b`), "not available"},
	{regexp.MustCompile(`(?i)\bheld by\b`), "assigned to"},
	{regexp.MustCompile(`(?i)\brefus(e|es|ed|als?)\b`), "reject, rejected, rejection, as the kubelet's events and metrics say"},
	{regexp.MustCompile(`(?i)\banew\b`), "again, or created again"},
	{regexp.MustCompile(`(?i)\blifted\b`), "no CFS quota"},
	{regexp.MustCompile(`(?i)\bstands? aside\b`), "does not manage this node"},
	{regexp.MustCompile(`(?i)\b(memory|the) books\b`), "the memory accounting"},
	{regexp.MustCompile(`(?i)\b(node|pod)'s shared pool\b`), "node shared pool, pod shared pool"},
	{regexp.MustCompile(`(?i)\bgeneration\b`), "revision"},
}

// interfaces are literals that programs read: they keep their words. A connection is refused, as
// the kernel says.
var interfaces = []string{
	`"lifted"`, `"generation"`, `\"generation\":`,
	`"GET /api/refusals`, `"the kubelet refuses the connection: `,
}

func TestProgramTextIsPlain(t *testing.T) {
	unused := slices.Clone(interfaces)
	for _, f := range load(t).goFiles {
		if f.test || f.generated() {
			continue
		}
		for _, l := range literals(f.syntax) {
			if i := slices.IndexFunc(interfaces, func(s string) bool { return strings.Contains(l.Value, s) }); i >= 0 {
				unused = slices.DeleteFunc(unused, func(s string) bool { return s == interfaces[i] })
				continue
			}
			for _, found := range wordsIn(plain, l.Value) {
				t.Errorf("%s: %s", f.set.Position(l.Pos()), found)
			}
		}
	}
	for _, s := range unused {
		t.Errorf("no literal contains %s any more: remove it from interfaces", s)
	}
}

// literals are the strings of a file without its imports and struct tags.
func literals(file *ast.File) []*ast.BasicLit {
	var all []*ast.BasicLit
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tags[n.Tag] = true
		case *ast.BasicLit:
			if n.Kind == token.STRING && !tags[n] {
				all = append(all, n)
			}
		}
		return true
	})
	return all
}

func wordsIn(list []wording, text string) []string {
	var found []string
	for _, w := range list {
		if m := w.pattern.FindString(text); m != "" {
			found = append(found, "it says "+m+": write "+w.instead)
		}
	}
	return found
}

// code is what a page quotes, fenced blocks and words in backticks, and the targets of links.
var code = regexp.MustCompile("(?s)\n *```.*?\n *```|`[^`\n]*`|\\]\\([^)]*\\)")

func TestDocumentationIsPlain(t *testing.T) {
	pages := 0
	for _, f := range load(t).texts {
		if path.Ext(f.path) != ".md" || !slices.Contains([]string{".", "docs", "deploy"}, path.Dir(f.path)) {
			continue
		}
		pages++
		for _, found := range wordsIn(plain, code.ReplaceAllString(f.text, "")) {
			t.Errorf("%s: %s", f.path, found)
		}
	}
	if pages < 7 {
		t.Errorf("%d pages were read", pages)
	}
}

func TestWordsAreSeen(t *testing.T) {
	for _, text := range []string{
		"paddock refuses the pod", "a refusal", "it is made anew", "quota lifted", "Nobody listens", "HELD BY",
		"the node's shared pool", "memory books", "the agent stands aside", "since generation 3",
	} {
		if len(wordsIn(plain, text)) != 1 {
			t.Errorf("%q is not seen", text)
		}
	}
	for _, text := range []string{"paddock rejects the pod", "renewed", "assigned to", "the node shared pool", "set aside", "playbooks"} {
		if got := wordsIn(plain, text); len(got) != 0 {
			t.Errorf("%q: %s", text, got)
		}
	}
	if got := code.ReplaceAllString("a `nobody` [b](refusal.md)\n```console\nheld by\n```\nc", ""); got != "a  [b\nc" {
		t.Errorf("without code it is %q", got)
	}
}
