package view

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The names of CSV columns are those of the fields of the JSON documents, with dots between levels.
// Items of lists within an answer have rows of their own. Column row has the kind of the row.

// The columns of FleetPods, FleetAllCPUs, FleetCause and FleetScarcity.
var (
	podColumns      = []string{"pods.asked", "pods.placed", "pods.rejected", "pods.own", "pods.aligned", "pods.alignmentUnknown", "pods.never"}
	cpuColumns      = []string{"cpus.allocatable", "cpus.asked", "cpus.placed", "cpus.aligned", "cpus.alignmentUnknown", "cpus.never", "cpus.free", "cpus.stranded"}
	causeColumns    = []string{"reason", "example", "node", "detail", "remedy", "oneMore"}
	scarcityColumns = []string{"container", "wanted", "numaNodes", "empty", "unknown", "ruled", "limited", "notAllowed", "nothing", "several", "barred", "resource", "alone", "withOthers", "withAmounts", "least", "most", "reserved", "places", "from", "to", "pods", "atLeast"}
)

// record is a row by its columns. Columns that are missing are empty.
type record map[string]string

// table returns the header and the rows.
func table(columns []string, records []record) [][]string {
	rows := [][]string{columns}
	for _, r := range records {
		row := make([]string, len(columns))
		for i, name := range columns {
			row[i] = r[name]
		}
		rows = append(rows, row)
	}
	return rows
}

