package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wording is a phrase that must not be used in Paddock, and what to write instead.
type wording struct {
	pattern *regexp.Regexp
	instead string
}

// plain applies to what the program prints, logs and serves, to the pages, and to comments.
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
}

// inText additionally applies to text that users read.
var inText = []wording{
	{regexp.MustCompile(`(?i)\bgeneration\b`), "revision"},
	{regexp.MustCompile(`(?i)\b(says|said|told|tells)\b`), "reports, describes or shows, or what the thing has"},
	{regexp.MustCompile(`(?i)\bstands? (at|below|beside|for|in|on|there)\b|\bstood\b`), "is, or means"},
	{regexp.MustCompile(`(?i)\beverybody\b`), "all pods"},
}

// interfaces are parts of literals that programs read, or that use a term of the kernel (a
// connection is refused). They are exempt.
var interfaces = []string{
	`\"generation\":`, `"generation"`, `"the kubelet refuses the connection: `,
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
			for _, found := range wordsIn(slices.Concat(plain, inText), l.Value) {
				t.Errorf("%s: %s", f.set.Position(l.Pos()), found)
			}
		}
	}
	for _, s := range unused {
		t.Errorf("no literal contains %s any more: remove it from interfaces", s)
	}
}

// onlyIDs matches a literal that consists of rule ids only: "R-CPU-40", "R-MEM-32, R-MEM-33".
var onlyIDs = regexp.MustCompile(`^"(` + ruleID.String() + `(, )?)+"$`)

// TestRuleIDsAreNotInSentences checks that a literal is either a list of rule ids or a sentence.
// The code that prints a sentence decides whether it shows the ids, and node.Why has both. The help
// of paddock rule is exempt, because it is about ids.
func TestRuleIDsAreNotInSentences(t *testing.T) {
	ids := 0
	for _, f := range load(t).goFiles {
		if f.test || f.path == "internal/program/rule.go" {
			continue
		}
		for _, l := range literals(f.syntax) {
			switch {
			case onlyIDs.MatchString(l.Value):
				ids++
			case ruleID.MatchString(l.Value):
				t.Errorf("%s: %s has the id of a rule in a sentence: make it a node.Why", f.set.Position(l.Pos()), l.Value)
			}
		}
	}
	if ids < 100 {
		t.Errorf("only %d literals are ids of rules", ids)
	}
}

// literals returns the string literals of a file, except its imports and struct tags.
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
			found = append(found, fmt.Sprintf("%q: write %s", m, w.instead))
		}
	}
	return found
}

// code matches what a page quotes: fenced blocks, words in backticks, and the targets of links.
var code = regexp.MustCompile("(?s)\n *```.*?\n *```|`[^`\n]*`|\\]\\([^)]*\\)")

func TestDocumentationIsPlain(t *testing.T) {
	pages := 0
	for _, f := range load(t).texts {
		if path.Ext(f.path) != ".md" || !slices.Contains([]string{".", "docs", "deploy"}, path.Dir(f.path)) {
			continue
		}
		pages++
		for _, found := range wordsIn(slices.Concat(plain, inText), code.ReplaceAllString(f.text, "")) {
			t.Errorf("%s: %s", f.path, found)
		}
	}
	if pages < 7 {
		t.Errorf("%d pages were read", pages)
	}
}

// plainPackages are the packages whose test files are checked too. The other files are checked in
// all packages.
var plainPackages = []string{
	"cmd/paddock", "cmd/paddock-agent", "internal/program", "internal/arch", "internal/codec/devicefile", "internal/codec/discover", "internal/kubelet/doctor", "internal/explain",
	"internal/cli/inputs", "internal/kubelet/config", "internal/kubelet/state", "internal/codec/podspec", "internal/node/replacement",
	"internal/cli/stateview", "internal/cli/treatment", "test/e2e",
}

// inComments additionally applies to comments, which people who change Paddock read.
var inComments = []wording{
	{regexp.MustCompile(`(?i)\b(says|said|told|tells)\b`), "reports, describes or explains, or what the thing has"},
	{regexp.MustCompile(`(?i)\b(holds|held|holding)\b`), "has, is assigned, or: is valid, is true"},
	{regexp.MustCompile(`(?i)\b(stands|stood)\b`), "is, or means"},
	{regexp.MustCompile(`(?i)\b(lanes?|famil(y|ies)|universes?)\b`), "container type, hint set, candidate NUMA nodes"},
	{regexp.MustCompile(`(?i)\beverybody\b`), "all pods"},
}

// inNames matches words that must not occur in declared names.
var inNames = regexp.MustCompile(`^(?i:anew|books?|everybody|famil(y|ies)|held|holds|lanes?|nobody|refus(e|es|ed|als?)|said|stands|told|universes?)$`)

