// Package modules publishes the Go modules of the repository.
//
// In the development tree, the modules find each other with replace directives. The go command
// ignores these in a module that another one requires, and "go install PROGRAM@VERSION" rejects
// them. So each release has a commit of its own: Prepare drops the directives, requires the version
// that is being released, and adds the checksums. The checksum of a module depends on the go.mod and
// go.sum in it, so the modules are prepared in the order in which they depend on each other.
//
// WriteProxy writes the modules as files of a proxy (https://go.dev/ref/mod#goproxy-protocol), which
// are the files that the go command makes of the tags (TestAsFromGit).
package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/paddock-project/paddock/release/repository"
)

// Root is the path of the main module.
const Root = "github.com/paddock-project/paddock"

// published are the directories of the modules that releases have, each after those that it
// requires. The module scheduler is a program with k8s.io/kubernetes, which can be installed only
// with replace directives, and is not published. Neither are the modules of tests.
var published = []string{"internal/core", "api", "predict", "."}

// Module is a module of the repository.
type Module struct {
	// Path is the module path. Dir is its directory in the repository, with slashes.
	Path, Dir string
}

// Tag returns the tag of a version, as https://go.dev/ref/mod#vcs-version defines it.
func (m Module) Tag(version string) string {
	if m.Dir == "." {
		return version
	}
	return m.Dir + "/" + version
}

