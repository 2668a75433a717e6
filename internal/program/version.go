package program

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/edition"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// NewVersion returns the command version of a program.
func NewVersion(name string) *cobra.Command { return (&versionCommand{program: name}).command() }

// versionCommand is one invocation of paddock version.
type versionCommand struct {
	program string
	output  console.Form
}

func (c *versionCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and what it is compatible with",
		Long: `Version prints the version of this program, the commit that it was built from, and the Go that
built it. It also prints the kubelets whose decisions the program predicts, and the versions of the
formats that it reads and writes.`,
		Example: `  paddock version -o json`,
		Args:    console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e := edition.Of(c.program)
			return console.StreamsOf(cmd).Document(c.output.Value, console.Version, e, e.Text)
		},
	}
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

// built returns the labels of paddock_build_info.
func built() telemetry.Build {
	return telemetry.Build{Version: build.Version(), Revision: build.Revision(), GoVersion: runtime.Version()}
}
