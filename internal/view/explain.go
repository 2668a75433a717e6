package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Explanation is the answer to one pod with its reasons: what `paddock explain` prints.
type Explanation struct {
	Machine string `json:"machine,omitempty"`
	Policy  string `json:"policy,omitempty"`
	// Standing says, in sentences, how the pod stands on a node that runs, where the answer is not all
	// of it: since when, or what was decided at another time.
	Standing []string `json:"standing,omitempty"`
	// Answer is what the pod gets, or why it gets nothing.
	Answer PlanPod          `json:"answer"`
	Why    explain.Decision `json:"why"`
	// Remedies are what would admit a pod that is refused.
	Remedies *explain.Remedies `json:"remedies,omitempty"`
}

// ExplanationOf makes the document: s is the node before the plan. Remedies is nil for a pod that
// was admitted.
func ExplanationOf(s *node.State, p *node.Plan, remedies *explain.Remedies) Explanation {
	return Explanation{Answer: planPod(p, s), Why: explain.Of(s, p), Remedies: remedies}
}

// AccountOf is the document of a rejection of which nothing is known but the reason with the account.
func AccountOf(pod request.Pod, r *node.Refusal) Explanation {
	return Explanation{Answer: PlanPod{
		Pod: pod.ID(), UID: pod.UID, QoS: pod.QoS.String(), Estimated: pod.Estimated, Refusal: planRefusal(r),
	}}
}

// maxNearest is how many reasons why sets lost, and how many sets of each, are shown if not all are
// asked for.
const maxNearest = 3

// Text prints the explanation for people: the answer and what would change it, then the way to it.
// Verbose leaves nothing out.
func (e Explanation) Text(style Style, verbose bool) string {
	w := explanation{style: style, verbose: verbose}
	if e.Machine != "" {
		w.line("%s %s", style.Paint(Faint, "Machine"), style.Paint(Plain, e.Machine))
		w.line("%s  %s\n", style.Paint(Faint, "Policy"), style.Paint(Plain, e.Policy))
	}
	w.answer(e.Answer)
	for _, sentence := range e.Standing {
		w.line("  %s", style.Paint(Plain, sentence))
	}
	if e.Remedies != nil {
		w.remedies(*e.Remedies)
	}
	w.asks(e.Why.Asks)
	w.divisions(e.Why.Divisions)
	for _, a := range e.Why.Alignments {
		w.alignment(a)
	}
	w.picks(e.Answer.Admitted, e.Why.Picks)
	if verbose {
		w.quota(e.Why.Quota)
	}
	for _, note := range e.Answer.Notes {
		w.line("\n%s %s", style.Paint(Warn, "note"), style.Paint(Plain, note))
	}
	return w.out.String()
}

// explanation is text in the making.
type explanation struct {
	out     strings.Builder
	style   Style
	verbose bool
}

func (w *explanation) line(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func (w *explanation) heading(title, about string) {
	if about != "" {
		title += ":"
	}
	w.line("\n%s%s", w.style.Paint(Strong, title), space(w.style.Paint(Faint, about)))
}

func (w *explanation) table(rows [][]Cell) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	t := Table{Columns: make([]Column, width)}
	for _, row := range rows {
		row[0].Text = "  " + row[0].Text
		t.Cells(row...)
	}
	w.out.WriteString(t.Text(w.style))
}

func (w *explanation) answer(p PlanPod) {
	if p.Refusal != nil {
		w.out.WriteString(p.refusal(w.style))
		return
	}
	word, tone := "admitted", Good
	if !p.Admitted { // It fits, and could not be admitted for a reason that is no decision's.
		word, tone = "not admitted", Bad
	}
	w.line("%s %s", w.style.Paint(tone, word), w.style.Paint(Strong, p.Pod))
}

func (w *explanation) remedies(r explain.Remedies) {
	w.heading("What would admit it", "each was planned")
	if len(r.Proposals) == 0 {
		w.line("  nothing that was tried")
	}
	var rows [][]Cell
	for _, p := range r.Proposals {
		rows = append(rows, []Cell{{Text: p.Text}, {p.Outcome, Good}})
	}
	w.table(rows)
	w.line("  %s", w.style.Paint(Faint, fmt.Sprintf("tried, in %d plans:", r.Plans())))
	rows = nil
	for _, t := range r.Tried {
		rows = append(rows, []Cell{{"  " + t.What + ":", Faint}, {t.Found, Faint}})
	}
	w.table(rows)
}

