// Command paddock decides which CPUs and which NUMA nodes' memory the containers of a Kubernetes
// node run on. Package internal/program has its commands. This program adds what people need at
// their desks: it allocates the ResourceClaims of manifests, it draws pictures of fleets, it is a
// plugin of kubectl under the name kubectl-paddock, and it writes manual pages. The container image
// has cmd/paddock-agent instead.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/allocation"
	"github.com/paddock-project/paddock/internal/program"
	"github.com/paddock-project/paddock/internal/program/predictcommand"
	"github.com/paddock-project/paddock/internal/program/quietcommand"
	"github.com/paddock-project/paddock/internal/ui/slide"
	"github.com/paddock-project/paddock/internal/ui/view"
)

func main() {
	root := newRootCommand()
	if isPlugin(os.Args[0]) {
		root = newPluginCommand()
	}
	os.Exit(console.Execute(root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// pictures returns the functions that draw the answers of paddock fleet.
func pictures() *fleetcommand.Pictures {
	return &fleetcommand.Pictures{
		Fleet: func(title string, answer *view.Fleet, views []*fleet.View) fleetcommand.Picture {
			return slide.Fleet(title, answer, views)
		},
		Trials: func(title string, trials []view.Trial) fleetcommand.Picture { return slide.Trials(title, trials) },
		Sizes:  func(title string, answers []view.Fleet) fleetcommand.Picture { return slide.Sizes(title, answers) },
	}
}

func newRootCommand() *cobra.Command {
	root := program.New(program.Parts{Allocator: allocation.New, Pictures: pictures()})
	root.AddCommand(newManCommand(), quietcommand.New(), predictcommand.New())
	return root
}
