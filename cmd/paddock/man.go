package main

import (
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/program"
)

// newManCommand returns the command man, which is for packagers; see "make man".
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages, one per command, into a directory",
		Hidden: true,
		Args:   console.Arguments(1, 1, "the directory to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Use the date of the commit, so that the same commit gives the same pages.
			date := time.Unix(0, 0).UTC()
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
						date = at
					}
				}
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "Paddock " + program.Version(), Manual: "Paddock", Date: &date}, args[0])
		},
	}
}
