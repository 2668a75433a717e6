package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Explanation is the answer about one pod with its reasons. `paddock explain` prints it.
type Explanation struct {
	Machine string `json:"machine,omitempty"`
	Policy  string `json:"policy,omitempty"`
	// Kubelet is the kubelet that decides, such as "kubelet-1.36.4". If empty, Paddock decides.
	Kubelet string `json:"kubelet,omitempty"`
	// Repair describes the repair that must come first. It is nil if the kubelet starts again, or
	// if that is unknown.
	Repair *Repair `json:"repair,omitempty"`
	// Standing has sentences about a pod on a running node that the answer does not cover, such as
	// the time of its admission, or an earlier decision.
	Standing []string `json:"standing,omitempty"`
	// Now describes what a pod has that is on the node, or that it has ended. The answer is then
	// about a new pod like it.
	Now string `json:"now,omitempty"`
	// PodStatus is the status of a pod in the cluster. It is nil for a pod from a manifest.
	PodStatus *PodStatus `json:"podStatus,omitempty"`
	// Answer is what the pod gets, or the reason why it gets nothing.
	Answer PlanPod          `json:"answer"`
	Why    explain.Decision `json:"why"`
	// Devices are the devices of the pod, or those that other components chose for it.
	Devices []explain.ContainerDevice `json:"devices,omitempty"`
	// Missing describes what a rejected pod lacks on each NUMA node, or on the whole node. It is
	// absent if the pod was rejected before its resources were compared, by a fault of the kubelet,
	// or because the node counts what the pod itself has.
	Missing *explain.Missing `json:"missing,omitempty"`
	// FreeMemory lists the free memory of the types that a rejected pod lacks in addition to the
	// resource of the rejection, if no resource is missing alone anywhere.
	FreeMemory []explain.FreeMemory `json:"freeMemory,omitempty"`
	// FreeDevices counts the devices of the extended resources that a rejected pod asks for.
	FreeDevices []explain.DeviceCount `json:"freeDevices,omitempty"`
	// Remedies are changes that would admit a rejected pod.
	Remedies *explain.Remedies `json:"remedies,omitempty"`
	// Spread is set for a pod that is on more sockets than it needs.
	Spread *explain.Spread `json:"spread,omitempty"`
}

// ExplanationOf returns the explanation of a plan. s is the node before the plan. remedies is nil
// for a pod that was admitted.
func ExplanationOf(s *node.State, p *node.Plan, remedies *explain.Remedies) Explanation {
	e := Explanation{Answer: PodOf(p, s), Why: explain.Of(s, p), Devices: explain.ContainerDevices(s, p), FreeDevices: explain.FreeDevices(s, p), Remedies: remedies, Spread: explain.SpreadOf(s, p)}
	if p.Rejection != nil {
		e.Missing = explain.MissingOf(s, p)
		e.FreeMemory = explain.FreeMemoryOf(s, p, e.Missing)
	}
	return e
}

// HasOn describes what a pod has on a node: "CPUs 1-4 and 16 GiB of memory on NUMA node 0".
func HasOn(s *node.State, g *node.Grant) string {
	var parts []string
	var on mask.Mask
	if cpus := g.CPUs(); !cpus.IsEmpty() {
		parts = append(parts, "CPUs "+cpus.String())
		on |= s.Machine().NodesOf(cpus)
	}
	for _, b := range g.Charged() {
		parts = append(parts, request.RoundedBytes(b.Size)+" of "+b.Type)
		on |= b.Nodes
	}
	if len(parts) == 0 {
		return "no CPUs and no memory of its own"
	}
	return strings.Join(parts, " and ") + " on " + Plural(on.Len(), "NUMA node") + " " + on.List() + hasOfCaches(g)
}

// maxNearest is how many reasons why sets lost, and how many sets for each reason, are printed,
// unless the caller requests all of them.
const maxNearest = 3

