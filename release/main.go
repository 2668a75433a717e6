// Command release makes the releases of Paddock and checks them. docs/release.md has the steps.
//
//	release commit  makes the commit of a release, for review
//	release key     makes a key to sign with
//	release make    builds everything that a release has into one folder, and signs it
//	release check   verifies a folder, uses it, builds it again, and compares every byte
//
// The same commit, built by the same version of Go, gives the same folder on every machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/release/process"
	"github.com/paddock-project/paddock/release/vulnerabilities"
)

// options are what the flags set. Not every command has every flag.
type options struct {
	repository, version string
	// dir is the folder that is made or checked.
	dir                      string
	registry, key, publicKey string
	skip, database           string
	// recorded are the known vulnerabilities that an earlier build of the release recorded.
	recorded []byte
}

// subcommands are the commands by their names.
var subcommands = map[string]struct {
	flags []string
	run   func(context.Context, options, io.Writer) error
}{
	"commit": {[]string{"repository", "version"}, commit},
	"key":    {[]string{"key"}, makeKey},
	"make":   {[]string{"repository", "version", "output", "registry", "key", "vulnerabilities"}, makeRelease},
	"check":  {[]string{"repository", "version", "folder", "public-key", "skip"}, check},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second interrupt ends the program at once.
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "release: %s\n", problem(err))
		os.Exit(1)
	}
}

// problem describes an error. What an interrupt stopped is of no interest.
func problem(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return err.Error()
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	const expected = "expected commit, key, make or check"
	if len(args) == 0 {
		return errors.New("no command: " + expected)
	}
	c, ok := subcommands[args[0]]
	if !ok {
		return fmt.Errorf("command %q: %s", args[0], expected)
	}
	var o options
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	define := func(name, value, usage string, to *string) {
		if slices.Contains(c.flags, name) {
			flags.StringVar(to, name, value, usage)
		}
	}
	define("repository", "..", "a clone of the repository", &o.repository)
	define("version", "", "the version of the release, such as v0.1.0", &o.version)
	define("output", "", "the folder to make (default bin/release/VERSION)", &o.dir)
	define("registry", "localhost", "where the images will be: the registry, and a path in it", &o.registry)
	define("key", "", "the private key, a PEM file (default paddock-release/key.pem in the user's configuration)", &o.key)
	define("folder", "", "the folder to check (default bin/release/VERSION)", &o.dir)
	define("public-key", "", "the public key that you trust, a PEM file (default that of the folder, which proves nothing about who signed)", &o.publicKey)
	define("skip", "", "steps to leave out, separated by commas: cluster, rebuild", &o.skip)
	define("vulnerabilities", vulnerabilities.Database, "the database of known vulnerabilities: an address, or file:// and the directory of a copy", &o.database)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("argument %q: expected only flags, see --help", flags.Arg(0))
	}
	return c.run(ctx, o, stdout)
}

// command runs a program in a directory with variables beside those of this process, and returns
// what it prints. The error has the end of what it printed.
func command(ctx context.Context, dir string, environment []string, name string, args ...string) (string, error) {
	out, stderr, err := process.Output(ctx, dir, environment, name, args...)
	if err != nil {
		text := strings.TrimSpace(string(out) + "\n" + string(stderr))
		err = fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args[:min(len(args), 3)], " "), err)
		if text != "" {
			err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
		}
		return text, err
	}
	return string(out), nil
}
