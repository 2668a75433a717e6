// Command image builds Paddock's container images without Docker and without a base image: one
// static binary for each platform, an OCI archive that containerd, Podman and Docker read, and a
// bill of materials in the image (SPDX) and beside it (SPDX and CycloneDX). With -krew it builds the
// archives of the kubectl plugin instead, and with -licenses it builds nothing and collects the
// licenses of everything that the programs link.
//
// The same commit, built by the same version of Go, gives the same bytes on every machine. The
// source is a clean clone. Only files that are neither committed nor ignored change the result, and
// the version then ends in "+dirty".
package main

import (
	"cmp"
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

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// command is a command that can be built.
type command struct {
	// name is the name under which the command is installed.
	name, description string
	// module is the directory of the Go module in the repository. main is the directory of the
	// package in the module.
	module, main string
	user         string
}

var (
	agent = command{
		name: "paddock", description: "Aligned CPUs and memory for whole pods, beside a kubelet whose managers are off",
		main: "cmd/paddock-agent",
		// The runtime's socket and the cgroups belong to root (deploy/README.md, "Privileges").
		user: "0:0",
	}
	scheduler = command{
		name: "paddock-scheduler", description: "A kube-scheduler that asks the planner of each node", module: "scheduler", main: "cmd/paddock-scheduler",
		// This is not the user of any machine. The scheduler only asks the API server and has no
		// files.
		user: "65532:65532",
	}
	quiet = command{
		name: "paddock-quiet", description: "Keeps interrupts and the kernel's work away from exclusive CPUs", main: "cmd/paddock-quiet",
		// The kernel's files belong to root (deploy/README.md, "Quiet CPUs").
		user: "0:0",
	}
	// commands are the commands with an image.
	commands = []command{agent, scheduler, quiet}
	// desk is the program for people, with the kubectl plugin.
	desk = command{name: "paddock", main: "cmd/paddock"}
)

// localName is the name that deploy/ and the chart use. A cluster without a registry imports it.
func (c command) localName() string { return "localhost/" + c.name + ":dev" }

type options struct {
	command    command
	repository string
	output     string
	name       string
	krew       string
	programs   string
	licenses   string
	platforms  []v1.Platform
	version    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "paddock-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if o.version {
		return printVersion(ctx, o.repository, filepath.Join(work, "source"), stdout)
	}
	if o.licenses != "" {
		return writeLicenses(ctx, o.repository, filepath.Join(work, "source"), o.licenses, stdout)
	}
	if o.krew != "" {
		binaries, err := writeKrew(ctx, o.repository, work, o.krew)
		if err != nil {
			return err
		}
		if err := writePrograms(o.programs, binaries); err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "%s: kubectl paddock for %d platforms; install it with kubectl krew install --manifest=%s --archive=ARCHIVE\n",
			o.krew, len(desks), filepath.Join(o.krew, "paddock.yaml"))
		return err
	}
	binaries, err := build(ctx, o.command, o.repository, work, o.platforms)
	if err != nil {
		return err
	}
	img, err := assemble(binaries)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
		return err
	}
	if err := writeArchive(o.output, filepath.Join(work, "layout"), o.name, img.index); err != nil {
		return err
	}
	digest, err := img.index.Digest()
	if err != nil {
		return err
	}
	report := fmt.Sprintf("%s: %s %s, version %s\n", o.output, o.name, digest, binaries[0].version)
	for i, b := range binaries {
		name := sbomName(o.output, b.platform)
		if err := img.sboms[i].write(name); err != nil {
			return err
		}
		report += fmt.Sprintf("%s: what %s is made of\n", name, b.platform)
	}
	if err := writePrograms(o.programs, binaries); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, report)
	return err
}

func parse(args []string) (options, error) {
	o := options{}
	var platforms, name string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.repository, "repository", "../..", "the git repository to build")
	flags.StringVar(&name, "command", agent.name, "what the image has: paddock, paddock-scheduler or paddock-quiet")
	flags.StringVar(&o.output, "output", "", "the OCI archive to write; the bills of materials are beside it (default ../../bin/COMMAND-image.tar)")
	flags.StringVar(&o.name, "name", "", "the image's name in the archive, with a tag (default localhost/COMMAND:dev)")
	flags.StringVar(&o.krew, "krew", "", "make no image, but the archives and the manifest of the kubectl plugin, in this directory")
	flags.StringVar(&o.programs, "programs", "", "write the programs themselves, too, with their bills of materials, into this directory")
	flags.StringVar(&o.licenses, "licenses", "", "build nothing, and write the licenses of what each program links into this directory; a license that is not allowed is an error")
	flags.BoolVar(&o.version, "print-version", false, "build nothing, and print the version that the programs would have")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("argument %q: expected only flags, see --help", flags.Arg(0))
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return o, fmt.Errorf("-command: %q: expected paddock, paddock-scheduler or paddock-quiet", name)
	}
	o.command = commands[i]
	o.name = cmp.Or(o.name, o.command.localName())
	o.output = cmp.Or(o.output, "../../bin/"+name+"-image.tar")
	if _, _, err := splitName(o.name); err != nil {
		return o, err
	}
	for _, text := range strings.Split(platforms, ",") {
		p, err := v1.ParsePlatform(text)
		if err != nil || p.OS != "linux" || (p.Architecture != "amd64" && p.Architecture != "arm64") || p.Variant != "" {
			return o, fmt.Errorf("-platforms: %q: expected linux/amd64 or linux/arm64", text)
		}
		o.platforms = append(o.platforms, *p)
	}
	return o, nil
}

// sbomName returns the name of the file beside the archive that has the bill of materials of a
// platform.
func sbomName(archive string, p v1.Platform) string {
	return strings.TrimSuffix(archive, ".tar") + "-" + p.Architecture + ".spdx.json"
}