// Text formats the explanation for people: the answer, what would change it, and then how it was
// reached. If verbose is set, it leaves nothing out.
func (e Explanation) Text(style terminal.Style, verbose bool) string {
	w := explanation{style: style, verbose: verbose, kubelet: e.Kubelet}
	if e.Machine != "" {
		w.out.WriteString(head(style, e.Machine, e.Policy, e.Kubelet, e.Answer.Certainty) + "\n")
	}
	if e.Now != "" {
		w.paragraph("", "  ", terminal.Strong.Of(e.Answer.Pod), terminal.Plain.Of(e.Now))
		w.out.WriteByte('\n')
	}
	if e.Repair != nil {
		w.repair(e.Answer.Pod, e.Repair)
	}
	w.certainty(e.Answer.Pod, e.Answer.Certainty)
	w.answer(e.Answer, e.PodStatus, e.Missing)
	if r := e.Answer.Rejection; r != nil {
		w.freeMemory(e.FreeMemory)
		w.freeDevices(r, e.FreeDevices)
	}
	if e.PodStatus != nil {
		w.remarks(e.PodStatus)
	}
	if e.PodStatus == nil || !e.PodStatus.Rejected {
		w.aligned(e.Answer.Aligned)
	}
	if e.PodStatus != nil {
		w.podStatus(e.PodStatus)
	}
	if e.PodStatus != nil && e.PodStatus.Rejected { // What was recorded comes before what would be.
		w.aligned(e.Answer.Aligned)
	}
	for _, sentence := range e.Standing {
		w.sentence(terminal.Plain.Of(sentence))
	}
	if e.Remedies != nil {
		w.remedies(*e.Remedies)
	}
	w.decision(e)
	for _, note := range e.Answer.Notes {
		w.out.WriteByte('\n')
		w.paragraph("", "  ", terminal.Warn.Of("note"), terminal.Plain.Of(note))
	}
	return w.out.String()
}

// decision prints the steps of the decision.
func (w *explanation) decision(e Explanation) {
	if e.Spread != nil {
		w.heading("Sockets", e.Spread.Sentence()+"; this was planned")
		w.table([][]terminal.Cell{{terminal.Plain.Of(e.Spread.Text), terminal.Good.Of(e.Spread.Outcome)}})
	}
	w.missing(e.Missing)
	w.devices(e.Answer.Admitted, e.Devices)
	w.asks(e.Why.Asks)
	w.divisions(e.Why.Divisions)
	for _, a := range e.Why.Alignments {
		w.alignment(a)
	}
	w.picks(e.Answer.Admitted, e.Why.Picks)
	if w.verbose {
		w.quota(e.Why.Quota)
	}
}

// explanation is a text under construction. If record is set, it keeps its sections, too.
type explanation struct {
	out      strings.Builder
	style    terminal.Style
	verbose  bool
	record   bool
	kubelet  string // that decides, or empty if Paddock does
	sections []Section
}

// ruled returns a sentence. It adds the ids of the rules only if verbose is set, because they mean
// nothing to most readers.
func ruled(text, rule string, verbose bool) string {
	if !verbose {
		return text
	}
	return node.Why{Text: text, Rule: rule}.WithRule()
}

func (w *explanation) ruled(text, rule string) string { return ruled(text, rule, w.verbose) }

// paragraph prints a paragraph; see terminal.Style.
func (w *explanation) paragraph(first, rest string, texts ...terminal.Cell) {
	w.out.WriteString(w.style.Paragraph(first, rest, texts...))
}

// sentence prints a sentence below the heading or the answer.
func (w *explanation) sentence(texts ...terminal.Cell) {
	w.recorded(Block{Sentence: words(texts)})
	w.paragraph("  ", "    ", texts...)
}

func (w *explanation) heading(title, about string) {
	if w.record {
		w.sections = append(w.sections, Section{Title: title, About: about, Blocks: []Block{}})
	}
	if about != "" {
		title += ":"
	}
	w.out.WriteByte('\n')
	w.paragraph("", "  ", terminal.Strong.Of(title), terminal.Faint.Of(about))
}

func (w *explanation) table(rows [][]terminal.Cell) {
	if w.record && len(rows) > 0 {
		b := Block{}
		for _, row := range rows {
			b.Table = append(b.Table, words(row))
		}
		w.recorded(b)
	}
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	t := terminal.Table{Columns: make([]terminal.Column, width)}
	for _, row := range rows {
		row = slices.Clone(row)
		row[0].Text = "  " + row[0].Text
		t.Cells(row...)
	}
	w.out.WriteString(t.Text(w.style))
}

// answer prints the answer about a pod. If a rejected pod fits now, that answer does not admit it,
// so the wording differs. status may be nil.
func (w *explanation) answer(p PlanPod, status *PodStatus, missing *explain.Missing) {
	if p.Rejection != nil {
		pending := status != nil && status.Phase == "Pending"
		w.out.WriteString((&rejected{pods: []string{p.Pod}, PlanRejection: p.Rejection, pending: pending, lacks: lacksSentence(missing)}).text(w.style, w.verbose))
		return
	}
	if p.Resize != nil {
		w.out.WriteString(p.resizeText(w.style))
		return
	}
	word, tone := "admitted", terminal.Good
	if !p.Admitted { // It fits, but was not admitted for a reason other than a decision.
		word, tone = "not admitted", terminal.Bad
	}
	if p.Admitted && status != nil && status.Rejected {
		word, tone = "would be admitted now:", terminal.Warn
		if p.Certainty.IsUnsure() {
			word = "could be admitted now:"
		}
	}
	w.out.WriteString(w.style.Paragraph("", "  ", tone.Of(word), terminal.Strong.Of(p.Pod)))
}

