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

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/edition"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
	"github.com/paddock-project/paddock/scheduler/constraints"
	"github.com/paddock-project/paddock/scheduler/duties"
	"github.com/paddock-project/paddock/scheduler/plugin"
)

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "fleet" || os.Args[1] == "version") {
		os.Exit(console.Execute(offline(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	command := app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.Factory(plugin.FromAPI, duties.Start)))
	emulateServer(command)
	command.Use = "paddock-scheduler"
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		fmt.Println("paddock-scheduler", build.Described("kube-scheduler "+kubeScheduler()))
		return
	}
	command.Long += `

"paddock-scheduler fleet" places pods on many nodes without a cluster: see paddock-scheduler fleet --help.
"paddock-scheduler version" prints the version and what it is compatible with.`
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
	root.AddCommand(fleetcommand.New(fleetcommand.Program{Name: "paddock-scheduler", Check: constraints.Check, Rules: constraints.New}), newVersionCommand())
	return root
}

// kubeScheduler returns the version of the kube-scheduler in this program. Kubernetes' own version
// string is set only in Kubernetes' own builds.
func kubeScheduler() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// newVersionCommand returns the command version, which works like paddock version.
func newVersionCommand() *cobra.Command {
	var output console.Form
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and what it is compatible with",
		Args:  console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e := edition.Of("paddock-scheduler")
			e.KubeScheduler = kubeScheduler()
			return console.StreamsOf(cmd).Document(output.Value, console.Version, e, e.Text)
		},
	}
	output.Register(cmd, "text", "json", "yaml")
	return cmd
}
