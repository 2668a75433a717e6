package view

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
)

// The names of CSV columns are those of the fields of the JSON documents, with dots between levels.

// podColumns and cpuColumns are the columns of FleetPods and FleetCPUs.
var (
	podColumns = []string{"pods.asked", "pods.placed", "pods.rejected", "pods.own", "pods.aligned", "pods.never"}
	cpuColumns = []string{"cpus.allocatable", "cpus.placed", "cpus.aligned", "cpus.free", "cpus.stranded"}
)

func (p *FleetPods) row() []string {
	var row []string
	for _, n := range []int64{p.Asked, p.Placed, p.Rejected, p.Own, p.Aligned, p.Never} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return row
}

func (c *FleetCPUs) row() []string {
	return []string{decimal(c.Allocatable), decimal(c.Placed), decimal(c.Aligned), strconv.Itoa(c.Free), decimal(c.Stranded)}
}

// CSV writes the placements, or the kinds if there are no placements, with a header.
func (f *Fleet) CSV(w io.Writer) error {
	rows := [][]string{slices.Concat([]string{"name", "nodes", "pods", "own", "aligned"}, cpuColumns, []string{"policy"})}
	for _, k := range f.Kinds {
		counts := []string{k.Name, strconv.Itoa(k.Nodes), strconv.FormatInt(k.Pods, 10), strconv.FormatInt(k.Own, 10), strconv.FormatInt(k.Aligned, 10)}
		rows = append(rows, slices.Concat(counts, k.CPUs.row(), []string{k.Policy}))
	}
	if len(f.Placements) > 0 {
		rows = [][]string{{"pod", "node", "cpus"}}
		for _, p := range f.Placements {
			rows = append(rows, []string{p.Pod, p.Node, p.CPUs})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// SizesRows returns the numbers of nodes with a header. If a kind does not fit all pods, nodes is
// empty and causes.reason has the first reason. A mix has a row for each kind. The first of these
// has the price of all.
func SizesRows(answers []Fleet) [][]string {
	rows := [][]string{slices.Concat([]string{"name", "nodes", "lowerBound", "scoring", "price.price"}, podColumns, cpuColumns, []string{"causes.reason"})}
	for _, f := range answers {
		price := ""
		if f.Price != nil {
			price = decimal(f.Price.Price)
		}
		row := func(name, nodes, bound string, pods FleetPods, cpus FleetCPUs, cause string) {
			rows = append(rows, slices.Concat([]string{name, nodes, bound, f.Scoring, price}, pods.row(), cpus.row(), []string{cause}))
			price = ""
		}
		bound := strconv.Itoa(f.LowerBound)
		switch {
		case f.Pods.Rejected > 0:
			row(f.Kinds[0].Name, "", bound, f.Pods, f.CPUs, f.Causes[0].Reason)
		case f.Question == "mix":
			for _, k := range f.Kinds {
				row("mix: "+k.Name, strconv.Itoa(k.Nodes), "", FleetPods{Asked: k.Pods, Placed: k.Pods, Own: k.Own, Aligned: k.Aligned}, k.CPUs, "")
			}
		default:
			row(f.Kinds[0].Name, strconv.Itoa(f.Nodes), bound, f.Pods, f.CPUs, "")
		}
	}
	return rows
}

// TrialsRows returns the trials with a header. The result of a trial that is wrong is empty.
func TrialsRows(trials []Trial) [][]string {
	rows := [][]string{slices.Concat([]string{"nodes", "policy", "scope", "option", "scoring"}, podColumns, cpuColumns, []string{"best", "wrong"})}
	for _, t := range trials {
		result := make([]string, len(podColumns)+len(cpuColumns))
		if t.CPUs != nil {
			result = slices.Concat(t.Pods.row(), t.CPUs.row())
		}
		rows = append(rows, slices.Concat([]string{t.Nodes, t.Policy, t.Scope, t.Option, t.Scoring}, result, []string{strconv.FormatBool(t.Best), t.Wrong}))
	}
	return rows
}

// RejectionsRows returns the rejections with a header.
func RejectionsRows(all []FleetRejections) [][]string {
	rows := [][]string{{"kind", "count", "nodes", "class", "cause"}}
	for _, r := range all {
		rows = append(rows, []string{r.Kind, strconv.FormatInt(r.Count, 10), strconv.Itoa(r.Nodes), r.Class, r.Cause})
	}
	return rows
}
