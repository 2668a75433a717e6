package program

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/docs/rules"
	"github.com/paddock-project/paddock/internal/cli/console"
)

// ruleCommand is one invocation of paddock rule.
type ruleCommand struct{ output console.Form }

func (c *ruleCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rule ID...",
		Short: "Print a rule of the rule book, or a fault of the kubelet",
		Long: `Rule prints rules by their ids: in one sentence, and as they are in the rule book. Verbose output
(-v, -o wide), JSON and the agent's log contain ids. R-… is a rule of the CPU, Memory and Topology
Managers. Q-… is a fault or an unexpected behaviour of the kubelet, with what Paddock does instead.
R-CPU-41…45 are the rules from the first to the last.

Exit codes: 0 done, 1 error, such as an id that no rule has.`,
		Example: `  paddock rule R-HINT-62
  paddock rule Q-3 R-CPU-41…45`,
		Args: console.Arguments(1, 0, "the ID of a rule, such as R-HINT-62, or of a fault, such as Q-3"),
		RunE: c.run,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			for _, r := range rules.All() {
				ids = append(ids, r.ID)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *ruleCommand) run(cmd *cobra.Command, args []string) error {
	found, missing := rules.Find(strings.Join(args, " "))
	switch {
	case len(missing) > 0:
		return errors.New(rules.Unknown(missing))
	case len(found) == 0:
		return errors.New(rules.Unknown(args))
	}
	return console.StreamsOf(cmd).Document(c.output.Value, console.RuleList, found, func() string {
		texts := make([]string, len(found))
		for i, r := range found {
			texts[i] = r.String()
		}
		return strings.Join(texts, "\n")
	})
}
