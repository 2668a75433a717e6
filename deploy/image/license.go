package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/paddock-project/paddock/deploy/image/licenses"
)

// writeLicenses writes a text for each program: the licenses of everything that it links on all its
// platforms. source is a directory for a clone.
func writeLicenses(ctx context.Context, repository, source, dir string, stdout io.Writer) error {
	if err := checkOut(ctx, repository, source); err != nil {
		return err
	}
	version, err := versionOf(ctx, source)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, of := range []struct {
		commands  []command
		platforms []v1.Platform
	}{{[]command{desk}, desks}, {commands, nodes}} {
		for _, c := range of.commands {
			all, err := c.licenses(ctx, source, of.platforms...)
			if err != nil {
				return err
			}
			program := path.Base(c.main)
			name := filepath.Join(dir, program+".txt")
			if err := os.WriteFile(name, licenses.Text(program, version, string(license), runtime.Version(), all), 0o644); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(stdout, "%s: %d modules, all under licenses that are allowed\n", name, len(all)); err != nil {
				return err
			}
		}
	}
	return nil
}
