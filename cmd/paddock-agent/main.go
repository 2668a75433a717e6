// Command paddock-agent is the program of the container image, where its name is paddock. It runs
// on every node and has the commands of internal/program. To allocate ResourceClaims of manifests,
// to use kubectl paddock, or to write manual pages, use cmd/paddock.
package main

import (
	"os"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/program"
)

func main() {
	os.Exit(console.Execute(program.New(program.Parts{}), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
