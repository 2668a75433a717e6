package program

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
)

// stateVerifyCommand is one invocation of paddock state verify.
type stateVerifyCommand struct {
	kubelet treatment.Kubelet
	pods    []string
	output  console.Form
}

func (c *stateVerifyCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify " + filesOrDir,
		Short: "Show whether a kubelet would start with state files, and if not, why",
		Long: `Verify checks state files against all rules of the kubelet's own start: format, version and
checksum, policy, reserved CPUs, overlaps, leaked and unknown CPUs, the memory accounting. Every
finding has its cause, what to do, and the sentence in the kubelet's log.

It reads the files about devices as well, dra_manager_state and device-plugins/kubelet_internal_checkpoint.
By comparing the files, it finds devices that two pods have, and devices on other NUMA nodes than the
CPUs of their pod. With --pods, it names pods that are gone but still have entries.

--kubelet-config is the configuration that this kubelet runs with; its gate
PodLevelResourceManagers matters. Without it, and with FILES, verify makes only the checks that need no configuration,
and assumes that the gate is as it was when the file was written. For a DIRECTORY, nothing is assumed: what is
neither there nor given is an error.

With FILES, the question is whether the kubelet starts with them on the machine. If the files of a DIRECTORY can
be of another machine, that is unknown.

Exit codes: 0 the kubelet starts, 1 error, or it is unknown whether it starts, 2 it does not start, or it
starts without a damaged kubelet_internal_checkpoint and gives the devices of running pods to others.`,
		Example: `  paddock state verify --kubelet-config /var/lib/kubelet/config.yaml /var/lib/kubelet/*_manager_state
  paddock state verify ./paddock-node7                     # see paddock collect
  # May this node be downgraded?
  paddock state verify --kubelet 1.35 --kubelet-config config.yaml --machine node7.json cpu_manager_state`,
		Args: console.Arguments(1, 0, stateFiles),
		RunE: c.run,
	}
	kubeletFlags(cmd, &c.kubelet)
	podsFlag(cmd, &c.pods, "all pods of the node; any other pod counts as gone")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *stateVerifyCommand) run(cmd *cobra.Command, names []string) error {
	s := console.StreamsOf(cmd)
	from, err := treatment.Sources{Names: names, Kubelet: c.kubelet, Pods: c.pods}.Complete(s.Reader(), treatment.NeedVersion)
	if err != nil {
		return err
	}
	texts, err := treatment.Read(s.Reader(), from.Names)
	if err != nil {
		return err
	}
	setup, notes, err := from.Kubelet.Setup(s.Reader())
	s.Notes(notes)
	if treatment.KubeletRejects(err) {
		return &console.ExitError{Code: 2, Err: fmt.Errorf("the kubelet does not start with this configuration, whatever its state: %w", err)}
	}
	if err != nil {
		return err
	}
	verified := treatment.Verify(texts, setup, from.Roster)
	if from.InFolder { // FILES with a machine ask about that machine.
		verified, _ = from.Found().Verify(texts, setup)
	}
	shown := stateview.VerifiedOf(verified)
	if err := s.Document(c.output.Value, console.StateCheck, shown, func() string { return shown.Text(s.Style()) }); err != nil {
		return err
	}
	codes := map[doctor.Answer]int{doctor.Rejects: 2, doctor.StartsWithout: 2, doctor.Unsure: 1}
	if code := codes[treatment.Answer(verified)]; code > 0 {
		return &console.ExitError{Code: code}
	}
	return nil
}
