// Package licenses collects the licenses of what a program links, and checks that each one is
// known.
//
// The texts are those in the module cache: in the directories of the packages that are linked, and
// in the directories above them up to the root of the module. So a package that was copied into a
// module with a license of its own is included, and a part of a module that is not linked is not.
package licenses

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licenses that programs may link: they ask for their texts, and for nothing else
// when a program is passed on. MPL-2.0 asks for the source of its files, which the Go module proxy
// has.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// Program is a program whose licenses are collected.
type Program struct {
	Name string
	// Dir is the directory of its module, and Package the path of its package there, such as
	// ./cmd/paddock.
	Dir, Package string
	// Platforms are what it is compiled for, such as linux/amd64.
	Platforms []string
}

// Module is a module with its licenses.
type Module struct {
	Path, Version string
	// IDs are the SPDX identifiers of the licenses, in order.
	IDs   []string
	files map[string]string // their texts, by their names in the module
	read  map[string]bool   // the directories whose files are in files
}

// Expression returns the licenses as an SPDX expression, such as "Apache-2.0 AND MIT". All of them
// apply, each to some files. A choice between two licenses in one file is an AND, too: who meets
// both meets the one that was chosen.
func (m *Module) Expression() string { return strings.Join(m.IDs, " AND ") }

var (
	// license matches the names of files with licenses.
	license = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|mit-license)([._-].*)?$`)
	// notice matches the names of other files that belong to the texts.
	notice = regexp.MustCompile(`(?i)^(notice|patents|authors|copyright)([._-].*)?$`)
	// other matches source files with such names, and licenses of documentation, which is not linked.
	other = regexp.MustCompile(`(?i)\.(go|s|c|h|json|ya?ml|docs)$`)
)

// listed is a package as go list describes it.
type listed struct {
	Dir, ImportPath, Root string
	Standard              bool
	Module                *listedModule
}

type listedModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *listedModule
}

// Of returns the modules that a program links, with the Go standard library, ordered by their paths.
// Modules of this repository are left out. The error names every license that is not known or not
// allowed.
func Of(ctx context.Context, p Program, environment []string) ([]Module, error) {
	found := map[string]*Module{}
	for _, platform := range p.Platforms {
		packages, err := list(ctx, p, platform, environment)
		if err != nil {
			return nil, err
		}
		for _, l := range packages {
			if err := add(found, l); err != nil {
				return nil, err
			}
		}
	}
	var all []Module
	var unknown []error
	for _, path := range slices.Sorted(maps.Keys(found)) {
		m := found[path]
		if err := m.identify(); err != nil {
			unknown = append(unknown, fmt.Errorf("%s links %s %s: %w", p.Name, m.Path, m.Version, err))
		}
		all = append(all, *m)
	}
	return all, errors.Join(unknown...)
}

func list(ctx context.Context, p Program, platform string, environment []string) ([]listed, error) {
	system, architecture, _ := strings.Cut(platform, "/")
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,ImportPath,Root,Standard,Module", p.Package)
	cmd.Dir = p.Dir
	cmd.Env = slices.Concat(os.Environ(), environment, []string{"GOOS=" + system, "GOARCH=" + architecture, "CGO_ENABLED=0"})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps %s: %w: %s", p.Package, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

// add adds the files of a package, and of the directories above it in its module.
func add(found map[string]*Module, l listed) error {
	m := l.Module
	switch {
	case l.Standard:
		m = &listedModule{Path: "stdlib", Dir: l.Root}
	case m == nil:
		return fmt.Errorf("package %s has no module", l.ImportPath)
	}
	if m.Replace != nil && m.Replace.Version != "" { // Otherwise, a directory replaces it, which is m.Dir.
		m = m.Replace
	}
	root := m.Dir
	if m.Main || strings.HasPrefix(m.Path+"/", "github.com/paddock-project/paddock/") {
		return nil
	}
	of := found[m.Path]
	if of == nil {
		of = &Module{Path: m.Path, Version: m.Version, files: map[string]string{}, read: map[string]bool{}}
		found[m.Path] = of
	}
	dir := l.Dir
	if l.Standard { // Its packages have no licenses of their own; those in vendor are of the Go project.
		dir = root
	}
	for ; !of.read[dir]; dir = filepath.Dir(dir) {
		if err := of.readDir(root, dir); err != nil {
			return err
		}
		of.read[dir] = true
		if dir == root || len(dir) <= len(root) {
			return nil
		}
	}
	return nil // So are those above.
}

func (m *Module) readDir(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || other.MatchString(e.Name()) || !license.MatchString(e.Name()) && !notice.MatchString(e.Name()) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		m.files[filepath.ToSlash(relative)] = string(text)
	}
	return nil
}

// leastPercent is how much of a file must be the text of known licenses, in percent. The rest are
// copyright lines, and lists of what a license is for.
const leastPercent = 60

// identify finds the SPDX identifiers.
func (m *Module) identify() error {
	var problems []error
	ids := map[string]bool{}
	for name, text := range m.files {
		if !license.MatchString(filepath.Base(name)) {
			continue
		}
		scanned := licensecheck.Scan([]byte(text))
		if scanned.Percent < leastPercent {
			problems = append(problems, fmt.Errorf("%s is not a license that is known (%.0f %% of its words are): read it, and see Licenses in docs/release.md", name, scanned.Percent))
		}
		for _, match := range scanned.Match {
			if match.IsURL {
				continue
			}
			ids[match.ID] = true
			if !slices.Contains(allowed, match.ID) {
				problems = append(problems, fmt.Errorf("%s is under %s: not in the list of deploy/image/licenses: link another library, or see Licenses in docs/release.md", name, match.ID))
			}
		}
	}
	m.IDs = slices.Sorted(maps.Keys(ids))
	if len(ids) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("it has no file with a license"))
	}
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// Text returns the licenses of a program as a text for people.
func Text(program, version, own, goVersion string, modules []Module) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s is licensed under the Apache License 2.0, which is the first text below.\nIt contains the following modules under these licenses, whose texts are below.\n\n", program, version)
	width := 0
	for _, m := range modules {
		width = max(width, len(m.Path))
	}
	for _, m := range modules {
		fmt.Fprintf(&out, "%-*s  %s  %s\n", width, m.Path, cmp.Or(m.Version, goVersion), strings.Join(m.IDs, ", "))
	}
	section(&out, program+" "+version, own)
	for _, m := range modules {
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			section(&out, m.Path+" "+cmp.Or(m.Version, goVersion)+", "+name, m.files[name])
		}
	}
	return out.Bytes()
}

func section(out *bytes.Buffer, title, text string) {
	fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), title, strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"))
}
