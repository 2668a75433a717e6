package cluster

import (
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	const text = `< node

# A page.

$ kubectl apply -f a \
    -f b
a created
…
~ kubectl get a
a  Running
exit 1

# The end.
`
	p, err := parsePage("a.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	b := p.blocks
	if p.from != "node" || len(b) != 3 || b[0].command != "kubectl apply -f a \\\n    -f b" || b[0].again || !b[1].again || len(b[1].answer) != 2 || b[2].command != "" {
		t.Errorf("parsed as %#v", p)
	}
	if want := strings.Replace(text, "…\n~", "…\n\n~", 1); p.String() != want {
		t.Errorf("printed as\n%s", p)
	}
	for text, want := range map[string]string{
		"kubectl get a\n":            "b.txt:1: expected a command",
		"< node\n\n$ a\n\n< churn\n": "b.txt:5: expected a command",
		"$ kubectl get a\n":          "b.txt:1: expected a line with what it begins from",
	} {
		if _, err := parsePage("b.txt", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		answer, lines string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "a b", false},
		{"a …", "a b", true},
		{"a … c", "a b c", true},
		{"a … c", "a b c d", false},
		{"…b…", "abc", true},
		{"…x…b", "axcb", true},
		{"a…a", "a", false},
		{"…", "", true},
		{"…", "a|b", true},
		{"a|…", "a", true},
		{"a|…|d", "a|b|c|d", true},
		{"a|…|d", "a|b|c", false},
		{"…|b", "a|b|b", true},
	} {
		if got := matches(split(c.answer), split(c.lines)); got != c.want {
			t.Errorf("answer %q, lines %q: %v", c.answer, c.lines, got)
		}
	}
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "|")
}
