package console

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/inputs"
)

// silence is for libraries that log by themselves. It is done once: they log in goroutines that
// outlive a command.
var silence = sync.OnceFunc(func() {
	// Libraries warn through klog about things that the commands report themselves.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
})

// Execute is a whole program: it returns the exit code. The root command should have FlagError, and
// be silent about errors and usage.
func Execute(root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	silence()
	// Names in manifests and of files may have control characters: none reaches the terminal.
	cleaned, complaints := terminal.NewWriter(stdout, true), terminal.NewWriter(stderr, false)
	stdout, stderr = cleaned, complaints
	defer func() { _ = errors.Join(cleaned.Flush(), complaints.Flush()) }() // As every error of a write to standard error.
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	code := 1
	if exit := (*ExitError)(nil); errors.As(err, &exit) {
		code = exit.Code
		if exit.Err == nil {
			return code
		}
	}
	all := inputs.PodErrors{err}
	errors.As(err, &all)
	for _, err := range all {
		fmt.Fprintf(stderr, "%s: %s\n", program(root), OneLine(err.Error()))
	}
	return code
}

// ProgramAnnotation of a root command is the name that messages begin with, in place of the
// command's.
const ProgramAnnotation = "paddock-project.github.io/program"

func program(root *cobra.Command) string {
	return cmp.Or(root.Annotations[ProgramAnnotation], root.Name())
}

// ExitError is returned by a command that wants another exit code than 1. Without Err nothing is
// printed, as everything is on standard output.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

var lineBreaks = regexp.MustCompile(`\s*[\r\n]+\s*`)

// OneLine joins the lines of an error: scripts and logs expect one.
func OneLine(text string) string {
	return lineBreaks.ReplaceAllString(strings.TrimSpace(text), " ")
}

// FlagError is for the SetFlagErrorFunc of a root command: it names the flag that was perhaps
// meant, and the help.
func FlagError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w%s; see %s --help", err, meant(cmd, err), cmd.CommandPath())
}

// meant are the flags that a flag which does not exist may be a mistyped one of.
func meant(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	// Cobra compares names of commands.
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	suggestions := flags.SuggestionsFor(unknown.GetSpecifiedName())
	if len(suggestions) == 0 {
		return ""
	}
	return "; did you mean --" + strings.Join(suggestions, " or --") + "?"
}