func (w *explanation) asks(a explain.Asks) {
	w.heading("Asks", a.QoS+", "+a.Kind+"; "+a.Way)
	var rows [][]Cell
	for _, c := range a.Containers {
		cpus := "shares CPUs"
		if c.CPUs > 0 {
			cpus = count(c.CPUs, "CPU")
		}
		if c.CPUs == 0 || w.verbose {
			cpus += ": " + c.WhyCPUs
		}
		memory := amountsText(c.Memory)
		switch {
		case memory == "":
			memory = "memory not pinned"
		default:
			memory += " pinned"
		}
		if w.verbose {
			memory += ": " + c.WhyMemory
		}
		rows = append(rows, []Cell{{Text: c.Container}, {c.Kind, Faint}, {Text: cpus}, {Text: memory}, {Text: amountsText(c.Devices)}})
	}
	if len(a.Together) > 0 {
		rows = append(rows, []Cell{{"together", Strong}, {}, {Text: amountsText(a.Together)}, {a.WhyTogether, Faint}})
	}
	w.table(rows)
}

func space(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

func amountsText(amounts []explain.Amount) string {
	parts := make([]string, len(amounts))
	for i, a := range amounts {
		parts[i] = a.Text()
	}
	return strings.Join(parts, " + ")
}

func (w *explanation) divisions(all []explain.Division) {
	if len(all) == 0 {
		return
	}
	w.heading("Pool", "the arithmetic of the pod-level budget")
	var rows [][]Cell
	for _, d := range all {
		var parts []string
		for _, p := range d.Pieces {
			if p.Part == "slice" && p.Amount > 0 {
				parts = append(parts, fmt.Sprintf("%s %s", p.Container, number(d.Resource, p.Amount)))
			}
		}
		text := "no slices"
		if len(parts) > 0 {
			text = "slices: " + strings.Join(parts, ", ")
		}
		rows = append(rows, []Cell{{Text: explain.Amount{Resource: d.Resource, Value: d.Budget}.Text()}, {Text: text}, w.rest(d)})
	}
	w.table(rows)
}

func (w *explanation) rest(d explain.Division) Cell {
	var sharing []string
	for _, p := range d.Pieces {
		if p.Part == "rest" {
			sharing = append(sharing, p.Container)
		}
	}
	switch {
	case d.Wrong != "":
		return Cell{"wrong: " + d.Wrong, Bad}
	case d.Idle:
		return Cell{fmt.Sprintf("rest: %s, of no use once init containers have ended (R-DEM-66)", number(d.Resource, d.Rest)), Warn}
	case len(sharing) == 0:
		return Cell{Text: "nothing is left"}
	}
	return Cell{Text: fmt.Sprintf("rest: %s, shared by %s", number(d.Resource, d.Rest), strings.Join(sharing, ", "))}
}

func (w *explanation) alignment(a explain.Alignment) {
	who := "the pod"
	if a.Container != "" {
		who = "container " + a.Container
	}
	w.heading("Align", who)
	var rows [][]Cell
	for _, f := range a.Fits {
		preferred := ""
		if f.Preferred > 0 {
			preferred = "prefers " + count(f.Preferred, "NUMA node")
		}
		text := f.Sets
		if f.Size > 0 {
			text = "fits on " + f.Sets
		}
		wanted := amountsText(f.Wanted)
		if wanted == "" {
			wanted = f.Resource
		}
		rows = append(rows, []Cell{{Text: wanted}, {preferred, Faint}, {Text: text}})
	}
	w.table(rows)
	switch {
	case !a.Admitted:
		w.line("  %s %s", w.style.Paint(Bad, "none:"), w.style.Paint(Plain, a.Why))
	default:
		chosen := "all"
		if a.NUMANodes != nil {
			chosen = nodeList(a.NUMANodes)
		}
		tone := Good
		if !a.Preferred {
			tone = Warn
		}
		w.line("  %s %s", w.style.Paint(tone, "NUMA "+chosen+":"), w.style.Paint(Plain, a.Why))
	}
	w.losers(a.Losers)
}

// losers shows sets that lost for the same reason in one line, the nearest first.
func (w *explanation) losers(losers []explain.Loser) {
	var whys []string
	sets := map[string][]string{}
	for _, l := range losers {
		if sets[l.Why] == nil {
			whys = append(whys, l.Why)
		}
		sets[l.Why] = append(sets[l.Why], mask.Of(l.NUMANodes...).String())
	}
	var rows [][]Cell
	for i, why := range whys {
		list := sets[why]
		if !w.verbose && i == maxNearest {
			w.table(rows)
			w.line("  %s", w.style.Paint(Faint, "and "+count(len(whys)-i, "reason")+" more (-v)"))
			return
		}
		text := strings.Join(list, ", ")
		if few := maxNearest; !w.verbose && len(list) > few {
			text = fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
		}
		rows = append(rows, []Cell{{"not " + text, Faint}, {why, Faint}})
	}
	w.table(rows)
}

func (w *explanation) picks(admitted bool, picks []explain.Pick) {
	if len(picks) == 0 {
		return
	}
	about := ""
	if !admitted {
		about = "before the rejection; nothing of it is assigned"
	}
	w.heading("Picks", about)
	var rows [][]Cell
	for _, p := range picks {
		who := p.Container
		if who == "" {
			who = "pool"
		}
		if p.CPUs != "" {
			text := "CPUs " + cpuText(p.CPUs, w.verbose) + " on NUMA " + nodeList(p.NUMANodes) + ": " + p.Shape
			rows = append(rows, []Cell{{Text: who}, {Text: text}, {p.WhyCPUs, Faint}})
			who = ""
		}
		if len(p.MemoryNUMANodes) > 0 {
			text := "memory"
			if len(p.Memory) > 0 {
				text = amountsText(p.Memory)
			}
			rows = append(rows, []Cell{{Text: who}, {Text: text + " on NUMA " + nodeList(p.MemoryNUMANodes)}, {p.WhyMemory, Faint}})
			who = ""
		}
		if len(p.Devices) > 0 {
			rows = append(rows, []Cell{{Text: who}, {Text: devicesText(p.Devices)}, {"what init containers left first, then the nearest to where it was aligned", Faint}})
		}
	}
	w.table(rows)
}

func (w *explanation) quota(all []explain.Quota) {
	if len(all) == 0 {
		return
	}
	w.heading("Quota", "what limits CPU time (CFS)")
	var rows [][]Cell
	for _, q := range all {
		who, limit := q.Container, "none"
		if who == "" {
			who = "the pod"
		}
		if q.Milli > 0 {
			limit = milliCPUs(q.Milli) + " CPUs"
		}
		rows = append(rows, []Cell{{Text: who}, {Text: limit}, {q.Why, Faint}})
	}
	w.table(rows)
}

// Report is how a node is used: what `paddock report` prints.
type Report struct {
	Machine string         `json:"machine"`
	Policy  string         `json:"policy"`
	Usage   explain.Report `json:"usage"`
}

// Text prints the report for people.
func (r Report) Text(style Style) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", style.Paint(Faint, "Machine"), style.Paint(Plain, r.Machine))
	fmt.Fprintf(&out, "%s  %s\n", style.Paint(Faint, "Policy"), style.Paint(Plain, r.Policy))
	if r.Usage.ManagesCPUs {
		out.WriteString("\n" + r.cpus().Text(style))
	}
	if r.Usage.ManagesMemory {
		out.WriteString("\n" + r.memory().Text(style))
	}
	for _, n := range r.Usage.Nodes {
		if n.Lost != "" {
			fmt.Fprintf(&out, "%s NUMA node %d: %s\n", style.Paint(Warn, "lost to alignment"), n.Node, lostText(n))
		}
	}
	for _, i := range r.Usage.Idle {
		fmt.Fprintf(&out, "%s %s: %s\n", style.Paint(Warn, "idle in the pool"), style.Paint(Strong, i.Pod), idleText(i))
	}
	if r.Usage.ManagesCPUs || r.Usage.ManagesMemory {
		fmt.Fprintf(&out, "\n%s\n%s", style.Paint(Strong, "The largest pod of one container that would be admitted now, by topology policy"), r.largest().Text(style))
	}
	return out.String()
}

