package node

import (
	"slices"
	"strings"
)

// Why is a reason for people: a sentence, and the ids of the rules behind it as in docs/rules, e.g.
// "R-MEM-32, R-MEM-33". The code that prints it decides whether people see the ids.
type Why struct{ Text, Rule string }

// And returns both reasons in one sentence, with each rule once. A reason without text adds
// nothing.
func (w Why) And(also Why) Why {
	switch "" {
	case w.Text:
		return also
	case also.Text:
		return w
	}
	var rules []string
	for rule := range strings.SplitSeq(w.Rule+", "+also.Rule, ", ") {
		if rule != "" && !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return Why{w.Text + "; " + also.Text, strings.Join(rules, ", ")}
}

// WithRule returns the sentence, followed by the ids in brackets if there are any.
func (w Why) WithRule() string {
	if w.Rule == "" {
		return w.Text
	}
	return w.Text + " (" + w.Rule + ")"
}
