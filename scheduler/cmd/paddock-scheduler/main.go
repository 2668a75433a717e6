// Command paddock-scheduler is a kube-scheduler with the plugin Paddock. It has the flags of
// kube-scheduler. The plugin does nothing unless a profile of the KubeSchedulerConfiguration
// enables it.
//
// With fleet as its first argument, the command works like paddock fleet, except that pods also
// obey topology spread and pod affinity.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
	"github.com/paddock-project/paddock/scheduler/constraints"
	"github.com/paddock-project/paddock/scheduler/duties"
	"github.com/paddock-project/paddock/scheduler/plugin"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "fleet" {
		os.Exit(console.Execute(offline(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	command := app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.Factory(plugin.FromAPI, duties.Start)))
	emulateServer(command)
	command.Use = "paddock-scheduler"
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		fmt.Println(version())
		return
	}
	command.Long += `

"paddock-scheduler fleet" places pods on many nodes without a cluster: see paddock-scheduler fleet --help.`
	os.Exit(cli.Run(command))
}

// offline returns the command for use without a scheduler.
func offline() *cobra.Command {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError) // Libraries define flags there, which every command would have.
	root := &cobra.Command{
		Use:           "paddock-scheduler",
		Short:         "A kube-scheduler that knows NUMA nodes, and questions about a fleet",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(console.FlagError)
	root.AddCommand(fleetcommand.New(fleetcommand.Program{Name: "paddock-scheduler", Check: constraints.Check, Rules: constraints.New}))
	return root
}

// version returns this module's version and that of the kube-scheduler in it. Kubernetes' own
// version string is set only in Kubernetes' own builds.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "paddock-scheduler (unknown version)"
	}
	kubernetes := "unknown"
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			kubernetes = m.Version
		}
	}
	return fmt.Sprintf("paddock-scheduler %s, kube-scheduler %s", info.Main.Version, kubernetes)
}
