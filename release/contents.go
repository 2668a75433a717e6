package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/release/modules"
	"github.com/paddock-project/paddock/release/seal"
)

// goInstall installs the program as users do, with the modules of the folder.
func (c *checker) goInstall(ctx context.Context) (string, error) {
	return asUser(ctx, filepath.Join(c.folder.Dir(), "modules"), c.version, func(ctx context.Context, u user) (string, error) { return u.install(ctx) })
}

// examples builds the examples of package predict outside of the repository.
func (c *checker) examples(ctx context.Context) (string, error) {
	return asUser(ctx, filepath.Join(c.folder.Dir(), "modules"), c.version, func(ctx context.Context, u user) (string, error) { return u.examples(ctx) })
}

// vulnerable returns what the release recorded of known vulnerabilities. It does not judge that.
func (c *checker) vulnerable(context.Context) (string, error) { return summaryOf(c.folder) }

// summaryOf returns what a folder has about known vulnerabilities, in one line.
func summaryOf(folder *seal.Folder) (string, error) {
	text, err := folder.Read(vulnerabilitiesName)
	if err != nil {
		return "", err
	}
	summary, _, _ := strings.Cut(string(text), "\n")
	if summary == "" {
		return "", fmt.Errorf("%s has no summary in its first line", vulnerabilitiesName)
	}
	return summary, nil
}

// licensed checks that each module of the release has its license, and that the bills of materials of
// each program name the license of each module.
func (c *checker) licensed(context.Context) (string, error) {
	zips := 0
	var programs []string
	for _, name := range c.folder.Names() {
		switch {
		case strings.HasSuffix(name, ".zip"):
			zips++
			if err := c.licensedModule(name); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
		case strings.HasPrefix(name, "bin/") && path.Ext(name) != ".json":
			programs = append(programs, name)
		}
	}
	for _, image := range imageNames {
		for _, architecture := range []string{"amd64", "arm64"} {
			programs = append(programs, strings.TrimSuffix(imageArchive(image, c.version), ".tar")+"-"+architecture)
		}
	}
	linked := map[string]bool{}
	for _, program := range programs {
		all, err := c.materials(program)
		if err != nil {
			return "", err
		}
		for _, m := range all {
			linked[m] = true
		}
	}
	return fmt.Sprintf("%d modules; bills of materials of %d programs, which link %d modules", zips, len(programs), len(linked)), nil
}

// licensedModule checks that a module of the release has its license.
func (c *checker) licensedModule(name string) error {
	data, err := c.folder.Read(name)
	if err != nil {
		return err
	}
	of, _, _ := strings.Cut(strings.TrimPrefix(name, "modules/"), "/@v/")
	files, err := modules.Module{Path: of}.Unzip(data, c.version)
	if err != nil {
		return err
	}
	if len(files["LICENSE"]) == 0 {
		return errors.New("it has no LICENSE")
	}
	return nil
}

// spdx and cyclonedx are what is checked of a bill of materials.
type (
	spdx struct {
		Packages []struct {
			Name, VersionInfo                 string
			LicenseConcluded, LicenseDeclared string
			Checksums                         []struct{ ChecksumValue string }
		}
	}
	cyclonedx struct {
		Metadata   struct{ Component component }
		Components []component
	}
	component struct {
		Name, Version string
		Hashes        []struct{ Content string }
		Licenses      []struct {
			License    struct{ ID string }
			Expression string
		}
	}
)

// materials returns the modules of a program, with their versions and licenses. Both of its bills of
// materials must have the same, and the checksum of the program, if it is a file of the folder.
func (c *checker) materials(program string) ([]string, error) {
	var one spdx
	var two cyclonedx
	for name, to := range map[string]any{program + ".spdx.json": &one, program + ".cdx.json": &two} {
		text, err := c.folder.Read(name)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var all, others, sums []string
	for i, p := range one.Packages {
		if license := p.LicenseConcluded; license == "" || license == "NOASSERTION" || license == "NONE" || license != p.LicenseDeclared {
			return nil, fmt.Errorf("%s.spdx.json has the license %q of %s, declared %q: expected one license", program, license, p.Name, p.LicenseDeclared)
		}
		if i > 0 { // The first one is the program.
			all = append(all, p.Name+" "+p.VersionInfo+" "+p.LicenseConcluded)
		}
		for _, s := range p.Checksums {
			sums = append(sums, s.ChecksumValue)
		}
	}
	for _, m := range two.Components {
		license := ""
		for _, l := range m.Licenses {
			license += l.License.ID + l.Expression
		}
		others = append(others, m.Name+" "+m.Version+" "+license)
	}
	for _, h := range two.Metadata.Component.Hashes {
		sums = append(sums, h.Content)
	}
	if !slices.Equal(all, others) || len(all) == 0 {
		return nil, fmt.Errorf("%s.spdx.json has %d modules, and %s.cdx.json %d: expected the same with the same licenses", program, len(all), program, len(others))
	}
	if want := c.folder.Sum(program); len(sums) != 2 || sums[0] != sums[1] || want != "" && sums[0] != want {
		return nil, fmt.Errorf("the bills of materials of %s have the checksums %q: expected %s", program, sums, cmp.Or(want, "the same twice"))
	}
	return all, nil
}