func whole[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func (r record) pods(p *FleetPods) {
	for i, n := range []int64{p.Asked, p.Placed, p.Rejected, p.Own, p.Aligned, p.AlignmentUnknown, p.Never} {
		r[podColumns[i]] = whole(n)
	}
}

func (r record) cpus(c *FleetCPUs) {
	r["cpus.free"] = whole(c.Free)
	r["cpus.allocatable"], r["cpus.placed"], r["cpus.aligned"], r["cpus.alignmentUnknown"], r["cpus.stranded"] = decimal(c.Allocatable), decimal(c.Placed), decimal(c.Aligned), decimal(c.AlignmentUnknown), decimal(c.Stranded)
}

func (r record) allCPUs(c *FleetAllCPUs) {
	r.cpus(&c.FleetCPUs)
	r["cpus.asked"], r["cpus.never"] = decimal(c.Asked), decimal(c.Never)
}

// total returns the row of an answer.
func (f *Fleet) total() record {
	r := record{"row": "total", "nodes": whole(f.Nodes), "scoring": f.Scoring, "order": f.Order}
	r.pods(&f.Pods)
	r.allCPUs(&f.CPUs)
	return r
}

func (k *FleetKind) record() record {
	r := record{"row": "kind", "kind": k.Kind, "nodes": whole(k.Nodes), "policy": k.Policy}
	r["pods.placed"], r["pods.own"], r["pods.aligned"], r["pods.alignmentUnknown"] = whole(k.Pods.Placed), whole(k.Pods.Own), whole(k.Pods.Aligned), whole(k.Pods.AlignmentUnknown)
	r.cpus(&k.CPUs)
	return r
}

func (c *FleetCause) record() record {
	return record{
		"row": "cause", "nodes": whole(c.Nodes), "pods.rejected": whole(c.Pods.Rejected), "pods.never": whole(c.Pods.Never),
		"reason": c.Reason, "example": c.Example, "node": c.Node, "detail": c.Detail, "remedy": c.Remedy, "oneMore": c.OneMore,
	}
}

// records returns the rows of the scarcity: one of each shape, followed by those of its resources,
// its other reasons, its reservations and its smaller requests. Each has the example of the shape.
func (s *FleetScarcity) records() (all []record) {
	if s == nil {
		return nil
	}
	for i := range s.Shapes {
		of := &s.Shapes[i]
		all = append(all, record{
			"row": "shape", "example": of.Example, "pods.rejected": whole(of.Pods), "container": of.Container, "wanted": wantedWords(of.Wanted),
			"numaNodes": whole(of.NUMANodes), "nodes": whole(of.Nodes), "empty": strconv.FormatBool(of.Empty), "unknown": whole(of.Unknown), "ruled": whole(of.Ruled), "limited": whole(of.Limited), "notAllowed": whole(of.NotAllowed),
			"nothing": whole(of.Nothing), "several": whole(of.Several), "barred": whole(of.Barred),
		})
		for _, l := range of.Missing {
			r := record{"row": "missing", "example": of.Example, "resource": l.Resource, "alone": whole(l.Alone), "withOthers": whole(l.WithOthers)}
			if l.Alone > 0 {
				r["least"], r["most"] = whole(l.Least), whole(l.Most)
			}
			all = append(all, r)
		}
		for _, b := range of.Bars {
			all = append(all, record{"row": "bar", "example": of.Example, "reason": string(b.Reason), "alone": whole(b.Alone), "withAmounts": whole(b.WithAmounts)})
		}
		for _, l := range of.Reserved {
			all = append(all, record{"row": "reserved", "example": of.Example, "resource": l.Resource, "wanted": whole(l.Wanted), "reserved": whole(l.Reserved), "places": whole(l.Places)})
		}
		for _, l := range of.Smaller {
			all = append(all, record{
				"row": "smaller", "example": of.Example, "container": l.Container, "resource": l.Resource, "from": whole(l.From), "to": whole(l.To),
				"pods": whole(l.Pods), "atLeast": strconv.FormatBool(l.AtLeast),
			})
		}
	}
	return all
}

// WriteCSV writes rows. Spreadsheets take a cell that begins with =, +, -, @, a tab or a carriage
// return for a formula, and names in an answer come from files and objects of others. Such a cell
// gets an apostrophe before it, as OWASP recommends ("CSV Injection"), unless it is a number.
// Nothing else differs from the same answer as JSON, which has every name as it is.
func WriteCSV(w io.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	for _, row := range rows {
		if slices.ContainsFunc(row, isFormula) {
			row = slices.Clone(row)
			for i, cell := range row {
				if isFormula(cell) {
					row[i] = "'" + cell
				}
			}
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// isFormula reports whether a spreadsheet can take a cell for a formula.
func isFormula(cell string) bool {
	if cell == "" || !strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return false
	}
	_, err := strconv.ParseFloat(cell, 64)
	return err != nil
}

// CSV writes the placements, or without placements the answer, its kinds, what is missing for the
// rejected pods, and the causes, with a header.
func (f *Fleet) CSV(w io.Writer) error {
	if len(f.Placements) > 0 {
		rows := [][]string{{"pod", "node", "cpus", "reason"}}
		for _, p := range f.Placements {
			rows = append(rows, []string{p.Pod, p.Node, p.CPUs, p.Reason})
		}
		return WriteCSV(w, rows)
	}
	records := []record{f.total()}
	for i := range f.Kinds {
		records = append(records, f.Kinds[i].record())
	}
	records = append(records, f.Scarcity.records()...)
	for i := range f.Causes {
		records = append(records, f.Causes[i].record())
	}
	columns := slices.Concat([]string{"row", "kind", "nodes", "scoring", "order"}, podColumns, cpuColumns, []string{"policy"}, causeColumns, scarcityColumns)
	return WriteCSV(w, table(columns, records))
}

// SizesRows returns the numbers of nodes with a header. Each answer has a row, which is followed by
// what is missing for the rejected pods and by the causes, and for a mix by the kinds.
func SizesRows(answers []Fleet) [][]string {
	var records []record
	for i := range answers {
		f := &answers[i]
		total := f.total()
		total["kind"] = f.Name()
		if f.LowerBound > 0 {
			total["lowerBound"], total["optimal"] = whole(f.LowerBound), strconv.FormatBool(f.Optimal)
		}
		if f.Price != nil {
			total["price"] = decimal(*f.Price)
		}
		total["leftOut"], total["tooFew"], total["atMost"] = whole(f.LeftOut), strconv.FormatBool(f.TooFew), strconv.FormatBool(f.AtMost)
		all := []record{total}
		if f.Mix != nil {
			total["mix.lowerBound"], total["mix.gap"], total["mix.tried"] = decimal(f.Mix.LowerBound), decimal(f.Mix.Gap), whole(f.Mix.Tried)
			for k := range f.Kinds {
				all = append(all, f.Kinds[k].record())
			}
		}
		rejected := f.Scarcity.records()
		for k := range f.Causes {
			rejected = append(rejected, f.Causes[k].record())
		}
		for _, r := range rejected {
			r["kind"] = f.Name()
		}
		all = append(all, rejected...)
		for _, r := range all {
			r["question"], r["interrupted"] = f.Question, f.Interrupted
		}
		records = append(records, all...)
	}
	first := []string{"question", "row", "kind", "nodes", "leftOut", "tooFew", "lowerBound", "optimal", "scoring", "order", "price", "mix.lowerBound", "mix.gap", "mix.tried", "atMost"}
	return table(slices.Concat(first, podColumns, cpuColumns, []string{"policy"}, causeColumns, []string{"interrupted"}, scarcityColumns), records)
}

// TrialsRows returns the trials with a header. The result of a trial that is wrong is empty.
func TrialsRows(trials []Trial) [][]string {
	var records []record
	for _, t := range trials {
		r := record{"nodes": t.Nodes, "policy": t.Policy, "scope": t.Scope, "option": t.Option, "scoring": t.Scoring, "order": t.Order, "now": strconv.FormatBool(t.Now), "best": strconv.FormatBool(t.Best), "wrong": t.Wrong, "interrupted": t.Interrupted}
		if t.CPUs != nil {
			r.pods(t.Pods)
			r.allCPUs(t.CPUs)
		}
		records = append(records, r)
	}
	columns := slices.Concat([]string{"nodes", "policy", "scope", "option", "scoring", "order"}, podColumns, cpuColumns, []string{"now", "best", "wrong", "interrupted"})
	return table(columns, records)
}
