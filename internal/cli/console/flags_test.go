package console

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestChecks checks what a command answers to missing and excessive arguments and flags.
func TestChecks(t *testing.T) {
	for _, c := range []struct {
		args     []string
		expected string
	}{
		{[]string{"take"}, "p take expects ONE, and perhaps another; see p take --help"},
		{[]string{"take", "a", "b", "c"}, `"c" is one argument too many: p take expects ONE, and perhaps another; see p take --help`},
		{[]string{"take", "a"}, "--to is missing: expected a place; see p take --help"},
		{[]string{"take", "a", "--to", "x", "--now"}, ""},
		{[]string{"take", "a", "--to", "x", "--now", "--later"}, "--now and --later cannot be combined: leave out one of them"},
		{[]string{"taek"}, `unknown command "taek": did you mean take?; see p --help`},
		{[]string{"other"}, `unknown command "other": expected more or take; see p --help`},
		{[]string{"more", "less"}, `unknown command "less": did you mean lets?; see p more --help`},
		{[]string{"more", "x"}, `"x": more takes no arguments, only flags or one of its commands lets; see p more --help`},
		{[]string{"more", "--at", "there"}, `"there": more takes no arguments, only flags or one of its commands lets; the value of --at is written with an equals sign, such as --at=here; see p more --help`},
	} {
		run := func(*cobra.Command, []string) error { return nil }
		root, take := &cobra.Command{Use: "p", SilenceErrors: true, SilenceUsage: true}, &cobra.Command{Use: "take", RunE: run, Args: Arguments(1, 2, "ONE, and perhaps another")}
		take.Flags().String("to", "", "")
		take.Flags().Bool("now", false, "")
		take.Flags().Bool("later", false, "")
		Require(take, "to", "a place")
		Exclude(take, "now", "later")
		more := &cobra.Command{Use: "more", RunE: run, Args: NoArguments}
		more.Flags().String("at", "", "")
		more.Flags().Lookup("at").NoOptDefVal = "here"
		more.AddCommand(&cobra.Command{Use: "lets", RunE: run})
		root.AddCommand(take, more)
		root.CompletionOptions.DisableDefaultCmd = true
		Group(root)
		root.SetArgs(c.args)
		got := ""
		if err := root.Execute(); err != nil {
			got = err.Error()
		}
		if got != c.expected {
			t.Errorf("%q: %q, expected %q", c.args, got, c.expected)
		}
	}
}