// Published returns the modules that a tree publishes, each after those that it requires. The main
// module is the last one. A directory that is not a module is a part of the main module.
func Published(root string) ([]Module, error) {
	var all []Module
	for _, dir := range published {
		file, err := read(root, dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "." {
			continue
		}
		if err != nil {
			return nil, err
		}
		if got, want := file.Module.Mod.Path, path.Join(Root, dir); got != want {
			return nil, fmt.Errorf("%s/go.mod is of module %s: expected %s", dir, got, want)
		}
		all = append(all, Module{file.Module.Mod.Path, dir})
	}
	return all, nil
}

// Tags returns the tags of a version in the order in which they are set: that of the main module,
// which makes the others visible, is the last one.
func Tags(all []Module, version string) []string {
	var tags []string
	for _, m := range all {
		tags = append(tags, m.Tag(version))
	}
	return tags
}

// CheckReleased checks that a tree is that of a release: its modules require each other with the
// version, without a replace directive.
func CheckReleased(root, version string, all []Module) error {
	for _, m := range all {
		file, err := read(root, m.Dir)
		if err != nil {
			return err
		}
		if len(file.Replace) > 0 {
			return fmt.Errorf("%s/go.mod replaces %s: a release has no replace directive: tag the commit that make release-commit makes", m.Dir, file.Replace[0].Old.Path)
		}
		for _, r := range file.Require {
			if isOf(all, r.Mod.Path) && r.Mod.Version != version {
				return fmt.Errorf("%s/go.mod requires %s: expected version %s: tag the commit that make release-commit makes", m.Dir, r.Mod, version)
			}
		}
	}
	return nil
}

// CheckDevelopment checks that a tree is one of development, where the modules that are published
// replace each other: a release is made of such a tree.
func CheckDevelopment(root string, all []Module) error {
	for _, m := range all {
		file, err := read(root, m.Dir)
		if err != nil {
			return err
		}
		for _, r := range file.Require {
			replaced := slices.ContainsFunc(file.Replace, func(p *modfile.Replace) bool { return p.Old.Path == r.Mod.Path })
			if isOf(all, r.Mod.Path) && !replaced {
				return fmt.Errorf("HEAD is the commit of release %s, whose modules do not replace each other: check out the branch to release from, such as git checkout main", r.Mod.Version)
			}
		}
	}
	return nil
}

func isOf(all []Module, path string) bool {
	return slices.ContainsFunc(all, func(m Module) bool { return m.Path == path })
}

func read(root, dir string) (*modfile.File, error) {
	name := filepath.Join(root, filepath.FromSlash(dir), "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path.Join(dir, "go.mod"), data, nil)
}

// Prepare changes the go.mod and go.sum of every module of a clean clone for a version, and returns
// the checksums of the published modules.
func Prepare(ctx context.Context, clone repository.Repository, version string, all []Module) (Sums, error) {
	sums := Sums{}
	for _, m := range all {
		if err := m.require(clone.Dir(), version, all, sums); err != nil {
			return nil, err
		}
		if _, err := clone.Git(ctx, "add", "--all"); err != nil {
			return nil, err
		}
		tree, err := clone.Git(ctx, "write-tree")
		if err != nil {
			return nil, err
		}
		if sums[m.Path], err = m.sum(ctx, clone, tree, version); err != nil {
			return nil, err
		}
	}
	files, err := clone.Git(ctx, "ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	for name := range strings.FieldsSeq(files) {
		dir := path.Dir(name)
		if slices.ContainsFunc(all, func(m Module) bool { return m.Dir == dir }) {
			continue
		}
		// Modules that are not published go on to replace the others. The versions that they
		// require are those that the others require now.
		if err := edit(clone.Dir(), dir, func(f *modfile.File) error { return setVersions(f, version, all) }); err != nil {
			return nil, err
		}
	}
	_, err = clone.Git(ctx, "add", "--all")
	return sums, err
}

// require lets a module require the version of the modules before it, and adds their checksums.
func (m Module) require(root, version string, all []Module, sums Sums) error {
	var required []string
	err := edit(root, m.Dir, func(f *modfile.File) error {
		for _, r := range slices.Clone(f.Replace) {
			if !isOf(all, r.Old.Path) {
				return fmt.Errorf("it replaces %s: a released module has no replace directive, and only modules of this repository can be required instead", r.Old.Path)
			}
			if err := f.DropReplace(r.Old.Path, r.Old.Version); err != nil {
				return err
			}
		}
		for _, r := range f.Require {
			if !isOf(all, r.Mod.Path) {
				continue
			}
			if _, ok := sums[r.Mod.Path]; !ok {
				return fmt.Errorf("it requires %s, which comes after it: change the order in release/modules", r.Mod.Path)
			}
			required = append(required, r.Mod.Path)
		}
		return setVersions(f, version, all)
	})
	if err != nil || len(required) == 0 {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(m.Dir), "go.sum")
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(name, sums.addTo(text, version, required), 0o644)
}

func setVersions(f *modfile.File, version string, all []Module) error {
	for _, r := range slices.Clone(f.Require) {
		if isOf(all, r.Mod.Path) {
			if err := f.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	return nil
}

func edit(root, dir string, change func(*modfile.File) error) error {
	file, err := read(root, dir)
	if err != nil {
		return err
	}
	if err := change(file); err != nil {
		return fmt.Errorf("%s: %w", path.Join(dir, "go.mod"), err)
	}
	file.Cleanup()
	text, err := file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(dir), "go.mod"), text, 0o644)
}

// Sums are the checksums of modules, by their paths.
type Sums map[string]Sum

// Sum has the checksums of a module and of its go.mod, as go.sum has them.
type Sum struct{ Module, GoMod string }

// addTo adds the lines of modules to a go.sum, in the order of the go command.
func (s Sums) addTo(text []byte, version string, paths []string) []byte {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !slices.Contains(paths, strings.Fields(line)[0]) {
			lines = append(lines, line)
		}
	}
	for _, p := range paths {
		lines = append(lines, fmt.Sprintf("%s %s %s\n", p, version, s[p].Module), fmt.Sprintf("%s %s/go.mod %s\n", p, version, s[p].GoMod))
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		one, other := strings.Fields(a), strings.Fields(b)
		mods := []module.Version{{Path: one[0], Version: one[1]}, {Path: other[0], Version: other[1]}}
		if mods[0] == mods[1] {
			return 0
		}
		module.Sort(mods)
		if mods[0] == (module.Version{Path: one[0], Version: one[1]}) {
			return -1
		}
		return 1
	})
	return []byte(strings.Join(lines, ""))
}
