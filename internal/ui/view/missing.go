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

// lacksSentence names the resources that alone are missing on some NUMA nodes, with the smallest
// missing amount: "only CPUs are missing on 3 of 8 NUMA nodes: at least 2 CPUs more are needed, on
// NUMA node 5". If there is no such resource, it names those that are missing together. It returns
// "" if there are neither. m may be nil.
func lacksSentence(m *explain.Missing) string {
	if m == nil {
		return ""
	}
	var texts []string
	for _, wanted := range m.Wanted {
		count, least, at := 0, int64(0), -1
		for i := range m.Places {
			a, alone := m.Places[i].Alone()
			if !alone || a.Resource != wanted.Resource {
				continue
			}
			if count++; at < 0 || a.Value < least {
				least, at = a.Value, i
			}
		}
		if at >= 0 {
			amount := explain.Amount{Resource: wanted.Resource, Value: least}
			texts = append(texts, "only "+missingText(m, []explain.Amount{amount}, at, count))
		}
	}
	for _, t := range m.Together() {
		texts = append(texts, missingText(m, t.Least, t.At, t.Places))
	}
	return strings.Join(texts, "; ")
}

// missingText describes resources that are missing on count places, and the amounts that are needed
// at one of them.
func missingText(m *explain.Missing, amounts []explain.Amount, at, count int) string {
	nouns, verb := make([]string, len(amounts)), "are"
	for i, a := range amounts {
		nouns[i] = noun(a.Resource)
	}
	if len(amounts) == 1 {
		verb = is(amounts[0].Resource)
	}
	text := and(nouns) + " " + verb + " missing" + onPlaces(m, count) + ": " + needed(amounts)
	if !m.Whole && len(m.Places) > 1 {
		text += ", on " + mask.Of(*m.Places[at].NUMANode).Text()
	}
	return text
}

// onPlaces formats the number of places to which a sentence applies: " on 3 of 8 NUMA nodes". It
// returns "" if there is only one place.
func onPlaces(m *explain.Missing, count int) string {
	with := ""
	if len(m.WithoutCPUs) > 0 {
		with = " with CPUs"
	}
	switch n := len(m.Places); {
	case n == 1 && with != "":
		return " on the NUMA node" + with
	case n == 1:
		return ""
	case count < n:
		return fmt.Sprintf(" on %d of %d NUMA nodes%s", count, n, with)
	case n == 2:
		return " on both NUMA nodes" + with
	default:
		return fmt.Sprintf(" on all %d NUMA nodes%s", n, with)
	}
}

// needed formats what is needed beside what is free: "at least 2 CPUs more are needed".
func needed(amounts []explain.Amount) string {
	a := amounts[0]
	switch {
	case len(amounts) == 1 && request.IsCache(a.Resource):
		return "for at least " + Count(int(a.Value), "CPU")
	case len(amounts) == 1 && (a.Value == 1 || request.IsMemory(a.Resource)):
		return "at least " + missingWord(a) + " more is needed"
	}
	return "at least " + missingWords(amounts) + " more are needed"
}

// freeMemory prints the free memory of the types that are missing in addition to the resource of
// the rejection.
func (w *explanation) freeMemory(all []explain.FreeMemory) {
	for _, f := range all {
		parts := make([]string, len(f.Places))
		for i, p := range f.Places {
			parts[i] = fmt.Sprintf("%s of %s on %s", asAsked(f.Resource, p.Free), asAsked(f.Resource, p.Total), mask.Of(p.NUMANode).Text())
		}
		w.sentence(terminal.Faint.Of(f.Resource+" free:"), terminal.Plain.Of(strings.Join(parts, ", ")))
	}
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
	if len(m.WithoutCPUs) > 0 {
		rows = append(rows, []terminal.Cell{{Text: mask.Of(m.WithoutCPUs...).List()}, {Text: wantedWord(m.Wanted[0]) + ": there are none"}})
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
