package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// aloneText names the resources that alone are missing on some NUMA nodes, with the least that is
// missing: "only CPUs are missing on 3 of 8 NUMA nodes: 2 of 64 on NUMA node 5". It returns "" if
// there are none.
func aloneText(m *explain.Missing) string {
	if m == nil {
		return ""
	}
	var texts []string
	for _, wanted := range m.Wanted {
		var on mask.Mask
		least, at := int64(0), -1
		for i := range m.Places {
			a, alone := m.Places[i].Alone()
			if !alone || a.Resource != wanted.Resource {
				continue
			}
			if at < 0 || a.Value < least {
				least, at = a.Value, i
			}
			if id := m.Places[i].NUMANode; id != nil {
				on = on.With(*id)
			}
		}
		if at < 0 {
			continue
		}
		text := fmt.Sprintf("only %s %s missing", noun(wanted.Resource), is(wanted.Resource))
		switch n := len(m.Places); {
		case m.Whole || n == 1:
		case on.Len() < n:
			text += fmt.Sprintf(" on %d of %d NUMA nodes", on.Len(), n)
		case n == 2:
			text += " on both NUMA nodes"
		default:
			text += fmt.Sprintf(" on all %d NUMA nodes", n)
		}
		text += ": " + missingNumber(wanted.Resource, roundedUp(explain.Amount{Resource: wanted.Resource, Value: least}).Value)
		if !request.IsCache(wanted.Resource) {
			text += " of " + missingNumber(wanted.Resource, wanted.Value)
		}
		if !m.Whole && len(m.Places) > 1 {
			text += " on " + mask.Of(*m.Places[at].NUMANode).Text()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// missingNumber formats an amount of a resource that the sentence has named.
func missingNumber(resource string, n int64) string {
	if request.IsCache(resource) {
		return "for " + Count(int(n), "CPU")
	}
	return explain.Amount{Resource: resource, Value: n}.Quantity()
}

// missing prints what each NUMA node lacks. NUMA nodes that lack the same share a line.
func (w *explanation) missing(m *explain.Missing) {
	lacks := func(p explain.MissingPlace) bool { return len(p.Missing) > 0 }
	if m == nil || m.Whole || len(m.Places) < 2 || !slices.ContainsFunc(m.Places, lacks) {
		return
	}
	who := "the pod"
	if m.Container != "" {
		who = "container " + m.Container
	}
	var order []string
	at := map[string]mask.Mask{}
	for i := range m.Places {
		text := lacksText(&m.Places[i])
		if !slices.Contains(order, text) {
			order = append(order, text)
		}
		at[text] = at[text].With(*m.Places[i].NUMANode)
	}
	w.heading("Missing", "on each NUMA node, for "+who+", which wants "+wantedWords(m.Wanted)+" on one")
	var rows [][]terminal.Cell
	for _, text := range order {
		rows = append(rows, []terminal.Cell{{Text: at[text].List()}, {Text: text}})
	}
	w.table(rows)
}

// lacksText lists what a NUMA node lacks.
func lacksText(p *explain.MissingPlace) string {
	text := missingWords(p.Missing)
	switch {
	case text == "" && p.Barred:
		return "no amount: see Align"
	case text == "":
		return "nothing"
	case p.Barred:
		return text + ", and more than amounts"
	}
	return text
}
