package program

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
)

// stateRepairCommand is one invocation of paddock state repair.
type stateRepairCommand struct {
	repair      treatment.Repair
	yes, dryRun bool
}

func (c *stateRepairCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair " + filesOrDir,
		Short: "Repair state files with which the kubelet does not start",
		Long: `Repair gives leaked CPUs back to the node shared pool, drops pods that are gone (--pods),
rebuilds the memory accounting, and adapts the files to the machine, the configuration
and the version of the kubelet. It moves no CPU of a running pod: if that were necessary, it names the
pod. It never assigns a CPU to two pods.

If the checksum of a file is wrong, nothing protects its contents. The lines that begin with "check"
then name the pods whose CPUs or memory may be wrong: compare them with the running containers before
you start the kubelet.

In the files about devices, it corrects the checksum, unless a changed file has no pods or one device for
two pods, and drops the device plugins' devices of pods that are gone. It drops no ResourceClaim: the
kubelet needs the entry so that the driver unprepares the claim.

Stop the kubelet first, and give both files of the node. Repair shows the changes and asks before it makes
them. The old files stay beside the new ones as NAME.before-1. For a DIRECTORY, the configuration, the version,
the machine and the pods come from there.

If the files can be of another machine, such as copies on a laptop, it writes nothing: give the machine of the node,
or --same-machine if its machine was changed, for example by a switch of SMT.

Exit codes: 0 repaired or nothing to repair, 1 error, 2 it cannot be repaired, or the files can be of another machine.`,
		Example: `  systemctl stop kubelet
  kubectl get pods -A -o json --field-selector spec.nodeName=$(hostname) > pods.json
  paddock state repair --kubelet-config /var/lib/kubelet/config.yaml --pods pods.json /var/lib/kubelet/*_manager_state`,
		Args: console.Arguments(1, 0, stateFiles),
		RunE: c.run,
	}
	kubeletFlags(cmd, &c.repair.Kubelet)
	podsFlag(cmd, &c.repair.Pods, "all pods of the node; any other pod counts as gone")
	cmd.Flags().StringVar(&c.repair.Save, "save", "", "write into the directory `PATH` instead of in place")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be done, and change nothing")
	return cmd
}

func (c *stateRepairCommand) run(cmd *cobra.Command, names []string) error {
	s := console.StreamsOf(cmd)
	plan, err := c.repair.Plan(s.Reader(), names)
	var other *treatment.OtherMachineError
	if errors.Is(err, doctor.ErrUnmendable) || errors.Is(err, doctor.ErrRejected) || errors.As(err, &other) {
		return &console.ExitError{Code: 2, Err: err}
	}
	if err != nil {
		return err
	}
	s.Notes(plan.Notes)
	if _, err := io.WriteString(s.Stdout, stateview.Repair(plan)); err != nil {
		return err
	}
	if len(plan.Files) > 0 && !c.yes && !c.dryRun {
		if err := confirm(s); err != nil {
			return err
		}
	}
	return replace(s, plan.Files, c.dryRun)
}

// confirm asks the question, after all notes, and returns an error unless the answer is yes.
func confirm(s console.Streams) error {
	if _, err := io.WriteString(s.Stdout, "Write it? [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(s.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil { // The line of the question has not ended.
		_, broken := io.WriteString(s.Stdout, "\n")
		return errors.Join(errors.New("no answer: nothing was changed; --yes skips the question"), broken)
	}
	return errors.New("nothing was changed")
}
