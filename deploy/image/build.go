package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/paddock-project/paddock/deploy/image/licenses"
)

// binary is a command compiled for one platform, with the data that the go command recorded in it.
type binary struct {
	command
	platform v1.Platform
	program  []byte
	info     *debug.BuildInfo
	version  string            // of the repository, from the commit and its tags
	revision string            // the commit
	time     time.Time         // the commit time, used for all times of the image
	licenses map[string]string // an SPDX expression for each module that is linked, by its path
	texts    []byte            // the licenses of all that is linked; it goes where the program goes
}

// build compiles a command of the repository's commit for each platform, below work.
func build(ctx context.Context, c command, repository, work string, platforms []v1.Platform) ([]binary, error) {
	source := filepath.Join(work, "source")
	if err := checkOut(ctx, repository, source); err != nil {
		return nil, err
	}
	version, err := versionOf(ctx, source)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var all []binary
	for _, p := range platforms {
		// A license that is not allowed ends the build before minutes of compiling.
		found, err := c.licenses(ctx, source, p)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(work, c.name+"-"+p.OS+"-"+p.Architecture)
		if err := compile(ctx, filepath.Join(source, c.module), "./"+c.main, name, version, p); err != nil {
			return nil, err
		}
		b, err := readBinary(c, name, version, p)
		if err != nil {
			return nil, err
		}
		b.licenses = map[string]string{}
		for _, m := range found {
			b.licenses[m.Path] = m.Expression()
		}
		b.texts = licenses.Text(path.Base(c.main), version, string(own), b.info.GoVersion, found)
		all = append(all, b)
	}
	return all, nil
}

// licenses returns the modules that the command links for some platforms, with their licenses. The
// error names each license that is not allowed.
func (c command) licenses(ctx context.Context, source string, platforms ...v1.Platform) ([]licenses.Module, error) {
	p := licenses.Program{Name: path.Base(c.main), Dir: filepath.Join(source, c.module), Package: "./" + c.main}
	for _, platform := range platforms {
		p.Platforms = append(p.Platforms, platform.String())
	}
	return licenses.Of(ctx, p, fixed)
}

// fixed are the settings of the go command that affect the result. They override those of the user
// and of the machine.
var fixed = []string{"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off"}

func compile(ctx context.Context, module, pkg, output, version string, p v1.Platform) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -X "+versionVariable+"="+version, "-o", output, pkg)
	cmd.Dir = module
	cmd.Env = slices.Concat(os.Environ(), fixed, []string{"GOOS=" + p.OS, "GOARCH=" + p.Architecture})
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w: %s", p, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func readBinary(c command, name, version string, p v1.Platform) (binary, error) {
	program, err := os.ReadFile(name)
	if err != nil {
		return binary{}, err
	}
	info, err := buildinfo.ReadFile(name)
	if err != nil {
		return binary{}, err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if got := settings["GOOS"] + "/" + settings["GOARCH"]; got != p.String() {
		return binary{}, fmt.Errorf("the binary for %s is for %s", p, got)
	}
	if c.module == "" && info.Main.Version != version {
		return binary{}, fmt.Errorf("the go command derives the version %s from the tags, and this program %s: expected tags such as v0.1.0", info.Main.Version, version)
	}
	committed, err := time.Parse(time.RFC3339, settings["vcs.time"])
	if err != nil {
		return binary{}, fmt.Errorf("the binary for %s has no commit: %w", p, err)
	}
	return binary{
		command: c, platform: p, program: program, info: info,
		version: version, revision: settings["vcs.revision"], time: committed.UTC(),
	}, nil
}