func lostText(n explain.NodeReport) string {
	var parts []string
	if n.LostCPUs > 0 {
		parts = append(parts, count(n.LostCPUs, "CPU"))
	}
	if n.LostMemory > 0 {
		parts = append(parts, request.RoundedBytes(n.LostMemory))
	}
	return strings.Join(parts, " and ") + ": " + n.Lost
}

func idleText(i explain.Idle) string {
	var parts []string
	if i.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d of its pool's %d CPUs (%s)", i.Count, i.Pool, cpuText(i.CPUs, false)))
	}
	for _, m := range i.Memory {
		parts = append(parts, m.Text())
	}
	return strings.Join(parts, " and ") + ": no container shares the pool's rest (KEP-5526, Underutilization); lower the pod-level request"
}

func (r Report) cpus() *Table {
	t := &Table{Columns: []Column{{Title: "NUMA NODE", Align: Right}}}
	for _, title := range []string{"CPUS", "EXCLUSIVE", "POOLED", "IDLE IN POOLS", "RESERVED", "FREE", "SHARED POOL"} {
		t.Columns = append(t.Columns, Column{Title: title, Align: Right})
	}
	var sum explain.CPUReport
	row := func(name string, c explain.CPUReport) {
		cells := []string{name}
		for _, n := range []int{c.Total, c.Exclusive, c.Pooled, c.Idle, c.Reserved, c.Free, c.Shared} {
			cells = append(cells, strconv.Itoa(n))
		}
		t.Row(cells...)
	}
	for _, n := range r.Usage.Nodes {
		if c := n.CPUs; c.Total > 0 {
			row(strconv.Itoa(n.Node), c)
			sum = explain.CPUReport{
				Total: sum.Total + c.Total, Exclusive: sum.Exclusive + c.Exclusive, Pooled: sum.Pooled + c.Pooled, Idle: sum.Idle + c.Idle,
				Reserved: sum.Reserved + c.Reserved, Free: sum.Free + c.Free, Shared: sum.Shared + c.Shared,
			}
		}
	}
	row("all", sum)
	return t
}

