package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// StrictFlag defines --strict, which is the same in every command that reads manifests.
func StrictFlag(cmd *cobra.Command, strict *bool) {
	cmd.Flags().BoolVar(strict, "strict", false, "an unknown field or kind in a manifest is an error, also where it decides nothing")
}

// NoArguments rejects arguments. It is for commands that take only flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q: %s takes no arguments, only flags; see %s --help", args[0], cmd.Name(), cmd.CommandPath())
	}
	return nil
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
	cmd.Flags().VarP(f, "output", "o", "form of the output: "+f.words())
	CompleteWords(cmd, "output", allowed...)
}

func (f *Form) words() string {
	last := len(f.allowed) - 1
	return strings.Join(f.allowed[:last], ", ") + " or " + f.allowed[last]
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
		return fmt.Errorf("expected %s", f.words())
	}
	return nil
}

// Type returns the name of the value in the help; see String.
func (f *Form) Type() string { return "FORM" }
