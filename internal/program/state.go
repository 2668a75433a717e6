package program

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/node/replacement"
	"github.com/paddock-project/paddock/internal/node/store"
)

// stateCommand is paddock state. Its subcommands do the work.
type stateCommand struct{}

func (*stateCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		SuggestionsMinimumDistance: 2,

		Use:   "state",
		Short: "Read, compare, verify, convert and repair the kubelet's state files",
		Long: `State works on the files in which the kubelet records the CPUs and the memory of containers:

  /var/lib/kubelet/cpu_manager_state
  /var/lib/kubelet/memory_manager_state

and on those in which it records the devices of pods, from DRA drivers and device plugins:

  /var/lib/kubelet/dra_manager_state
  /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint

In place of the files, show, verify, convert and repair take the kubelet's directory, or a folder that the script
of "paddock collect" made. The machine, the configuration, the version and the pods then come from there too, if
they are there.

It needs no cluster and no agent. show, diff and verify only read the files. convert and repair first
show what they will do, and keep the old file beside the new one.`,
		Example: `  # "checkpoint is corrupted", "cannot unmarshal object", "doesn't match with CPUs in state":
  paddock state verify --kubelet-config /var/lib/kubelet/config.yaml /var/lib/kubelet/*_manager_state`,
	}
	console.Group(cmd)
	add(cmd, &stateShowCommand{}, &stateDiffCommand{}, &stateVerifyCommand{}, &stateConvertCommand{}, &stateRepairCommand{})
	return cmd
}

// filesOrDir are the arguments of a command about state files.
const filesOrDir = "FILE... | DIRECTORY"

// stateFiles describes these arguments in an error.
const stateFiles = "the state files of one node, or the kubelet's directory, such as /var/lib/kubelet"

// kubeletConfigFlag defines --kubelet-config for the kubelet's own configuration.
func kubeletConfigFlag(flags *pflag.FlagSet, name *string) {
	flags.StringVar(name, "kubelet-config", "", "the kubelet's own configuration: a KubeletConfiguration `FILE`, the answer of its /configz, "+
		"or a directory with one of these and drop-ins")
}

// kubeletFlags defines the flags that describe a kubelet.
func kubeletFlags(cmd *cobra.Command, k *treatment.Kubelet) {
	machineFlag(cmd, &k.Machine)
	sameMachineFlag(cmd, &k.SameMachine)
	kubeletConfigFlag(cmd.Flags(), &k.Config)
	cmd.Flags().StringVar(&k.Version, "kubelet", "", "the kubelet's `VERSION`, from 1.21 to 1.37; by default the one that the node.json of a DIRECTORY names, or "+treatment.DefaultVersion+" for a FILE")
}

// sameMachineFlag defines --same-machine.
func sameMachineFlag(cmd *cobra.Command, same *bool) {
	cmd.Flags().BoolVar(same, "same-machine", false, "the files are of this machine, which was changed after they were written: without it, the answer is unsure if its CPUs, NUMA nodes or memory are not those of the files")
}

// podsFlag defines --pods.
func podsFlag(cmd *cobra.Command, paths *[]string, use string) {
	cmd.Flags().StringSliceVar(paths, "pods", nil, use+": `FILES` or directories of manifests, the output of kubectl get pods -o json, or of the kubelet's /pods")
}

// replace writes the files of a plan, unless it is a dry run, and prints their names.
func replace(s console.Streams, files []*replacement.File, dryRun bool) error {
	if !dryRun {
		if err := replacement.All(store.OS(), files); err != nil {
			return err
		}
	}
	for _, f := range files {
		line := "written: " + f.Path
		switch {
		case dryRun:
			line = "would be written: " + f.Path
		case f.Kept != "":
			line += "; what was there is " + f.Kept
		}
		if _, err := fmt.Fprintln(s.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}
