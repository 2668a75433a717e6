package view

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
)

// Trial is an answer with changed settings.
type Trial struct {
	Nodes string `json:"nodes"` // the file of nodes
	// Now marks the nodes as they are. If they have several policies or scopes, Policy and Scope
	// list them.
	Now    bool   `json:"now"`
	Policy string `json:"policy"`
	Scope  string `json:"scope"`
	// Option is the option that was changed, such as "full-pcpus-only=true".
	Option  string `json:"option,omitempty"`
	Scoring string `json:"scoring"`
	Order   string `json:"order,omitempty"` // in which the pods were placed: given, largest-first or drawn
	// Best marks the best trial: the one with the fewest pods that no node would ever take, then
	// with the most CPU time of aligned pods, then with the most CPU time of placed pods, and then
	// the first.
	Best bool `json:"best"`
	// Interrupted is set for all trials of a comparison that was interrupted, and describes how far
	// it got. Best is then the best trial so far.
	Interrupted string `json:"interrupted,omitempty"`
	// Wrong describes why a kubelet would not start with these settings.
	Wrong string        `json:"wrong,omitempty"`
	Pods  *FleetPods    `json:"pods,omitempty"`
	CPUs  *FleetAllCPUs `json:"cpus,omitempty"`
}

// TrialsOf returns the trials of one file of nodes.
func TrialsOf(nodes string, trials []capacity.Trial) []Trial {
	var out []Trial
	for _, t := range trials {
		v := Trial{Nodes: nodes, Policy: t.Policy.String(), Scope: t.Scope.String(), Option: t.Option, Scoring: t.Scoring.String(), Wrong: t.Wrong}
		if v.Now = t.Now != nil; v.Now {
			v.Policy, v.Scope = listed(t.Now, func(s capacity.Setting) string { return s.Policy.String() }), listed(t.Now, func(s capacity.Setting) string { return s.Scope.String() })
		}
		if r := t.Result; r != nil {
			cpus := allCPUs(r)
			v.Order = string(r.Order)
			v.Pods, v.CPUs = PodsOf(r), &cpus
		}
		out = append(out, v)
	}
	return out
}

