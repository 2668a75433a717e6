// Command paddock decides which CPUs and which NUMA nodes' memory the containers of a
// Kubernetes node run on.
//
// Every command reads the files that it is given, prints its result on standard output and ends
// with 0. An error is a line on standard error that starts with "paddock:", one for each problem of
// manifests, and the command ends with 1. A command whose answer is no ends with 2.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
)

func main() {
	root := newRootCommand()
	if isPlugin(os.Args[0]) {
		root = newPluginCommand()
	}
	os.Exit(console.Execute(root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// subcommand is a command of the program.
type subcommand interface{ command() *cobra.Command }

func add(to *cobra.Command, commands ...subcommand) {
	for _, c := range commands {
		to.AddCommand(c.command())
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "paddock",
		Short: "NUMA-aligned pools and exclusive CPUs for Kubernetes pods",
		Long: `Paddock decides which CPUs and which NUMA nodes' memory each container of a Kubernetes
node runs on. A pod with a budget of its own gets one NUMA-aligned pool. Containers that
qualify get an exclusive slice of this pool, and the other containers share the rest.

Exit codes: 0 done, 1 error, 2 the answer is no.

Tables are as wide as the terminal, or 120 columns where there is none. COLUMNS=N sets the
width; with COLUMNS=0 every row is one line.`,
		Example: `  # What does this machine look like to the kubelet?
  paddock topology

  # Record it, to plan for it elsewhere.
  paddock topology -o json > node7.json

  # Which pods would get what there, and which would be rejected?
  paddock plan --machine node7.json --kubelet-config kubelet.yaml pods/`,
		Version:       build().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("paddock {{.Version}}\n")
	root.SetFlagErrorFunc(console.FlagError)
	add(root, &topologyCommand{}, &planCommand{}, &explainCommand{}, &reportCommand{}, &defragmentCommand{}, &replayCommand{}, &agentCommand{}, &verifyCommand{},
		&podsCommand{}, &mapCommand{}, &stateCommand{}, &checkConfigCommand{}, &ruleCommand{}, &versionCommand{}, &manCommand{})
	root.AddCommand(fleetcommand.New(fleetcommand.Program{Name: "paddock"}))
	return root
}
