package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/collect"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// trustCommand is one invocation of paddock trust.
type trustCommand struct {
	agent  agentFlag
	output console.Form
	// scenarios prints the differences instead, and anonymize hashes the names in them.
	scenarios, anonymize bool
}

func (c *trustCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Show how the predictions about a node's kubelet compare with what it did",
		Long: `Trust asks an agent that observes a kubelet (paddock agent --observe). For each decision of the kubelet about
a pod that gets CPUs, memory or devices of its own, the agent has compared the verdict, the reason, the CPUs
and the NUMA nodes with what it predicts from the kubelet's files as they were before.

A decision that is as predicted only in another order of the pods counts as predicted, because no file shows
the order. A decision before which no state was seen has no prediction.

With --scenarios, it prints the last decisions that differ, each as a scenario in a line of its own: the
machine, the settings of the managers, the kubelet's files before, the requests of the pods that ran, and what
the kubelet did. "paddock replay" decides them again, and a report of a wrong prediction needs nothing else.
With --anonymize, the names of pods and namespaces in them are hashed.

Exit codes: 0 all decisions are as predicted, 1 error, 2 some differ.`,
		Example: `  paddock agent --observe --kubelet-token-file /etc/paddock/token --kubelet-ca-file /etc/paddock/ca.crt &
  paddock trust
  paddock trust --agent=127.0.0.1:9925 -o json
  paddock trust --scenarios --anonymize > differences.jsonl
  paddock replay --check differences.jsonl`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	c.agent.register(cmd, "the agent that listens on `HOST:PORT`")
	c.output.Register(cmd, "text", "json", "yaml")
	cmd.Flags().BoolVar(&c.scenarios, "scenarios", false, "print the last decisions that differ as scenarios for \"paddock replay\"")
	cmd.Flags().BoolVar(&c.anonymize, "anonymize", false, "with --scenarios, hash the names of pods and namespaces")
	return cmd
}

func (c *trustCommand) run(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	if !cmd.Flags().Changed("agent") {
		c.agent.address = agent.DefaultConfig().Listen
	}
	if err := c.agent.check(cmd); err != nil {
		return err
	}
	switch {
	case c.anonymize && !c.scenarios:
		return errors.New("--anonymize: expected --scenarios with it")
	case c.scenarios && cmd.Flags().Changed("output"):
		return errors.New("--scenarios: scenarios are JSON, one on each line; remove -o")
	case c.scenarios:
		return c.printScenarios(cmd.Context(), s)
	}
	data, err := c.agent.ask(cmd.Context(), s, agent.TrustPath, nil)
	if err != nil {
		return err
	}
	var t view.Trust
	if err := json.Unmarshal(data, &t); err != nil || t.Kubelet == "" {
		return fmt.Errorf("agent at %s: the answer is not about predictions: does this agent observe a kubelet (paddock agent --observe)?", c.agent.address)
	}
	if err := s.Document(c.output.Value, console.Trust, t, func() string { return t.Text(s.Style()) }); err != nil {
		return err
	}
	if t.Differs() {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// printScenarios prints the decisions that differ.
func (c *trustCommand) printScenarios(ctx context.Context, s console.Streams) error {
	data, err := c.agent.ask(ctx, s, agent.ScenariosPath, nil)
	if err != nil {
		return err
	}
	anonymous := collect.AnonymousScenarios()
	for line := range bytes.Lines(data) {
		if c.anonymize {
			if line, err = anonymous(line); err != nil {
				return fmt.Errorf("agent at %s: %w", c.agent.address, err)
			}
			line = append(line, '\n')
		}
		if _, err := s.Stdout.Write(line); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		s.Notes([]string{"no decision differs from its prediction"})
		return nil
	}
	return &console.ExitError{Code: 2}
}
