package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/view"
)

func newCheckConfigCommand() *cobra.Command {
	var from machineFlag
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "check-config FILE",
		Short: "Say whether a kubelet, and Paddock, would start with a KubeletConfiguration",
		Long: `Check-config judges the settings of the CPU, Memory and Topology Managers for a machine, as a
kubelet 1.36 does when it starts: policies, options and the gates that they need, combinations
that exclude each other, reserved CPUs, and the sum of reservedMemory, with the values that
would be right. It warns of settings that have no effect or one that surprises. Every finding
names the field.

Exit codes: 0 both start, 1 error, 2 one of them does not.`,
		Example: `  paddock check-config /var/lib/kubelet/config.yaml
  paddock check-config --machine node7.json kubelet.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkConfig(args[0], &from, output.value, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	from.register(cmd)
	output.register(cmd, "table", "json")
	return cmd
}

// checkedConfig is what check-config finds out.
type checkedConfig struct {
	File    string `json:"file"`
	Machine string `json:"machine"`
	// KubeletStarts and PaddockStarts are the answers.
	KubeletStarts bool `json:"kubeletStarts"`
	PaddockStarts bool `json:"paddockStarts"`
	// Policy is what the configuration comes to, if Paddock starts with it.
	Policy   string                `json:"policy,omitempty"`
	Problems []checkedProblem      `json:"problems"`
	Warnings []checkedWarning      `json:"warnings"`
	Reserved []kubeletcfg.Reserved `json:"suggestedReservedMemory,omitempty"`
}

type checkedProblem struct {
	Field string `json:"field"`
	Why   string `json:"why"`
	Do    string `json:"do"`
	// Log is what the kubelet says; without, it starts and goes wrong.
	Log string `json:"log,omitempty"`
	// Paddock tells whether Paddock refuses it as well.
	Paddock bool `json:"paddock"`
}

type checkedWarning struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

func checkConfig(name string, from *machineFlag, output string, stdin io.Reader, stdout io.Writer) error {
	data, err := readInput(name, stdin)
	if err != nil {
		return err
	}
	config, err := kubeletcfg.Read(name, data)
	if err != nil {
		return err
	}
	found, err := from.load(stdin)
	if err != nil {
		return err
	}
	checked, err := check(config, found.Machine, found.Offline)
	if err != nil {
		return err
	}
	checked.File, checked.Machine = name, found.Name
	text := []byte(checked.text(styleFor(stdout)))
	if output == "json" {
		if text, err = json.MarshalIndent(checked, "", "  "); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	if _, err := stdout.Write(text); err != nil {
		return err
	}
	if !checked.KubeletStarts || !checked.PaddockStarts {
		return &exitError{code: 2}
	}
	return nil
}

func check(config *kubeletcfg.Config, m *machine.Machine, offline cpuset.Set) (*checkedConfig, error) {
	c := &checkedConfig{KubeletStarts: true, PaddockStarts: true, Problems: []checkedProblem{}, Warnings: []checkedWarning{}}
	add := func(p kubeletcfg.Problem, paddock bool) {
		c.Problems = append(c.Problems, checkedProblem{p.Field, p.Why, p.Fix, p.Kubelet, paddock})
		c.KubeletStarts = c.KubeletStarts && p.Kubelet == ""
		c.PaddockStarts = c.PaddockStarts && !paddock
	}
	// Reserved CPUs that are offline stop a kubelet alone.
	policy, err := config.ResolveOffline(m, offline)
	own, err := problemsOf(err)
	if err != nil {
		return nil, err
	}
	_, err = config.Resolve(m)
	all, err := problemsOf(err)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		add(p, slices.Contains(own, p))
	}
	if len(own) == 0 {
		c.Policy = kubeletcfg.Describe(policy)
	}
	for _, p := range config.KubeletRefuses(m) {
		add(p, false)
	}
	for _, w := range append(config.Warnings(m), config.EmptyNodes(m)...) {
		c.Warnings = append(c.Warnings, checkedWarning{w.Field, w.Why})
	}
	c.Reserved = config.SuggestReservedMemory(m)
	return c, nil
}

// problemsOf takes the problems out of a refusal; other errors stay.
func problemsOf(err error) ([]kubeletcfg.Problem, error) {
	if refused := (*kubeletcfg.RefusedError)(nil); errors.As(err, &refused) {
		return refused.Problems, nil
	}
	return nil, err
}

// text is the result for reading: the answers first.
func (c *checkedConfig) text(style view.Style) string {
	var out strings.Builder
	answer := func(who string, starts bool) {
		word, tone := "starts with it", view.Good
		if !starts {
			word, tone = "does not start with it", view.Bad
		}
		fmt.Fprintf(&out, "  %s %s\n", who, style.Paint(tone, word))
	}
	fmt.Fprintf(&out, "%s on machine %s:\n", style.Paint(view.Strong, c.File), style.Paint(view.Plain, c.Machine))
	answer("kubelet 1.36", c.KubeletStarts)
	answer("Paddock     ", c.PaddockStarts)
	if c.Policy != "" {
		fmt.Fprintf(&out, "  policy: %s\n", style.Paint(view.Plain, c.Policy))
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&out, "\n  %s %s: %s%s\n", style.Paint(view.Bad, "problem:"), p.Field, style.Paint(view.Plain, p.Why), p.whom())
		fmt.Fprintf(&out, "    do: %s\n", style.Paint(view.Plain, p.Do))
		if p.Log != "" {
			fmt.Fprintf(&out, "    log: %s\n", style.Paint(view.Faint, p.Log))
		}
	}
	if len(c.Reserved) > 0 {
		out.WriteString("\n  this would be right:\n    reservedMemory:\n")
		for _, r := range c.Reserved {
			fmt.Fprintf(&out, "      - %s\n", r)
		}
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(&out, "\n  %s %s: %s\n", style.Paint(view.Warn, "warning:"), w.Field, style.Paint(view.Plain, w.Why))
	}
	return out.String()
}

// whom says who of the two minds.
func (p *checkedProblem) whom() string {
	switch {
	case p.Log == "":
		return " (the kubelet starts, and calculates wrongly)"
	case !p.Paddock:
		return " (Paddock has no such limit)"
	}
	return ""
}
