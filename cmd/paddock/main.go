// Command paddock decides which CPUs and which NUMA nodes' memory the containers of a
// Kubernetes node run on.
//
// Every command reads what it is told to, prints its result on standard output and
// ends with 0. An error is one line on standard error that starts with "paddock:",
// and ends with 1; a command that answers a question with no says so with 2.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/containerd/log"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// Libraries warn through klog about things that the commands say themselves.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	// NRI's transport logs requests that were given up to standard error, between the lines of the agent's log.
	log.L.Logger.SetOutput(io.Discard)
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	code := 1
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	fmt.Fprintf(stderr, "paddock: %s\n", oneLine(err.Error()))
	return code
}

// exitError is returned by a command that wants another exit code than 1. Without err
// nothing is printed, as the command has said it all on standard output.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

var lineBreaks = regexp.MustCompile(`\s*[\r\n]+\s*`)

// oneLine joins the lines of an error: scripts and logs count on one.
func oneLine(text string) string {
	return lineBreaks.ReplaceAllString(strings.TrimSpace(text), " ")
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "paddock",
		Short: "NUMA-aligned pools and exclusive CPUs for Kubernetes pods",
		Long: `Paddock decides which CPUs and which NUMA nodes' memory the containers of a
Kubernetes node run on: a pod is fenced into one NUMA-aligned pool, containers
that earned it get an exclusive slice of that pool, the others share the rest.

Exit codes: 0 done, 1 error, 2 the answer is no.`,
		Example: `  # What does this machine look like to the kubelet?
  paddock topology

  # Record it, to plan for it elsewhere.
  paddock topology -o json > node7.json

  # Which pods would get what there, and which would be rejected?
  paddock plan --machine node7.json --kubelet-config kubelet.yaml pods/`,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("paddock {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newTopologyCommand(), newPlanCommand(), newExplainCommand(), newReportCommand(), newReplayCommand(), newAgentCommand(), newVerifyCommand(), newPodsCommand(), newMapCommand(), newStateCommand(), newCheckConfigCommand())
	return root
}

// buildVersion is the module's version as the Go tool recorded it, "devel" if it did not.
func buildVersion() string {
	v := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
