// Command admissions lets kubelets of several minor versions decide about random pods while the
// observing agent watches, and counts how its predictions compare. The kubelets are the packages of
// Kubernetes over real state files and connections (test/record), the agent is the product's.
//
//	go run ./admissions -kubelets 1.36=PROGRAM,1.37=PROGRAM -count 1000 -results FILE
//
// It appends a line to the file of results for each scenario, and goes on where an earlier run
// ended. It fails if a decision differs from its prediction.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/cluster/stock"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "admissions:", err)
		}
		os.Exit(1)
	}
}

// result is a line of the file of results.
type result struct {
	Minor string `json:"minor"`
	Seed  uint64 `json:"seed"`
	Kind  string `json:"kind"`
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
}

// kinds are what random scenarios have beside ordinary pods.
var kinds = [][]string{nil, {"-devices"}, {"-pools"}, {"-pools", "-devices"}}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("admissions", flag.ContinueOnError)
	programs := flags.String("kubelets", "", "MINOR=PROGRAM for each minor version, separated by commas; PROGRAM is built of test/record/kubelet-MINOR")
	count := flags.Int("count", 1000, "how many decisions the file of results has at the end")
	file := flags.String("results", "", "the `file` to which results are appended")
	from := flags.Uint64("seed", 1, "of the first scenario")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *programs == "" || *file == "" || flags.NArg() > 0 {
		return errors.New("expected -kubelets and -results, and nothing behind the flags")
	}
	kubelets, err := stock.Programs(*programs)
	if err != nil {
		return err
	}
	all, err := read(*file)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(*file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	begin := time.Now()
	for seed := *from; decisions(all) < *count; seed++ {
		for _, minor := range stock.Minors(kubelets) {
			if slices.ContainsFunc(all, func(r result) bool { return r.Minor == minor && r.Seed == seed }) {
				continue
			}
			s := scenario{minor: minor, program: kubelets[minor], seed: seed, kind: kindOf(minor, seed)}
			r, err := s.play(ctx)
			if err != nil {
				return fmt.Errorf("kubelet %s, scenario %d: %w", minor, seed, err)
			}
			all = append(all, r)
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
		if seed%10 == 0 {
			fmt.Fprintf(os.Stderr, "%s: %d decisions after %.0f s\n", time.Now().Format(time.TimeOnly), decisions(all), time.Since(begin).Seconds())
		}
	}
	return report(all)
}

// kindOf returns what the scenario with that seed has. Only minors from 1.36 on have pools.
func kindOf(minor string, seed uint64) []string {
	k := kinds[seed%uint64(len(kinds))]
	if slices.Contains(k, "-pools") && slices.Contains([]string{"1.33", "1.34", "1.35"}, minor) {
		return slices.DeleteFunc(slices.Clone(k), func(f string) bool { return f == "-pools" })
	}
	return k
}

func read(file string) (all []result, err error) {
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
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

func decisions(all []result) (n int) {
	for i := range all {
		n += all[i].Decisions
	}
	return n
}

// report prints the sums by minor version, and fails if a decision differs.
func report(all []result) error {
	var minors []string
	for i := range all {
		if !slices.Contains(minors, all[i].Minor) {
			minors = append(minors, all[i].Minor)
		}
	}
	slices.Sort(minors)
	differ := 0
	fmt.Printf("%-8s %9s %9s %12s %9s %6s %6s %8s %7s\n", "KUBELET", "SCENARIOS", "DECISIONS", "AS PREDICTED", "REORDERED", "DIFFER", "UNSURE", "NOT SEEN", "ENDLESS")
	reasons := map[string]int{}
	for _, minor := range minors {
		var sum result
		scenarios, endless := 0, 0
		for i := range all {
			r := &all[i]
			if r.Minor != minor {
				continue
			}
			scenarios++
			if r.Endless {
				endless++
			}
			sum.Decisions += r.Decisions
			for _, c := range []view.TrustCount{r.Admissions, r.Rejections} {
				sum.Admissions.All += c.All
				sum.Admissions.AsPredicted += c.AsPredicted
				sum.Admissions.Reordered += c.Reordered
				sum.Admissions.Differ += c.Differ
				sum.Admissions.Unsure += c.Unsure
			}
			for _, u := range r.Reasons {
				reasons[u.Reason] += u.Count
			}
			for _, d := range r.Differ {
				fmt.Printf("%s seed %d %s: %s: predicted %s; the kubelet: %s\n", r.Minor, r.Seed, r.Kind, d.Pod, d.Predicted, d.Actual)
			}
		}
		c := sum.Admissions
		differ += c.Differ
		fmt.Printf("%-8s %9d %9d %12d %9d %6d %6d %8d %7d\n", minor, scenarios, sum.Decisions, c.AsPredicted, c.Reordered, c.Differ, c.Unsure, max(0, sum.Decisions-c.All), endless)
	}
	for reason, n := range reasons {
		fmt.Printf("%6d unsure: %s\n", n, reason)
	}
	if differ > 0 {
		return fmt.Errorf("%d decisions differ from their prediction", differ)
	}
	return nil
}