// listed lists the values of settings, each once.
func listed(settings []capacity.Setting, value func(capacity.Setting) string) string {
	var all []string
	for _, s := range settings {
		if v := value(s); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return strings.Join(all, " and ")
}

// MarkBest marks the trial that is best by the rule of capacity.Best, if there is one.
func MarkBest(trials []Trial) {
	best := -1
	for i, t := range trials {
		if t.Pods != nil && t.score().Aligns() && (best < 0 || t.score().Better(trials[best].score())) {
			best = i
		}
	}
	if best >= 0 {
		trials[best].Best = true
	}
}

func (t *Trial) score() capacity.Score {
	return capacity.Score{Never: t.Pods.Never, Aligned: t.CPUs.Aligned, Placed: t.CPUs.Placed}
}

// trialRow is a row of the table of trials. It shows several trials of the same nodes with the same
// result if they are all combinations of its settings.
type trialRow struct {
	of *Trial
	// settings has the values of the policy, the scope, the option and the scoring.
	settings [4][]string
	best     bool
	// idle are trials that differ from one of the row in an option that changes nothing.
	idle []*Trial
	// also are rows with the same result that are not combinations of the settings of this one.
	also []trialRow
}

func rowsOf(trials []Trial) []trialRow {
	var rows []trialRow
	idle := map[*Trial][]*Trial{} // by the trial without the option
	for i := range trials {
		t := &trials[i]
		if base := t.withoutOption(trials[:i]); base != nil {
			idle[base] = append(idle[base], t)
			continue
		}
		rows = append(rows, trialRow{of: t, settings: [4][]string{{t.Policy}, {t.Scope}, {t.Option}, {t.Scoring}}, best: t.Best})
	}
	for i := range rows {
		rows[i].idle = idle[rows[i].of]
	}
	for i := 0; i < len(rows); i++ { // Merged rows may differ from others in one more setting only.
		for k := range rows[:i] {
			if rows[k].merge(&rows[i]) {
				rows = slices.Delete(rows, i, i+1)
				i = 0
				break
			}
		}
	}
	var out []trialRow
	for _, row := range rows {
		at := slices.IndexFunc(out, func(o trialRow) bool { return !o.of.Now && !row.of.Now && o.of.sameResult(row.of) })
		if at < 0 {
			out = append(out, row)
			continue
		}
		out[at].also = append(out[at].also, row)
		out[at].best = out[at].best || row.best
	}
	return out
}

// withoutOption returns the trial that is equal except that it changes no option, if that trial has
// the same result.
func (t *Trial) withoutOption(others []Trial) *Trial {
	if t.Option == "" {
		return nil
	}
	for i := range others {
		o := &others[i]
		if !o.Now && o.Option == "" && o.Policy == t.Policy && o.Scope == t.Scope && o.Scoring == t.Scoring && t.sameResult(o) {
			return o
		}
	}
	return nil
}

// merge adds another row if it differs from this one in one setting only. It reports whether it
// did.
func (r *trialRow) merge(other *trialRow) bool {
	if r.of.Now || other.of.Now || !r.of.sameResult(other.of) {
		return false
	}
	at := -1
	for i := range r.settings {
		if slices.Equal(r.settings[i], other.settings[i]) {
			continue
		}
		if at >= 0 {
			return false
		}
		at = i
	}
	if at >= 0 {
		r.settings[at] = append(slices.Clip(r.settings[at]), other.settings[at]...)
	}
	r.best = r.best || other.best
	r.idle = append(r.idle, other.idle...)
	return true
}

func (t *Trial) sameResult(other *Trial) bool {
	if t.Nodes != other.Nodes || t.Wrong != other.Wrong || (t.Pods == nil) != (other.Pods == nil) {
		return false
	}
	return t.Pods == nil || *t.Pods == *other.Pods && *t.CPUs == *other.CPUs
}

// TrialsText formats trials for people. Trials with equal results share one row. If there are
// several files of nodes, each row names its file. The first row of a file has the nodes as they
// are. NEVER counts the rejected pods that an empty node would reject.
func TrialsText(trials []Trial, style terminal.Style) string {
	t := &terminal.Table{}
	several := slices.ContainsFunc(trials, func(x Trial) bool { return x.Nodes != trials[0].Nodes })
	if several {
		t.Columns = terminal.Columns("NODES")
	}
	t.Columns = append(t.Columns, terminal.Columns("POLICY", "SCOPE", "OPTION", "SCORING", ">PLACED", ">REJECTED", ">NEVER", ">ALIGNED", ">CPUS PLACED", ">STRANDED", "")...)
	var below strings.Builder
	names := shortNames(trials)
	for _, row := range rowsOf(trials) {
		x := row.of
		var cells []terminal.Cell
		if several {
			cells = append(cells, terminal.Cell{Text: names[x.Nodes]})
		}
		for _, values := range row.settings {
			cells = append(cells, terminal.Cell{Text: strings.Join(values, " or ")})
		}
		below.WriteString(row.idleText(names, style) + row.alsoText(names, style))
		if x.CPUs == nil {
			t.Cells(append(cells, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Faint.Of(x.Wrong))...)
			continue
		}
		for _, text := range []string{grouped(x.Pods.Placed), grouped(x.Pods.Rejected), some(x.Pods.Never), alignedPods(x.Pods.Aligned, x.Pods.AlignmentUnknown, x.Pods.Own), amount(x.CPUs.Placed), tenths(x.CPUs.Stranded)} {
			cells = append(cells, terminal.Cell{Text: text})
		}
		t.Cells(append(cells, terminal.Good.Of(row.mark()))...)
	}
	return t.Text(style) + "\n" + below.String() + style.Paragraph("", "", terminal.Plain.Of(BestText(trials))) + trialOrder(trials, style)
}

// trialOrder describes the order in which the trials placed the pods.
func trialOrder(trials []Trial, style terminal.Style) string {
	at := slices.IndexFunc(trials, func(t Trial) bool { return t.Order != "" })
	if at < 0 {
		return ""
	}
	return style.Paragraph("", "", terminal.Plain.Of(orderText(trials[at].Order)))
}

// some formats a number. It returns "" for 0, so that a column without other numbers is omitted.
func some(n int64) string {
	if n == 0 {
		return ""
	}
	return grouped(n)
}

// shortNames maps the names of the files of nodes to their last elements, or to themselves if two
// files have the same last element.
func shortNames(trials []Trial) map[string]string {
	names, count := map[string]string{}, map[string]int{}
	for _, t := range trials {
		if _, seen := names[t.Nodes]; !seen {
			names[t.Nodes] = filepath.Base(t.Nodes)
			count[filepath.Base(t.Nodes)]++
		}
	}
	for name, short := range names {
		if count[short] > 1 {
			names[name] = name
		}
	}
	return names
}

// idleText lists the options that change nothing.
func (r *trialRow) idleText(names map[string]string, style terminal.Style) string {
	if len(r.idle) == 0 {
		return ""
	}
	first := r.idle[0] // Only the best setting is tried with options.
	under := first.Policy + ", scope " + first.Scope
	if len(names) > 1 {
		under = names[first.Nodes] + ", " + under
	}
	var options []string
	for _, t := range r.idle {
		options = append(options, t.Option)
	}
	return style.Paragraph("", "  ", terminal.Faint.Of(fmt.Sprintf("Under %s, these options change nothing: %s", under, strings.Join(options, ", "))))
}

// mark marks the row.
func (r *trialRow) mark() string {
	best := "best"
	if r.of.Interrupted != "" {
		best = "best so far"
	}
	switch {
	case r.of.Now && r.best:
		return "now, " + best
	case r.of.Now:
		return "now"
	case r.best:
		return best
	}
	return ""
}

// texts returns the settings of the row, without empty ones and the scoring. The file of nodes is
// the first if there are several.
func (r *trialRow) texts(names map[string]string) (all []string) {
	if len(names) > 1 {
		all = append(all, names[r.of.Nodes])
	}
	for i, values := range r.settings[:3] {
		if text := strings.Join(values, " or "); text != "" {
			all = append(all, [...]string{"", "scope ", ""}[i]+text)
		}
	}
	return all
}

// alsoText lists the other settings with the result of the row.
func (r *trialRow) alsoText(names map[string]string, style terminal.Style) string {
	if len(r.also) == 0 {
		return ""
	}
	name := func(r *trialRow) string {
		return strings.Join(append(r.texts(names), "scoring "+strings.Join(r.settings[3], " or ")), ", ")
	}
	var others []string
	for i := range r.also {
		others = append(others, name(&r.also[i]))
	}
	return style.Paragraph("", "  ", terminal.Faint.Of(fmt.Sprintf("The same result as %s: %s", name(r), strings.Join(others, "; "))))
}

// BestText describes why the best trial is best. MarkBest has marked it. If the comparison was
// interrupted, it begins with that.
func BestText(trials []Trial) string {
	if len(trials) > 0 && trials[0].Interrupted != "" {
		return "Interrupted " + trials[0].Interrupted + ": the others can be better. " + bestText(trials)
	}
	return bestText(trials)
}

func bestText(trials []Trial) string {
	at := slices.IndexFunc(trials, func(t Trial) bool { return t.Best })
	if at < 0 {
		return noneBest(trials)
	}
	best := &trials[at]
	text := fmt.Sprintf("The best setting aligns the most CPUs, %s; of several, it is the one that places the most, or the first.", amount(best.CPUs.Aligned))
	if best.Now {
		text = fmt.Sprintf("The nodes as they are now have the best setting: it aligns the most CPUs, %s.", amount(best.CPUs.Aligned))
	}
	if n := best.Pods.AlignmentUnknown; n > 0 {
		text += fmt.Sprintf(" It is not known whether %s is aligned with its devices.", oneOf(n))
	}
	for i := range trials {
		if t := &trials[i]; t.Pods != nil && t.Pods.Never > best.Pods.Never && t.CPUs.Aligned > best.CPUs.Aligned {
			return text + fmt.Sprintf(" Settings that align more are not best: under %s, no node would ever take %s, here %s.", t.name(), podCount(t.Pods.Never), grouped(best.Pods.Never))
		}
	}
	return text
}

// oneOf returns the beginning of a clause about each of some other pods.
func oneOf(n int64) string {
	if n == 1 {
		return "another pod"
	}
	return "any of " + podCount(n)
}

// noneBest describes why no trial is best.
func noneBest(trials []Trial) string {
	var placed, own, unknown int64
	for _, t := range trials {
		if t.Pods != nil {
			placed, own, unknown = max(placed, t.Pods.Placed), max(own, t.Pods.Own), max(unknown, t.Pods.AlignmentUnknown)
		}
	}
	switch {
	case placed == 0:
		return "No setting places a pod, so none is best."
	case own == 0:
		return "No pod has CPUs, memory or devices of its own, so that no setting aligns any, and none is best."
	case unknown > 0:
		return "It is not known under any setting whether a pod is aligned with its devices, so none is best: give the NUMA nodes of the devices."
	}
	return "No setting aligns a pod, so none is best."
}

// name names the settings of a trial.
func (t *Trial) name() string {
	text := t.Policy + ", scope " + t.Scope
	if t.Option != "" {
		text += ", " + t.Option
	}
	return text
}

// TrialBar is a row of the table of trials for a picture.
type TrialBar struct {
	// Settings are the texts of the settings, without empty ones and the scoring. Also counts other
	// settings with the same result.
	Settings []string
	Also     int
	Scoring  string
	Pods     FleetPods
	CPUs     FleetAllCPUs
	// Share is the part of the allocatable CPUs that the placed pods request, such as "61.4 %".
	Share     string
	Now, Best bool
}

// TrialBars returns the trials with a result. Trials with equal results are one.
func TrialBars(trials []Trial) []TrialBar {
	var bars []TrialBar
	names := shortNames(trials)
	for _, row := range rowsOf(trials) {
		if row.of.CPUs == nil {
			continue
		}
		b := TrialBar{Pods: *row.of.Pods, CPUs: *row.of.CPUs, Share: share(row.of.CPUs.FleetCPUs), Settings: row.texts(names), Also: len(row.also), Now: row.of.Now, Best: row.best}
		b.Scoring = strings.Join(row.settings[3], " or ")
		bars = append(bars, b)
	}
	return bars
}
