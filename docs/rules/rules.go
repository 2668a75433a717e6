// Package rules is the rule book in the program: the pages beside this file, split into rules.
//
// A rule is a paragraph that begins with its id in bold. Rules that messages name also have a
// sentence in plain words (plain.md), and quirks have a description of what Paddock does about them
// (the table of quirks.md). All pages are compiled in, so no lookup fails.
package rules

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paddock-project/paddock/internal/base/spelling"
)

//go:embed *.md
var pages embed.FS

// Rule is one rule or quirk.
type Rule struct {
	ID string `json:"id"`
	// Plain is the rule in a sentence for all users. It is empty if no message names the rule.
	Plain string `json:"plain,omitempty"`
	// Text is the paragraph of the rule book, in Markdown. Page and Section are its location.
	Text    string `json:"text"`
	Page    string `json:"page"`
	Section string `json:"section"`
	// Paddock is what Paddock does about a quirk.
	Paddock string `json:"paddock,omitempty"`
}

var (
	begins = regexp.MustCompile(`^(?:- |\| |\s*)\*\*((?:R-[A-Z0-9]+|Q)-\d+)\b(.*)`)
	idText = regexp.MustCompile(`(?:R-[A-Z0-9]+|Q)-\d+`)
)

// all returns the rules in order of family and number.
var all = sync.OnceValue(func() []Rule {
	entries, err := pages.ReadDir(".")
	if err != nil {
		panic("rules: the pages are compiled in and cannot be listed: " + err.Error())
	}
	var found []Rule
	for _, e := range entries {
		if e.Name() != "plain.md" {
			found = append(found, paragraphs(e.Name(), page(e.Name()))...)
		}
	}
	plain, paddock := column("plain.md"), column("quirks.md")
	for i := range found {
		found[i].Plain, found[i].Paddock = plain[found[i].ID], paddock[found[i].ID]
	}
	slices.SortStableFunc(found, func(a, b Rule) int { return compare(a.ID, b.ID) })
	return found
})

func page(name string) string {
	text, err := pages.ReadFile(name)
	if err != nil {
		panic("rules: " + name + " is compiled in and cannot be read: " + err.Error())
	}
	return string(text)
}

// paragraphs returns the rules of a page. A paragraph ends before the next rule, heading or empty
// line.
func paragraphs(name, text string) []Rule {
	var found []Rule
	section, open := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		match := begins.FindStringSubmatch(line)
		switch {
		case match != nil:
			found = append(found, Rule{ID: match[1], Text: strings.TrimSpace(strings.Replace(match[2], "**", "", 1)), Page: name, Section: section})
			open = true
		case strings.HasPrefix(line, "#"):
			section, open = strings.TrimSpace(strings.TrimLeft(line, "#")), false
		case strings.TrimSpace(line) == "":
			open = false
		case open:
			last := &found[len(found)-1]
			last.Text += "\n" + line
		}
	}
	return found
}

// column returns the second column of a page's tables by the ids in the first column.
func column(name string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(page(name)) {
		cells := strings.SplitN(strings.Trim(strings.TrimSpace(line), "|"), "|", 2)
		if !strings.HasPrefix(line, "|") || len(cells) < 2 {
			continue
		}
		for _, id := range idText.FindAllString(cells[0], -1) {
			found[id] = strings.TrimSpace(cells[1])
		}
	}
	return found
}

// All returns all rules, ordered by family and number.
func All() []Rule { return slices.Clone(all()) }

// maxNamed limits how many ids and ranges of a text are looked up, because a text can come from the
// network.
const maxNamed = 100

// Find returns the rules that a text names: an id, or several ids with any text between them. A
// range such as R-CPU-41…45 means the rules from the first to the last. missing are the ids that no
// rule has.
func Find(text string) (found []Rule, missing []string) {
	for _, span := range regexp.MustCompile(`(?i)((?:R-[A-Z0-9]+|Q)-)(\d+)(?:(?:…|\.\.+|-)(\d+))?`).FindAllStringSubmatch(text, maxNamed) {
		family := strings.ToUpper(span[1])
		first, _ := strconv.Atoi(span[2]) // If the number is too large, it becomes the largest int, which no rule has.
		last := first
		if span[3] != "" {
			last, _ = strconv.Atoi(span[3])
		}
		some := false
		for _, r := range all() {
			if f, n := parts(r.ID); f == family && n >= first && n <= last {
				found, some = append(found, r), true
			}
		}
		if !some {
			missing = append(missing, family+span[2])
		}
	}
	return found, missing
}

// String formats the rule for reading: first in plain words, then as in the rule book.
func (r Rule) String() string {
	var out strings.Builder
	out.WriteString(r.ID + "\n")
	if r.Plain != "" {
		fmt.Fprintf(&out, "  %s\n\n", r.Plain)
	}
	fmt.Fprintf(&out, "  docs/rules/%s, %s:\n", r.Page, r.Section)
	for line := range strings.SplitSeq(r.Text, "\n") {
		fmt.Fprintf(&out, "  %s\n", line)
	}
	if r.Paddock != "" {
		fmt.Fprintf(&out, "\n  Paddock: %s\n", r.Paddock)
	}
	return out.String()
}

// example is an ID for messages.
const example = "R-HINT-62"

// Unknown returns a message about ids that no rule has.
func Unknown(missing []string) string {
	lines := make([]string, len(missing))
	for i, id := range missing {
		switch {
		case id == "":
			lines[i] = fmt.Sprintf("the ID of a rule is empty: expected one such as %s", example)
		case !strings.Contains(id, "-"):
			lines[i] = fmt.Sprintf("there is no rule %s: expected an ID such as %s", id, example)
		default:
			lines[i] = fmt.Sprintf("there is no rule %s; the nearest are %s", id, strings.Join(Nearest(id, 3), ", "))
		}
	}
	return strings.Join(lines, "; ")
}

// Nearest returns up to n existing ids that are closest to an unknown id: by number in the same
// family, or in the family with the most similar name.
func Nearest(id string, n int) []string {
	family, number := parts(strings.ToUpper(id))
	rules := All()
	slices.SortStableFunc(rules, func(a, b Rule) int {
		fa, na := parts(a.ID)
		fb, nb := parts(b.ID)
		return cmp.Or(cmp.Compare(spelling.Distance(fa, family), spelling.Distance(fb, family)), cmp.Compare(distance(na, number), distance(nb, number)))
	})
	var ids []string
	for _, r := range rules[:min(n, len(rules))] {
		ids = append(ids, r.ID)
	}
	slices.SortFunc(ids, compare)
	return ids
}

// parts returns the family with its dash, and the number.
func parts(id string) (string, int) {
	i := strings.LastIndex(id, "-") + 1
	number, _ := strconv.Atoi(id[i:]) // An id without a number has number 0.
	return id[:i], number
}

func compare(a, b string) int {
	fa, na := parts(a)
	fb, nb := parts(b)
	return cmp.Or(cmp.Compare(fa, fb), cmp.Compare(na, nb))
}

func distance(a, b int) int { return max(a-b, b-a) }
