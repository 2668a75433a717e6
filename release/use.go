package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/paddock-project/paddock/release/modules"
)

// predictModule is the module with which other programs ask.
var predictModule = modules.Module{Path: modules.Root + "/predict", Dir: "predict"}

// user is a person with the folder of a release and nothing else of Paddock: an empty directory, and
// a go command that takes the modules of Paddock from the folder. Modules of others come from the
// module cache, and without it from the user's proxy. The checksum database is not asked, so that
// this works without a network: go.sum has their checksums, and the build verified them.
type user struct {
	dir         string
	environment []string
	proxy       string
	version     string
}

// asUser does something as a user of the modules in the directory of a proxy.
func asUser(ctx context.Context, proxy, version string, do func(context.Context, user) (string, error)) (text string, err error) {
	work, err := os.MkdirTemp("", "paddock-user-")
	if err != nil {
		return "", err
	}
	cache := filepath.Join(work, "cache")
	defer func() { err = errors.Join(err, modules.Clean(context.WithoutCancel(ctx), cache), os.RemoveAll(work)) }()
	environment, err := modules.Environment(ctx, proxy, cache)
	if err != nil {
		return "", err
	}
	u := user{dir: filepath.Join(work, "outside"), environment: append(environment, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOSUMDB=off"), proxy: proxy, version: version}
	if err := os.Mkdir(u.dir, 0o755); err != nil {
		return "", err
	}
	return do(ctx, u)
}

func (u user) run(ctx context.Context, args ...string) (string, error) {
	return command(ctx, u.dir, u.environment, "go", args...)
}

// install installs the program.
func (u user) install(ctx context.Context) (string, error) {
	bin := filepath.Join(u.dir, "bin")
	u.environment = append(u.environment, "GOBIN="+bin)
	name := modules.Root + "/cmd/paddock@" + u.version
	if _, err := u.run(ctx, "install", name); err != nil {
		return "", err
	}
	printed, err := command(ctx, u.dir, nil, filepath.Join(bin, "paddock"), "version")
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(printed, "\n")
	if first != "paddock "+u.version {
		return "", fmt.Errorf("the program that go install %s makes prints %q: expected paddock %s", name, first, u.version)
	}
	return first, nil
}

// outside is the module of the user.
const outside = "example.org/outside"

// examples copies the examples of docs/predict.md out of the module in the folder into a module of
// the user, which gets predict as that page describes, and runs them there.
func (u user) examples(ctx context.Context) (string, error) {
	copied, err := u.copyExamples()
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{{"mod", "init", outside}, {"get", predictModule.Path + "@" + u.version}, {"build", "./..."}} {
		if _, err := u.run(ctx, args...); err != nil {
			return "", err
		}
	}
	// The example functions name what package predict has, and not this package, as vet expects.
	out, err := u.run(ctx, "test", "-v", "-vet=off", "./...")
	if err != nil {
		return "", err
	}
	for _, want := range []string{"--- PASS: TestPlugin", "--- PASS: ExampleNode_Fill"} {
		if !strings.Contains(out, want) {
			return "", fmt.Errorf("the tests of the examples print no %q: %s", want, out)
		}
	}
	return fmt.Sprintf("%d files, %d tests", copied, strings.Count(out, "--- PASS: ")), nil
}

// copyExamples copies the examples, and returns the number of files. Their imports of each other
// change with their module.
func (u user) copyExamples() (int, error) {
	name, err := predictModule.Zip(u.version)
	if err != nil {
		return 0, err
	}
	data, err := os.ReadFile(filepath.Join(u.proxy, filepath.FromSlash(name)))
	if err != nil {
		return 0, err
	}
	files, err := predictModule.Unzip(data, u.version)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	copied := 0
	for name, text := range files {
		to, ok := strings.CutPrefix(name, "examples/")
		if name == "example_test.go" {
			to, ok = "autoscaler/"+name, true
		}
		if !ok || path.Ext(name) != ".go" {
			continue
		}
		to = filepath.Join(u.dir, filepath.FromSlash(to))
		text = bytes.ReplaceAll(text, []byte(`"`+predictModule.Path+`/examples/`), []byte(`"`+outside+`/`))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o600)); err != nil {
			return 0, err
		}
		copied++
	}
	if copied == 0 {
		return 0, fmt.Errorf("%s has no examples: %w", name, fs.ErrNotExist)
	}
	return copied, nil
}
