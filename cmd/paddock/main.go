// Command paddock decides which CPUs and which NUMA nodes' memory the containers of a Kubernetes
// node run on. Package internal/program has its commands. This program adds what people need at
// their desks: it allocates the ResourceClaims of manifests, it is a plugin of kubectl under the
// name kubectl-paddock, and it writes manual pages. The container image has cmd/paddock-agent
// instead.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/codec/allocation"
	"github.com/paddock-project/paddock/internal/program"
)

func main() {
	root := newRootCommand()
	if isPlugin(os.Args[0]) {
		root = newPluginCommand()
	}
	os.Exit(console.Execute(root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func newRootCommand() *cobra.Command {
	root := program.New(program.Parts{Allocator: allocation.New})
	root.AddCommand(newManCommand())
	return root
}
