package console

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/cli/inputs"
)

// silence discards the logs of libraries. It does so only once, because their goroutines outlive a
// command.
var silence = sync.OnceFunc(func() {
	// Libraries warn through klog about problems that the commands report themselves.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
})

// Execute runs a whole program and returns its exit code. The root command should use FlagError and
// should print neither errors nor usage.
func Execute(root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	silence()
	// Names in manifests and names of files may contain control characters. None of them may reach
	// the terminal.
	stdout, stderr, flush := output(stdout, stderr)
	defer flush()
	root.SetArgs(append([]string{}, args...)) // For nil, cobra takes those of the process.
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpFunc(printHelp)
	defaults(root, args)
	checkInputs(root)
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

// ProgramAnnotation is an annotation of a root command. Its value is the name that messages begin
// with, instead of the command's name.
const ProgramAnnotation = "paddock-project.github.io/program"

func program(root *cobra.Command) string {
	return cmp.Or(root.Annotations[ProgramAnnotation], root.Name())
}

// ExitError is returned by a command that requests an exit code other than 1. If Err is nil,
// nothing is printed, because everything is on standard output.
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

// OneLine joins the lines of an error, because scripts and logs expect a single line.
func OneLine(text string) string {
	return lineBreaks.ReplaceAllString(strings.TrimSpace(text), " ")
}

// FlagError is for SetFlagErrorFunc of a root command. It adds the flag that was perhaps meant, and
// how to get help.
func FlagError(cmd *cobra.Command, err error) error {
	number, invalid := (*strconv.NumError)(nil), (*pflag.InvalidValueError)(nil)
	if errors.As(err, &number) && errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %q: expected a whole number%s; see %s --help", invalid.GetFlag().Name, invalid.GetValue(), limits(invalid.GetFlag(), number), cmd.CommandPath())
	}
	return fmt.Errorf("%w%s; see %s --help", err, meant(cmd, err), cmd.CommandPath())
}

// limits describes which whole numbers a flag takes, if the number that was given is not one of
// them.
func limits(flag *pflag.Flag, number *strconv.NumError) string {
	switch unsigned := strings.HasPrefix(flag.Value.Type(), "uint"); {
	case unsigned && strings.HasPrefix(number.Num, "-"):
		return ", 0 or more"
	case !errors.Is(number, strconv.ErrRange):
		return ""
	case unsigned:
		return fmt.Sprintf(" of at most %d", uint64(math.MaxUint64))
	case strings.HasPrefix(number.Num, "-"):
		return fmt.Sprintf(" of at least %d", int64(math.MinInt64))
	}
	return fmt.Sprintf(" of at most %d", int64(math.MaxInt64)) // All flags of numbers have 64 bits.
}

// meant returns a suggestion of existing flags with a name similar to an unknown one.
func meant(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	// Cobra only compares names of commands.
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
