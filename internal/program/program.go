// Package program has the commands of the program paddock, with one file for each. A command parses
// its arguments, calls other packages, and prints the result.
//
// Two programs use them. cmd/paddock links everything, for people at their desks. cmd/paddock-agent
// runs on every node. It does not link the scheduler's allocator and its CEL compiler: a node does
// not need them, and they make up a third of the program's size and half of its start time. Parts
// is the difference between the two.
package program

import (
	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
	"github.com/paddock-project/paddock/internal/codec/claims"
)

// subcommand is a command of the program.
type subcommand interface{ command() *cobra.Command }

func add(to *cobra.Command, commands ...subcommand) {
	for _, c := range commands {
		to.AddCommand(c.command())
	}
}

// Parts are the parts that only some programs link. The zero value is for the program of the
// container image.
type Parts struct {
	// Allocator allocates ResourceClaims of manifests that have no allocation. If nil, a note on
	// the pod names the program that has an allocator.
	Allocator claims.Allocator
	// Pictures draws the answers of fleet. If nil, it has no pictures.
	Pictures *fleetcommand.Pictures
}

// New returns the root command of a program.
func New(parts Parts) *cobra.Command {
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
		Version:       build.Described(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("paddock {{.Version}}\n")
	root.SetFlagErrorFunc(console.FlagError)
	d := decider{allocator: parts.Allocator}
	add(root, &topologyCommand{}, &planCommand{decider: d}, &explainCommand{decider: d}, &reportCommand{}, &defragmentCommand{decider: d}, &replayCommand{},
		&collectCommand{}, &agentCommand{}, &verifyCommand{}, &noiseCommand{}, &podsCommand{}, &mapCommand{decider: d}, &stateCommand{}, &checkConfigCommand{}, &upgradeCheckCommand{}, &trustCommand{}, &ruleCommand{}, &versionCommand{program: "paddock"})
	console.Group(root)
	root.AddCommand(fleetcommand.New(fleetcommand.Program{Name: "paddock", Pictures: parts.Pictures}))
	return root
}
