package program

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// versionCommand is one invocation of paddock version.
type versionCommand struct{ output console.Form }

func (c *versionCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    "Version prints the version of this program, the commit that it was built from, and the Go that built it.",
		Example: `  paddock version -o json`,
		Args:    console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version{Version(), build().Revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return console.StreamsOf(cmd).Document(c.output.Value, console.Version, v, func() string {
				text := fmt.Sprintf("paddock %s\n", v.Version)
				if v.Revision != "" {
					text += fmt.Sprintf("commit  %s\n", v.Revision)
				}
				return text + fmt.Sprintf("built   with %s for %s\n", v.Go, v.Platform)
			})
		},
	}
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"goVersion"`
	Platform string `json:"platform"`
}

// Version returns the module's version as the Go tool recorded it, or "devel" if the tool did not
// record one.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func build() telemetry.Build {
	b := telemetry.Build{Version: fmt.Sprintf("%s (%s, %s/%s)", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH), GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
