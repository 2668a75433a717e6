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
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/test/cluster/stock"
	"github.com/paddock-project/paddock/test/e2e/tally"
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
	all, err := tally.Read(*file)
	if err != nil {
		return err
	}
	begin := time.Now()
	for seed := *from; tally.Decisions(all) < *count; seed++ {
		for _, minor := range stock.Minors(kubelets) {
			if tally.Has(all, minor, seed) {
				continue
			}
			s := scenario{minor: minor, program: kubelets[minor], seed: seed, kind: kindOf(minor, seed)}
			r, err := s.play(ctx)
			if err != nil {
				return fmt.Errorf("kubelet %s, scenario %d: %w", minor, seed, err)
			}
			all = append(all, r)
			if err := tally.Append(*file, r); err != nil {
				return err
			}
		}
		if seed%10 == 0 {
			fmt.Fprintf(os.Stderr, "%s: %d decisions after %.0f s\n", time.Now().Format(time.TimeOnly), tally.Decisions(all), time.Since(begin).Seconds())
		}
	}
	return tally.Report(os.Stdout, all)
}

// kindOf returns what the scenario with that seed has. Only minors from 1.36 on have pools.
func kindOf(minor string, seed uint64) []string {
	k := kinds[seed%uint64(len(kinds))]
	if slices.Contains(k, "-pools") && slices.Contains([]string{"1.33", "1.34", "1.35"}, minor) {
		return slices.DeleteFunc(slices.Clone(k), func(f string) bool { return f == "-pools" })
	}
	return k
}
