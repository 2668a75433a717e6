package view

import (
	"encoding/csv"
	"io"
	"strconv"
)

// CSV writes the placements, or the kinds if there are no placements, with a header.
func (f *Fleet) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"kind", "nodes", "pods", "cpus_placed", "cpus_allocatable", "policy"}}
	for _, k := range f.Kinds {
		rows = append(rows, []string{k.Name, strconv.Itoa(k.Nodes), strconv.FormatInt(k.Pods, 10), decimal(k.CPUs.Placed), decimal(k.CPUs.Allocatable), k.Policy})
	}
	if len(f.Placements) > 0 {
		rows = [][]string{{"pod", "node", "cpus"}}
		for _, p := range f.Placements {
			rows = append(rows, []string{p.Pod, p.Node, p.CPUs})
		}
	}
	return out.WriteAll(rows)
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// SizesRows returns the numbers of nodes with a header. If a kind does not fit all pods, nodes is
// empty and cause has the first reason.
func SizesRows(answers []Fleet) [][]string {
	rows := [][]string{{"kind", "nodes", "lower_bound", "scoring", "cpus_placed", "cpus_allocatable", "price", "rejected", "cause"}}
	for _, f := range answers {
		price := ""
		if f.Price != nil {
			price = decimal(f.Price.Price)
		}
		row := []string{f.Kinds[0].Name, strconv.Itoa(f.Nodes), strconv.Itoa(f.LowerBound), f.Scoring, decimal(f.CPUs.Placed), decimal(f.CPUs.Allocatable), price, strconv.FormatInt(f.Pods.Rejected, 10), ""}
		switch {
		case f.Pods.Rejected > 0:
			row[1], row[8] = "", f.Causes[0].Reason
		case f.Question == "mix": // A row for each kind. The first row has the price of all.
			for _, k := range f.Kinds {
				rows = append(rows, []string{"mix: " + k.Name, strconv.Itoa(k.Nodes), "", f.Scoring, decimal(k.CPUs.Placed), decimal(k.CPUs.Allocatable), price, "0", ""})
				price = ""
			}
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// TrialsRows returns the trials with a header.
func TrialsRows(trials []Trial) [][]string {
	rows := [][]string{{"nodes", "setting", "scoring", "asked", "placed", "rejected", "cpus_placed", "cpus_allocatable", "best", "wrong"}}
	for _, t := range trials {
		row := []string{t.Nodes, t.Setting, t.Scoring, "", "", "", "", "", strconv.FormatBool(t.Best), t.Wrong}
		if t.CPUs != nil {
			row[3], row[4], row[5] = strconv.FormatInt(t.Pods.Asked, 10), strconv.FormatInt(t.Pods.Placed, 10), strconv.FormatInt(t.Pods.Rejected, 10)
			row[6], row[7] = decimal(t.CPUs.Placed), decimal(t.CPUs.Allocatable)
		}
		rows = append(rows, row)
	}
	return rows
}

// RejectionsRows returns the rejections with a header.
func RejectionsRows(all []FleetRejections) [][]string {
	rows := [][]string{{"kind", "pods", "nodes", "class", "cause"}}
	for _, r := range all {
		rows = append(rows, []string{r.Kind, strconv.FormatInt(r.Count, 10), strconv.Itoa(r.Nodes), r.Class, r.Cause})
	}
	return rows
}
