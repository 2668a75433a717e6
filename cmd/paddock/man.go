package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/console"
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
			if at, ok := build.Time(); ok {
				date = at
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "Paddock " + build.Version(), Manual: "Paddock", Date: &date}, args[0])
		},
	}
}
