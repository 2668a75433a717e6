// Package tally keeps and sums up the results of runs in which kubelets decide while an agent
// observes. The file of results has a line for each scenario, so that a run goes on where an
// earlier one ended.
package tally

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/paddock-project/paddock/internal/ui/view"
)

// Result is a line of the file of results.
type Result struct {
	Minor string `json:"minor"`
	Seed  uint64 `json:"seed"`
	// Kind is what the scenario has, such as its configuration.
	Kind string `json:"kind"`
	// Endless is set if the scenario has an event that the kubelet does not end. Then the rest has
	// what was before.
	Endless bool `json:"endless,omitempty"`
	// Broken is why the kubelet could not go on, such as a start that its files prevent.
	Broken string `json:"broken,omitempty"`
	// Decisions is how many decisions the kubelet made about pods that get something of their own
	// and about pods that it rejected. Compared of them were seen by the agent.
	Decisions  int                `json:"decisions"`
	Admissions view.TrustCount    `json:"admissions"`
	Rejections view.TrustCount    `json:"rejections"`
	Reasons    []view.Unpredicted `json:"unpredicted,omitempty"`
	Differ     []view.Difference  `json:"differences,omitempty"`
	// Scenarios are the differences as "paddock replay" reads them.
	Scenarios []json.RawMessage `json:"scenarios,omitempty"`
	// NotSeen describes decisions that the agent has not compared in time.
	NotSeen []string `json:"notSeen,omitempty"`
	// Seconds is how long the scenario took.
	Seconds float64 `json:"seconds,omitempty"`
}

// AsPredicted returns how many decisions are as predicted.
func (r *Result) AsPredicted() int {
	return r.Admissions.AsPredicted + r.Admissions.Reordered + r.Rejections.AsPredicted + r.Rejections.Reordered
}

// Read reads a file of results. There are none if it does not exist.
func Read(file string) (all []Result, err error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// Append appends a result to a file.
func Append(file string, r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// Has reports whether there is a result of a scenario.
func Has(all []Result, minor string, seed uint64) bool {
	return slices.ContainsFunc(all, func(r Result) bool { return r.Minor == minor && r.Seed == seed })
}

// Decisions returns how many decisions there are.
func Decisions(all []Result) (n int) {
	for i := range all {
		n += all[i].Decisions
	}
	return n
}

// sum has the sums of several results.
type sum struct {
	scenarios, decisions, notSeen, endless int
	count                                  view.TrustCount
	seconds                                float64
}

func (s *sum) add(r *Result) {
	s.scenarios++
	s.decisions += r.Decisions
	s.seconds += r.Seconds
	if r.Endless {
		s.endless++
	}
	Add(&s.count, r.Admissions, 1)
	Add(&s.count, r.Rejections, 1)
	s.notSeen += max(0, r.Decisions-r.Admissions.All-r.Rejections.All)
}

// Add adds a count, or takes it away with the sign -1.
func Add(to *view.TrustCount, c view.TrustCount, sign int) {
	to.All += sign * c.All
	to.AsPredicted += sign * c.AsPredicted
	to.Reordered += sign * c.Reordered
	to.Differ += sign * c.Differ
	to.Unsure += sign * c.Unsure
}

// Report prints the sums by minor version and by kind, why there was no prediction, and what
// differs. It returns an error if a decision differs.
func Report(w io.Writer, all []Result) error {
	var faults, table strings.Builder
	differ, reasons := 0, map[string]int{}
	for i := range all {
		r := &all[i]
		differ += r.Admissions.Differ + r.Rejections.Differ
		for _, d := range r.Differ {
			fmt.Fprintf(&faults, "%s seed %d %s: %s: predicted %s; the kubelet: %s\n", r.Minor, r.Seed, r.Kind, d.Pod, d.Predicted, d.Actual)
		}
		for _, why := range r.NotSeen {
			fmt.Fprintf(&faults, "%s seed %d %s: not seen: %s\n", r.Minor, r.Seed, r.Kind, why)
		}
		for _, u := range r.Reasons {
			reasons[u.Reason] += u.Count
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&faults, "%6d unsure: %s\n", reasons[reason], reason)
	}
	writeSums(&table, "KUBELET", all, func(r *Result) string { return r.Minor })
	writeSums(&table, "KIND", all, func(r *Result) string { return r.Kind })
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := io.WriteString(aligned, table.String())
	if err := errors.Join(err, aligned.Flush()); err != nil {
		return err
	}
	if _, err := io.WriteString(w, faults.String()); err != nil {
		return err
	}
	if differ > 0 {
		return fmt.Errorf("decisions that differ from their prediction: %d", differ)
	}
	return nil
}

// writeSums writes a table with a line for each value of key.
func writeSums(out *strings.Builder, title string, all []Result, key func(*Result) string) {
	fmt.Fprintf(out, "%s\tSCENARIOS\tDECISIONS\tAS PREDICTED\tREORDERED\tDIFFER\tUNSURE\tNOT SEEN\tENDLESS\tMINUTES\t\n", title)
	sums := map[string]*sum{}
	for i := range all {
		k := key(&all[i])
		if sums[k] == nil {
			sums[k] = &sum{}
		}
		sums[k].add(&all[i])
	}
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		s := sums[k]
		c := s.count
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", k, s.scenarios, s.decisions, c.AsPredicted, c.Reordered, c.Differ, c.Unsure, s.notSeen, s.endless, s.seconds/60)
	}
}
