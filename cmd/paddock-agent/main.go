// Command paddock-agent is the program of the container image, in which its name is paddock. It
// runs on every node, and has the commands of internal/program. ResourceClaims of manifests that
// have no allocation, kubectl paddock and the manual pages need cmd/paddock.
package main

import (
	"os"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/program"
)

func main() {
	os.Exit(console.Execute(program.New(program.Parts{}), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