func (w *explanation) remedies(r explain.Remedies) {
	w.heading("Changes that would admit it", "each one was verified by planning it")
	if len(r.Proposals) == 0 {
		w.sentence(terminal.Plain.Of("nothing that was tried"))
	}
	var rows [][]terminal.Cell
	var assumed []string
	for _, p := range r.Proposals {
		rows = append(rows, []terminal.Cell{{Text: p.Text}, terminal.Good.Of(p.Outcome)})
		if p.Assumed != "" && !slices.Contains(assumed, p.Assumed) {
			assumed = append(assumed, p.Assumed)
		}
	}
	w.table(rows)
	if w.kubelet != "" {
		w.settings(r)
	}
	for _, text := range assumed {
		w.sentence(terminal.Warn.Of("assumed on the other nodes:"), terminal.Plain.Of(text))
	}
	w.sentence(terminal.Faint.Of("tried, in " + Count(r.Plans(), "plan") + ":"))
	rows = nil
	for _, t := range r.Tried {
		rows = append(rows, []terminal.Cell{terminal.Faint.Of("  " + t.What + ":"), terminal.Faint.Of(w.ruled(t.Found, t.Rule))})
	}
	w.table(rows)
}

// settings describes how to change a setting of a kubelet that decides.
func (w *explanation) settings(r explain.Remedies) {
	var changed []explain.Setting
	for _, p := range r.Proposals {
		changed = append(changed, p.Settings...)
	}
	if len(changed) == 0 {
		return
	}
	text := "applies to all pods of the node, from the next start of its kubelet on: run \"paddock upgrade-check --to " +
		strings.TrimPrefix(w.kubelet, "kubelet-") + " --kubelet-config FILE\" first"
	if slices.ContainsFunc(changed, func(s explain.Setting) bool { return s.Field == "memoryManagerPolicy" }) {
		text += ". With another memoryManagerPolicy, the kubelet does not start until the node is drained and memory_manager_state deleted"
	}
	w.sentence(terminal.Warn.Of("a changed setting"), terminal.Plain.Of(text))
}

func (w *explanation) asks(a explain.Asks) {
	if a.QoS == "" {
		return // The pod was rejected before its request was read, such as with OutOfcpu.
	}
	w.heading("Asks", a.QoS+", "+a.Kind+"; "+w.ruled(a.Way, a.Rule))
	var rows [][]terminal.Cell
	for _, c := range a.Containers {
		cpus := "shares CPUs"
		if c.CPUs > 0 {
			cpus = Count(c.CPUs, "CPU")
		}
		if c.CPUs == 0 || w.verbose {
			cpus += ": " + w.ruled(c.WhyCPUs, c.RuleCPUs)
		}
		memory := amountsText(c.Memory)
		switch {
		case memory == "":
			memory = "memory not pinned"
		default:
			memory += " pinned"
		}
		if w.verbose {
			memory += ": " + w.ruled(c.WhyMemory, c.RuleMemory)
		}
		rows = append(rows, []terminal.Cell{{Text: c.Container}, terminal.Faint.Of(c.Kind), {Text: cpus}, {Text: memory}, {Text: amountsText(append(slices.Clip(c.Devices), c.Cache...))}})
	}
	rows = append(rows, poolCacheRow(a.PoolCache)...)
	if len(a.Together) > 0 {
		rows = append(rows, []terminal.Cell{terminal.Strong.Of("together"), {}, {Text: amountsText(a.Together)}, terminal.Faint.Of(w.ruled(a.WhyTogether, a.RuleTogether))})
	}
	w.table(rows)
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
	var rows [][]terminal.Cell
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
		rows = append(rows, []terminal.Cell{{Text: explain.Amount{Resource: d.Resource, Value: d.Budget}.Text()}, {Text: text}, w.rest(d)})
	}
	w.table(rows)
}

func (w *explanation) rest(d explain.Division) terminal.Cell {
	var sharing []string
	for _, p := range d.Pieces {
		if p.Part == "rest" {
			sharing = append(sharing, p.Container)
		}
	}
	switch {
	case d.Wrong != "":
		return terminal.Bad.Of("wrong: " + w.ruled(d.Wrong, d.Rule))
	case d.Idle:
		return terminal.Warn.Of(w.ruled(fmt.Sprintf("rest: %s, of no use once init containers have ended", number(d.Resource, d.Rest)), "R-DEM-66"))
	case len(sharing) == 0:
		return terminal.Cell{Text: "nothing is left"}
	}
	return terminal.Cell{Text: fmt.Sprintf("rest: %s, shared by %s", number(d.Resource, d.Rest), strings.Join(sharing, ", "))}
}

