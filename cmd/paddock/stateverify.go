package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/doctor"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/view"
)

// stateVerifyCommand is one call of paddock state verify.
type stateVerifyCommand struct {
	machine machineFlag
	config  kubeletConfig
	kubelet kubeletFlag
	output  outputFlag
}

func newStateVerifyCommand() *cobra.Command {
	var c stateVerifyCommand
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Say whether a kubelet would start on state files, and if not, why",
		Long: `Verify checks state files against all rules of the kubelet's own start: format, version and
checksum, policy, reserved CPUs, overlaps, leaked and unknown CPUs, the memory accounting. Every
finding has its cause, what to do, and the sentence in the kubelet's log.

--kubelet-config is the configuration that this kubelet runs with; its gate
PodLevelResourceManagers counts. Without it only what needs none is looked at, and the gate
is taken to be as it was when the file was written.

Exit codes: 0 it starts, 2 it does not, 1 that could not be told.`,
		Example: `  paddock state verify --kubelet-config /var/lib/kubelet/config.yaml /var/lib/kubelet/*_manager_state
  # May this node be downgraded?
  paddock state verify --kubelet 1.35 --kubelet-config config.yaml --machine node7.json cpu_manager_state`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	c.machine.register(cmd)
	c.config.register(cmd)
	c.kubelet.register(cmd)
	c.output.register(cmd, "table", "json")
	return cmd
}

func (c *stateVerifyCommand) run(names []string, stdin io.Reader, stdout io.Writer) error {
	texts, err := readStates(names, stdin)
	if err != nil {
		return err
	}
	setup, err := setupOf(&c.machine, &c.config, &c.kubelet, stdin)
	if refused := (*kubeletcfg.RefusedError)(nil); errors.As(err, &refused) && allOfKubelet(refused) {
		return &exitError{code: 2, err: fmt.Errorf("the kubelet does not start with this configuration, whatever its state: %w", err)}
	}
	if err != nil {
		return err
	}
	var verified []verifiedState
	for _, text := range texts {
		s := setup
		if c.config.name == "" {
			s.Kubelet.PodLevelManagers = s.Kubelet.Minor >= 36 && writtenWithGate(text)
		}
		verified = append(verified, verifiedState{text.name, s.Kubelet, doctor.Verify(text.manager, text.data, s)})
	}
	if err := c.print(verified, stdout); err != nil {
		return err
	}
	return exitOf(verified)
}

// exitOf is 2 if one file stops the kubelet, else 1 if of one it cannot be told.
func exitOf(verified []verifiedState) error {
	code := 0
	for _, v := range verified {
		switch v.diagnosis.Answer() {
		case doctor.Refuses:
			code = 2
		case doctor.Unsure:
			code = max(code, 1)
		case doctor.Starts:
		}
	}
	if code > 0 {
		return &exitError{code: code}
	}
	return nil
}

// setupOf is the kubelet that the flags describe.
func setupOf(from *machineFlag, config *kubeletConfig, version *kubeletFlag, stdin io.Reader) (doctor.Setup, error) {
	minor, err := version.minor()
	if err != nil {
		return doctor.Setup{}, err
	}
	found, err := from.load(stdin)
	if err != nil {
		return doctor.Setup{}, err
	}
	policy, err := config.load(found.Machine, stdin)
	if err != nil {
		return doctor.Setup{}, err
	}
	s := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: minor}, Machine: found.Machine, Policy: policy}
	if policy != nil {
		if minor < 36 && policy.PodLevelManagers {
			return s, fmt.Errorf("%s: the feature gate PodLevelResourceManagers is on, which kubelet 1.%d does not know: it does not start with it; remove the gate", config.name, minor)
		}
		s.Kubelet.PodLevelManagers = policy.PodLevelManagers
	}
	return s, nil
}

// allOfKubelet tells whether everything that is wrong is a refusal of the kubelet, and not of
// Paddock alone.
func allOfKubelet(e *kubeletcfg.RefusedError) bool {
	for _, p := range e.Problems {
		if p.Kubelet == "" {
			return false
		}
	}
	return true
}

// writtenWithGate tells whether a 1.36 with the gate wrote the file, or a 1.37 with pools.
func writtenWithGate(text stateText) bool {
	f, err := kubeletstate.Recognise(text.data)
	return err == nil && f.Version >= text.manager.PoolsSince()
}

// verifiedState is a file with its diagnosis.
type verifiedState struct {
	name      string
	kubelet   kubeletstate.Kubelet
	diagnosis *doctor.Diagnosis
}

type shownFinding struct {
	Level   string `json:"level"`
	Rule    string `json:"rule"`
	What    string `json:"what"`
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`
}

type shownDiagnosis struct {
	File     string         `json:"file"`
	Manager  string         `json:"manager"`
	Version  string         `json:"version,omitempty"`
	Kubelet  string         `json:"kubelet"`
	Answer   string         `json:"answer"`
	Findings []shownFinding `json:"findings"`
}

func (c *stateVerifyCommand) print(verified []verifiedState, stdout io.Writer) error {
	if c.output.value == "table" {
		var out strings.Builder
		for i, v := range verified {
			if i > 0 {
				out.WriteByte('\n')
			}
			v.text(&out, styleFor(stdout))
		}
		_, err := io.WriteString(stdout, out.String())
		return err
	}
	shown := []shownDiagnosis{}
	for _, v := range verified {
		s := shownDiagnosis{File: v.name, Manager: v.diagnosis.Manager.String(), Kubelet: v.kubelet.String(), Answer: v.diagnosis.Answer().String(), Findings: []shownFinding{}}
		if f := v.diagnosis.File; f != nil {
			s.Version = f.Version.String()
		}
		for _, f := range v.diagnosis.Findings {
			s.Findings = append(s.Findings, shownFinding{f.Level.String(), f.Rule, f.What, f.Do, f.Command, f.Kubelet})
		}
		shown = append(shown, s)
	}
	data, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		return err
	}
	_, err = stdout.Write(append(data, '\n'))
	return err
}

// text is a diagnosis for reading: the answer first.
func (v *verifiedState) text(out *strings.Builder, style view.Style) {
	answer, tone := "starts on it", view.Good
	switch v.diagnosis.Answer() {
	case doctor.Refuses:
		answer, tone = "does not start on it", view.Bad
	case doctor.Unsure:
		answer, tone = "may start on it or not: that cannot be told", view.Warn
	case doctor.Starts:
	}
	fmt.Fprintf(out, "%s: kubelet %s %s\n", style.Paint(view.Strong, v.name), style.Paint(view.Plain, v.kubelet.String()), style.Paint(tone, answer))
	for _, f := range v.diagnosis.Findings {
		tone := view.Bad
		switch f.Level {
		case doctor.Note:
			tone = view.Faint
		case doctor.Doubt:
			tone = view.Warn
		case doctor.Fault:
		}
		fmt.Fprintf(out, "\n  %s %s (%s)\n", style.Paint(tone, f.Level.String()+":"), style.Paint(view.Plain, f.What), f.Rule)
		fmt.Fprintf(out, "    do: %s\n", style.Paint(view.Plain, f.Do))
		if f.Kubelet != "" {
			fmt.Fprintf(out, "    log: %s\n", style.Paint(view.Faint, f.Kubelet))
		}
	}
}
