// Package program builds the programs that a test runs, from any version of this repository.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds the package with this name, in the module in dir, and writes the program to a file.
// A workspace and C have no effect. Flags are those of go build. The error has what go printed.
func Build(ctx context.Context, dir, file, name string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", file, name)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s in %s: %w: %s", name, dir, err, out)
	}
	return nil
}