func (w *explanation) alignment(a explain.Alignment) {
	who := "the pod"
	if a.Container != "" {
		who = "container " + a.Container
	}
	w.heading("Align", who)
	var rows [][]terminal.Cell
	for _, f := range a.Fits {
		preferred := ""
		if f.Preferred > 0 {
			preferred = "prefers " + Count(f.Preferred, "NUMA node")
		}
		text := f.Sets
		if f.Size > 0 {
			text = "fits on " + f.Sets
		}
		wanted := amountsText(f.Wanted)
		if wanted == "" {
			wanted = f.Resource
		}
		rows = append(rows, []terminal.Cell{{Text: wanted}, terminal.Faint.Of(preferred), {Text: w.ruled(text, f.Rule)}})
	}
	w.table(rows)
	switch {
	case !a.Admitted:
		w.sentence(terminal.Bad.Of("none:"), terminal.Plain.Of(w.ruled(a.Why, a.Rule)))
	default:
		chosen := "all"
		if a.NUMANodes != nil {
			chosen = nodeList(a.NUMANodes)
		}
		tone := terminal.Good
		if !a.Preferred {
			tone = terminal.Warn
		}
		w.sentence(tone.Of("NUMA "+chosen+":"), terminal.Plain.Of(w.ruled(a.Why, a.Rule)))
	}
	w.losers(a.Losers)
}

// losers prints the sets that lost, the nearest first. Sets with the same reason share a line.
func (w *explanation) losers(losers []explain.Loser) {
	var whys []string
	sets := map[string][]string{}
	for _, l := range losers {
		why := w.ruled(l.Why, l.Rule)
		if sets[why] == nil {
			whys = append(whys, why)
		}
		sets[why] = append(sets[why], mask.Of(l.NUMANodes...).String())
	}
	var rows [][]terminal.Cell
	for i, why := range whys {
		list := sets[why]
		if !w.verbose && i == maxNearest && len(whys) > maxNearest+1 { // One more reason takes no more lines than its number.
			w.table(rows)
			w.sentence(terminal.Faint.Of("and " + Count(len(whys)-i, "reason") + " more (-v)"))
			return
		}
		text := strings.Join(list, ", ")
		if few := maxNearest; !w.verbose && len(list) > few {
			text = fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
		}
		rows = append(rows, []terminal.Cell{terminal.Faint.Of("not " + text), terminal.Faint.Of(why)})
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
	var rows [][]terminal.Cell
	for _, p := range picks {
		who := p.Container
		if who == "" {
			who = "pool"
		}
		if p.CPUs != "" {
			text := "CPUs " + cpuText(p.CPUs, w.verbose) + " on NUMA " + nodeList(p.NUMANodes) + ": " + p.Shape
			rows = append(rows, []terminal.Cell{{Text: who}, {Text: text}, terminal.Faint.Of(w.ruled(p.WhyCPUs, p.RuleCPUs))})
			who = ""
		}
		if len(p.MemoryNUMANodes) > 0 {
			text := "memory"
			if len(p.Memory) > 0 {
				text = amountsText(p.Memory)
			}
			rows = append(rows, []terminal.Cell{{Text: who}, {Text: text + " on NUMA " + nodeList(p.MemoryNUMANodes)}, terminal.Faint.Of(w.ruled(p.WhyMemory, p.RuleMemory))})
			who = ""
		}
		if len(p.Devices) > 0 {
			rows = append(rows, []terminal.Cell{{Text: who}, {Text: pickedText(p.Devices)}, terminal.Faint.Of("what init containers left first, then the nearest to where it was aligned")})
			who = ""
		}
		if p.Cache != "" {
			rows = append(rows, []terminal.Cell{{Text: who}, {Text: p.Cache}, terminal.Faint.Of(w.ruled(p.WhyCache, p.RuleCache))})
		}
	}
	w.table(rows)
}

func (w *explanation) quota(all []explain.Quota) {
	if len(all) == 0 {
		return
	}
	w.heading("Quota", "what limits CPU time (CFS)")
	var rows [][]terminal.Cell
	for _, q := range all {
		who, limit := q.Container, "none"
		if who == "" {
			who = "the pod"
		}
		if q.Milli > 0 {
			limit = milliCPUs(q.Milli) + " CPUs"
		}
		rows = append(rows, []terminal.Cell{{Text: who}, {Text: limit}, terminal.Faint.Of(w.ruled(q.Why, q.Rule))})
	}
	w.table(rows)
}

// pickedText formats devices by resource: "nvidia.com/gpu gpu0,gpu1".
func pickedText(devices map[string][]string) string {
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(devices)) {
		parts = append(parts, resource+" "+strings.Join(devices[resource], ","))
	}
	return strings.Join(parts, "; ")
}