// terms are terms of the field, of a kernel or of a wire format. They are allowed in this form.
var terms = regexp.MustCompile(`(?i)\b(connection(s are| is)? refused|refuses the connection|ECONNREFUSED|GetBookID|locks? held|held lock|holds? the lock|lock is held|(the|a|newest) generation|DeviceClass stands)\b`)

func TestCommentsArePlain(t *testing.T) {
	for _, f := range load(t).goFiles {
		if !isPlain(f) || f.path == "internal/arch/words_test.go" {
			continue
		}
		for _, group := range f.syntax.Comments {
			for _, found := range commentFaults(group.Text()) {
				t.Errorf("%s: %s", f.set.Position(group.Pos()), found)
			}
		}
	}
}

func TestNamesArePlain(t *testing.T) {
	for _, f := range load(t).goFiles {
		if !isPlain(f) {
			continue
		}
		for _, name := range declared(f.syntax) {
			if word := nameFault(name.Name); word != "" {
				t.Errorf("%s: %s: the word %q is not one of Kubernetes nodes: see the other words in internal/arch/words_test.go",
					f.set.Position(name.Pos()), name.Name, word)
			}
		}
	}
}

func isPlain(f *goFile) bool {
	return !f.generated() && (!f.test && strings.HasPrefix(f.path, "internal/") || slices.ContainsFunc(plainPackages, func(p string) bool { return matches(p, f.dir()) }))
}

// quoted matches a quotation in a comment, e.g. a message.
var quoted = regexp.MustCompile("\"[^\"\n]*\"|`[^`\n]*`")

func commentFaults(text string) []string {
	text = terms.ReplaceAllString(quoted.ReplaceAllString(text, ""), "")
	return wordsIn(slices.Concat(plain, inComments), text)
}

// nameFault returns the first forbidden word of a name, or "" if there is none.
func nameFault(name string) string {
	for _, word := range camel.FindAllString(terms.ReplaceAllString(name, ""), -1) {
		if inNames.MatchString(word) {
			return word
		}
	}
	return ""
}

// camel matches one word of a name.
var camel = regexp.MustCompile(`[A-Z]+(?:[^a-zA-Z]|$)|[A-Z]?[a-z]+|[A-Z]+`)

// declared returns the names that a file declares. Names from other packages that it uses are not
// included.
func declared(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	add := func(list ...ast.Expr) {
		for _, e := range list {
			if id, ok := e.(*ast.Ident); ok {
				names = append(names, id)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		}
		return true
	})
	return names
}

func TestWordsAreSeen(t *testing.T) {
	for _, text := range []string{
		"paddock refuses the pod", "a refusal", "it is made anew", "quota lifted", "Nobody listens", "HELD BY",
		"the node's shared pool", "memory books", "the agent stands aside", "since generation 3",
		"they are ignored, as FILE says", "the report tells why", "it stands for a pod", "for everybody",
	} {
		if len(wordsIn(slices.Concat(plain, inText), text)) != 1 {
			t.Errorf("%q is not seen", text)
		}
	}
	for _, text := range []string{"paddock rejects the pod", "renewed", "assigned to", "the node shared pool", "set aside", "playbooks"} {
		if got := wordsIn(slices.Concat(plain, inText), text); len(got) != 0 {
			t.Errorf("%q: %s", text, got)
		}
	}
	if got := code.ReplaceAllString("a `nobody` [b](refusal.md)\n```console\nheld by\n```\nc", ""); got != "a  [b\nc" {
		t.Errorf("without code it is %q", got)
	}
}

func TestWordsOfCommentsAndNamesAreSeen(t *testing.T) {
	for _, text := range []string{
		"the report says why", "it was told", "what a pod holds", "the books", "a lane", "a message stands for it", "nobody", "made anew",
	} {
		if len(commentFaults(text)) != 1 {
			t.Errorf("%q is not seen", text)
		}
	}
	for _, text := range []string{
		"connection refused", "it prints \"nobody\"", "a threshold", "a household", "the generation of a state", "the standard policy",
	} {
		if got := commentFaults(text); len(got) != 0 {
			t.Errorf("%q: %s", text, got)
		}
	}
	for name, want := range map[string]string{
		"freshBooks": "Books", "cpuBook": "Book", "heldBy": "held", "ErrRefused": "Refused", "nobody": "nobody", "said": "said",
		"GetBookID": "", "ECONNREFUSED": "", "threshold": "", "standard": "", "bookkeeping": "", "IDs": "",
	} {
		if got := nameFault(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
