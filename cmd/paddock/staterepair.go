package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/doctor"
	"github.com/paddock-project/paddock/internal/kubeletstate"
)

// stateRepairCommand is one call of paddock state repair.
type stateRepairCommand struct {
	machine machineFlag
	config  kubeletConfig
	kubelet kubeletFlag
	pods    podsFlag
	save    string
	yes     bool
	dryRun  bool
}

func newStateRepairCommand() *cobra.Command {
	var c stateRepairCommand
	cmd := &cobra.Command{
		Use:   "repair FILE...",
		Short: "Make state files on which the kubelet starts out of ones on which it does not",
		Long: `Repair gives leaked CPUs back to the node shared pool, drops pods that are not there any more
(--pods), rebuilds the memory accounting, and adapts the files to the machine, the configuration
and the version of the kubelet as they are. It moves no CPU of a running pod: where that would
be needed it says which pod is in the way. It writes no CPU into the lists of two pods.

Where the checksum of a file is broken nothing protects its content. The lines that begin with "check"
then name the pods whose CPUs or memory may be wrong in it: compare them with what runs before the
kubelet starts.

It shows what changes and asks. What was there is kept beside as NAME.before-1. Name both
files of the node, and stop the kubelet first.

Exit codes: 0 repaired or nothing to repair, 1 error, 2 it cannot be repaired.`,
		Example: `  systemctl stop kubelet
  kubectl get pods -A -o json --field-selector spec.nodeName=$(hostname) > pods.json
  paddock state repair --kubelet-config /var/lib/kubelet/config.yaml --pods pods.json /var/lib/kubelet/*_manager_state`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	c.machine.register(cmd)
	c.config.register(cmd)
	c.kubelet.register(cmd)
	c.pods.register(cmd, "all pods of the node; others are taken for gone")
	cmd.Flags().StringVar(&c.save, "save", "", "write into the directory `PATH` instead of in place")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say what would be done, and do nothing")
	if err := cmd.MarkFlagRequired("kubelet-config"); err != nil {
		panic(err) // The flag was defined above.
	}
	return cmd
}

func (c *stateRepairCommand) run(names []string, stdin io.Reader, stdout io.Writer) error {
	if err := noStdin(names); err != nil {
		return err
	}
	texts, err := readStates(names, stdin)
	if err != nil {
		return err
	}
	setup, err := setupOf(&c.machine, &c.config, &c.kubelet, stdin)
	if err != nil {
		return err
	}
	pods, err := c.pods.load(stdin)
	if err != nil {
		return err
	}
	var alive func(uid string) bool
	if c.pods.given() {
		alive = func(uid string) bool { return pods[uid] != nil && !ended(pods[uid]) }
	}
	old, sound, err := c.read(texts, setup)
	if err != nil {
		return err
	}
	known := doctor.Pods{Alive: alive, Owners: ownersOf(pods), Init: initOf(pods)}
	if sound && allAlive(old, alive) {
		return nothingToRepair(stdout, old)
	}
	now, remarks, err := doctor.Repair(old, setup, known)
	if err != nil {
		return unmendable(err)
	}
	files, err := now.Encode(setup.Kubelet)
	if err != nil {
		return err
	}
	if err := doctor.Check(files, setup); err != nil {
		return unmendable(err)
	}
	said := remarksText(remarks, pods)
	if len(remarks) == 0 {
		said = "nothing changes but version and checksum\n\n"
	}
	return c.write(said, files, texts, stdin, stdout)
}

// read takes files whose checksum need not hold, and tells whether the kubelet starts on them as they are
// and nothing in them is worth repairing.
func (c *stateRepairCommand) read(texts []stateText, setup doctor.Setup) (*doctor.State, bool, error) {
	old, sound := &doctor.State{}, true
	for _, text := range texts {
		f, err := kubeletstate.Recognise(text.data)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w; there is nothing to repair it from: drain the node and delete it", text.name, err)
		}
		if f.Manager != text.manager {
			return nil, false, fmt.Errorf("%s: it is a state of the %s", text.name, f.Manager)
		}
		old.Add(f)
		d := doctor.Verify(text.manager, text.data, setup)
		sound = sound && d.Answer() == doctor.Starts && !slices.ContainsFunc(d.Findings, func(f doctor.Finding) bool { return f.Command != "" })
	}
	return old, sound, nil
}

// nothingToRepair says so, and which files have no checksum that would show a change.
func nothingToRepair(stdout io.Writer, s *doctor.State) error {
	var text strings.Builder
	for _, m := range slices.Sorted(maps.Keys(s.Unprotected)) {
		fmt.Fprintf(&text, "check: the content of the %s's file is not protected (%s)\n", m, s.Unprotected[m])
	}
	text.WriteString("nothing to repair: the kubelet starts on it\n")
	_, err := io.WriteString(stdout, text.String())
	return err
}

// initOf tells of the containers of pods whether they are init containers that end; nil where no pod is known.
func initOf(pods map[string]*v1.Pod) func(uid, container string) bool {
	if pods == nil {
		return nil
	}
	return func(uid, container string) bool {
		pod := pods[uid]
		return pod != nil && slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
			return c.Name == container && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways)
		})
	}
}

// write asks, unless nobody is to be asked, and writes the files.
func (c *stateRepairCommand) write(said string, files map[kubeletstate.Manager][]byte, texts []stateText, stdin io.Reader, stdout io.Writer) error {
	if !c.yes && !c.dryRun {
		if err := askToWrite(stdin, stdout, said); err != nil {
			return err
		}
		said = ""
	}
	return finish(stdout, said, toKubelet(files, c.save, texts), c.dryRun)
}

// unmendable is an answer of no.
func unmendable(err error) error {
	if errors.Is(err, doctor.ErrUnmendable) || errors.Is(err, doctor.ErrRefused) {
		return &exitError{code: 2, err: err}
	}
	return err
}

func allAlive(s *doctor.State, alive func(uid string) bool) bool {
	for _, uid := range s.Pods() {
		if alive != nil && !alive(uid) {
			return false
		}
	}
	return true
}

// askToWrite returns an error unless somebody says yes.
func askToWrite(stdin io.Reader, stdout io.Writer, said string) error {
	if _, err := io.WriteString(stdout, said+"Write it? [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil { // the question stands on a line without end
		_, broken := io.WriteString(stdout, "\n")
		return errors.Join(errors.New("no answer, so nothing was changed; --yes does not ask"), broken)
	}
	return errors.New("nothing was changed")
}
