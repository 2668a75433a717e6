package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-project/paddock/internal/base/spelling"
)

// StrictFlag defines --strict, which is the same in every command that reads manifests.
func StrictFlag(cmd *cobra.Command, strict *bool) {
	cmd.Flags().BoolVar(strict, "strict", false, "an unknown field or kind in a manifest is an error, also where it decides nothing")
}

// NoArguments rejects arguments. It is for commands that take only flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	names := commandsOf(cmd)
	if meant := spelling.Nearest(args[0], names); meant != "" {
		return fmt.Errorf("unknown command %q: did you mean %s?; see %s --help", args[0], meant, cmd.CommandPath())
	}
	hint := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.Type() == "string" {
			hint = fmt.Sprintf("; the value of --%s is written with an equals sign, such as --%s=%s", f.Name, f.Name, f.NoOptDefVal)
		}
	})
	also := ""
	if len(names) > 0 {
		also = " or one of its commands " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%q: %s takes no arguments, only flags%s%s; see %s --help", args[0], cmd.Name(), also, hint, cmd.CommandPath())
}

// commandsOf returns the names of the subcommands.
func commandsOf(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// Arguments requires a number of arguments, at least and at most. What describes them in an error,
// such as "PODS: files or directories of manifests". There is no limit if most is less than least.
func Arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		path := cmd.CommandPath()
		switch {
		case len(args) < least:
			return fmt.Errorf("%s expects %s; see %s --help", path, what, path)
		case len(args) > most && most >= least:
			return fmt.Errorf("%q is one argument too many: %s expects %s; see %s --help", args[most], path, what, path)
		}
		return nil
	}
}

// Require makes a flag of the command mandatory. What describes its value in an error.
func Require(cmd *cobra.Command, flag, what string) {
	if err := cmd.MarkFlagRequired(flag); err != nil { // It is then completed first.
		panic(err) // The caller defined the flag.
	}
	also(cmd, func(cmd *cobra.Command) error {
		if !cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s is missing: expected %s; see %s --help", flag, what, cmd.CommandPath())
		}
		return nil
	})
}

// Exclude makes two flags of the command exclude each other.
func Exclude(cmd *cobra.Command, one, other string) {
	also(cmd, func(cmd *cobra.Command) error {
		if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
			return fmt.Errorf("--%s and --%s cannot be combined: leave out one of them", one, other)
		}
		return nil
	})
}

// Need makes it an error to set flags that have no effect, because the command line lacks what they
// need. has reports whether it is there, and what describes it: "--fill".
func Need(cmd *cobra.Command, what string, has func() bool, flags ...string) {
	also(cmd, func(cmd *cobra.Command) error {
		if has() {
			return nil
		}
		return NoEffect(cmd, "without "+what, flags...)
	})
}

// NoEffect returns an error if one of the flags was set. The caller has found that they have no
// effect on this input, which where describes: "without --fill".
func NoEffect(cmd *cobra.Command, where string, flags ...string) error {
	for _, flag := range flags {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s has no effect %s: leave it out", flag, where)
		}
	}
	return nil
}

// also adds a check of the flags to that of the arguments, which comes first.
func also(cmd *cobra.Command, check func(*cobra.Command) error) {
	before := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if before != nil {
			if err := before(cmd, args); err != nil {
				return err
			}
		}
		return check(cmd)
	}
}

// groupAnnotation marks the commands of Group.
const groupAnnotation = "paddock-project.github.io/group"

// Group makes a command one that only has subcommands. Without one of them, it prints its help.
func Group(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[groupAnnotation] = ""
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
}

// unknownCommand returns the error for a name that is not one of a command's subcommands.
func unknownCommand(cmd *cobra.Command, name string) error {
	names := commandsOf(cmd)
	text := spelling.Expected(name, names)
	if meant := spelling.Nearest(name, names); meant != "" {
		text = "did you mean " + meant + "?" // The root has many commands.
	}
	return fmt.Errorf("unknown command %q: %s; see %s --help", name, text, cmd.CommandPath())
}

// defaults adds the commands help and completion. Those that cobra adds print help and succeed with
// a name that is not a command.
func defaults(root *cobra.Command, args []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = helpTopic
		case "completion":
			Group(c)
		}
	}
}

// helpTopic returns an error unless the arguments of the command help are the path of a command.
func helpTopic(help *cobra.Command, args []string) error {
	at := help.Root()
	for _, name := range args {
		i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
		switch {
		case i >= 0:
			at = at.Commands()[i]
		case !at.HasAvailableSubCommands():
			return nil // These are arguments of the command.
		default:
			return unknownCommand(at, name)
		}
	}
	return nil
}

func isGroup(cmd *cobra.Command) bool {
	_, is := cmd.Annotations[groupAnnotation]
	return is
}

// CompleteWords completes the value of a flag that takes one of a few words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // The caller defined the flag and completes it only once.
	}
}

// Form is the flag -o, --output. Its value is one of a few words, which mean the same in every
// command.
type Form struct {
	// Value is the chosen word.
	Value string
	// allowed are the allowed words. The first is the default.
	allowed []string
}

// Register defines the flag with its allowed words.
func (f *Form) Register(cmd *cobra.Command, allowed ...string) {
	f.Value, f.allowed = allowed[0], allowed
	cmd.Flags().VarP(f, "output", "o", "form of the output: "+spelling.Or(allowed))
	CompleteWords(cmd, "output", allowed...)
}

// String, Set and Type implement pflag.Value.
func (f *Form) String() string { return f.Value }

// Set sets one of the words; see String. "text" is the form for reading in every command. "table"
// is accepted too, because some commands called it that.
func (f *Form) Set(value string) error {
	switch {
	case slices.Contains(f.allowed, value):
		f.Value = value
	case value == "text" || value == "table" && f.allowed[0] == "text":
		f.Value = f.allowed[0]
	default:
		return errors.New(spelling.Expected(value, f.allowed))
	}
	return nil
}

// Type returns the name of the value in the help; see String.
func (f *Form) Type() string { return "FORM" }

// checkInputs makes it an error of every command to name standard input twice, which can be read
// only once.
func checkInputs(root *cobra.Command) {
	for _, c := range root.Commands() {
		checkInputs(c)
	}
	if root.Args != nil && !isGroup(root) {
		also(root, oneInput)
	}
}

// oneInput returns an error if several flags and arguments are standard input. It names them.
func oneInput(cmd *cobra.Command) error {
	var names []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, value := range values {
			if value == "-" {
				names = append(names, "--"+f.Name+" -")
			}
		}
	})
	for _, arg := range cmd.Flags().Args() {
		if arg == "-" {
			names = append(names, "the argument -")
		}
	}
	if len(names) < 2 {
		return nil
	}
	return fmt.Errorf("%s are both standard input, which can be read only once: name a file for one of them", strings.Join(names[:2], " and "))
}