func (r Report) memory() *Table {
	t := &Table{Columns: []Column{
		{Title: "NUMA NODE", Align: Right},
		{Title: "TYPE"},
		{Title: "TOTAL", Align: Right},
		{Title: "EXCLUSIVE", Align: Right},
		{Title: "POOLED", Align: Right},
		{Title: "RESERVED", Align: Right},
		{Title: "FREE", Align: Right},
		{Title: "GROUP"},
	}}
	for _, n := range r.Usage.Nodes {
		for _, m := range n.Memory {
			group := ""
			if len(m.Group) > 0 {
				group = nodeList(m.Group)
			}
			t.Row(strconv.Itoa(n.Node), m.Type, request.RoundedBytes(m.Total), request.RoundedBytes(m.Exclusive), request.RoundedBytes(m.Pooled), request.RoundedBytes(m.Reserved), request.RoundedBytes(m.Free), group)
		}
	}
	return t
}

func (r Report) largest() *Table {
	t := &Table{Columns: []Column{
		{Title: "POLICY"},
		{Title: "MOST CPUS", Align: Right},
		{Title: "WITH AT LEAST", Align: Right},
		{Title: "LOST", Align: Right},
		{Title: "MOST MEMORY, NO CPUS", Align: Right},
		{Title: "LOST", Align: Right},
		{Title: "IN PROPORTION", Align: Right},
		{Title: "LOST", Align: Right},
		{Title: ""},
	}}
	for _, l := range r.Usage.Largest {
		name := Cell{Text: l.Policy}
		if l.Now {
			name = Cell{l.Policy + " (now)", Strong}
		}
		if l.Wrong != "" {
			t.Cells(name, Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{l.Wrong, Faint})
			continue
		}
		least, share := "", ""
		if l.Memory > 0 {
			least = request.RoundedBytes(l.Memory)
		}
		if r.Usage.ManagesMemory && r.Usage.ManagesCPUs {
			share = fmt.Sprintf("%d CPUs, %s", l.Share, request.RoundedBytes(l.ShareBytes))
		}
		cells := []Cell{name, {Text: strconv.Itoa(l.CPUs)}, {Text: least}, {lostCount(l.LostCPUs, request.CPU), Warn}}
		if r.Usage.ManagesMemory {
			cells = append(cells, Cell{Text: request.RoundedBytes(l.Bytes)}, Cell{lostCount(int(l.LostBytes), "memory"), Warn}, Cell{Text: share}, Cell{lostCount(l.LostShare, request.CPU), Warn})
		}
		t.Cells(cells...)
	}
	return t
}

func lostCount(n int, resource string) string {
	if n <= 0 {
		return ""
	}
	return number(resource, int64(n))
}
