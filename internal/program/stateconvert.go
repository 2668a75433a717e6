package program

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
)

// stateConvertCommand is one invocation of paddock state convert.
type stateConvertCommand struct {
	conversion treatment.Conversion
	dryRun     bool
}

func (c *stateConvertCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert --to TARGET " + filesOrDir,
		Short: "Make state files for another kubelet, or for Paddock",
		Long: `Convert rewrites the CPU and memory state files of one kubelet for another one, so that an upgrade,
a downgrade or a switch of the gate PodLevelResourceManagers needs no drain. It shows what the new
kubelet does with every pod, and names everything that the new files cannot contain. Before 1.36, and
with the gate off, they cannot contain pools of pods: the containers keep their parts of the pools.

TARGET is one of ` + strings.Join(treatment.Targets(), ", ") + `.
1.36 and 1.37 mean kubelets with the gate on.

Stop the kubelet first, and give both files of the node. They are replaced in place, unless --save
names another directory. The old files stay beside them as NAME.before-1. With --kubelet-config, the
configuration of the new kubelet, they are written only if that kubelet would start with them.

From kubelet to paddock, --save names the file, --machine and --kubelet-config are those of the
agent, and --pods must name every running pod. From paddock to kubelet, FILE is the state of
the agent, --machine its machine, and --save the directory.

A DIRECTORY means the two files in it. If they are there, these are used too: the machine, the configuration for a
kubelet, the pods.

Exit codes: 0 done, 1 error, 2 the new kubelet would not start with the files.`,
		Example: `  systemctl stop kubelet
  paddock state convert --to kubelet-1.35 --dry-run /var/lib/kubelet/*_manager_state
  paddock state convert --to kubelet-1.35 /var/lib/kubelet/*_manager_state`,
		Args: console.Arguments(1, 0, stateFiles),
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&c.conversion.To, "to", "", "the kubelet or program to convert the files for, a `TARGET`")
	flags.StringVar(&c.conversion.Save, "save", "", "write into the directory `PATH`, or, for Paddock, to the file")
	flags.BoolVar(&c.dryRun, "dry-run", false, "show what would be done, and change nothing")
	machineFlag(cmd, &c.conversion.Machine)
	kubeletConfigFlag(flags, &c.conversion.Config)
	podsFlag(cmd, &c.conversion.Pods, "the pods that have the UIDs")
	console.CompleteWords(cmd, "to", treatment.Targets()...)
	console.Require(cmd, "to", "the new kubelet or program: "+spelling.Or(treatment.Targets()))
	return cmd
}

func (c *stateConvertCommand) run(cmd *cobra.Command, names []string) error {
	s := console.StreamsOf(cmd)
	plan, err := c.conversion.Plan(s.Reader(), names)
	if plan != nil {
		s.Notes(plan.Notes)
	}
	if errors.Is(err, doctor.ErrRejected) {
		return &console.ExitError{Code: 2, Err: err}
	}
	if err != nil {
		return err
	}
	if _, err := io.WriteString(s.Stdout, stateview.Conversion(plan, s.Style())); err != nil {
		return err
	}
	return replace(s, plan.Files, c.dryRun)
}
