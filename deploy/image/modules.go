package main

import (
	"fmt"
	"path"
	"strings"
)

const (
	// root is the path of the main module of this repository. The others are below it.
	root = "github.com/paddock-project/paddock"
	// ownLicense is the license of this repository (licenses.TestOwnLicense).
	ownLicense = "Apache-2.0"
)

// linked is a module that is linked into a binary.
type linked struct {
	Path, Version string
	// sum is its checksum as go.sum has it. It is empty for the standard library and for the modules
	// of this repository.
	sum string
	// license is an SPDX expression.
	license string
}

// packageURL returns the package URL of a module (https://github.com/package-url/purl-spec).
func (m *linked) packageURL() string {
	return "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
}

// modules returns the standard library and every module that the go command recorded in a binary,
// with the version that was compiled. The modules of this repository have the version of the
// binary.
func modules(b binary) ([]*linked, error) {
	all := []*linked{{Path: "stdlib", Version: strings.TrimPrefix(b.info.GoVersion, "go")}}
	for _, m := range b.info.Deps {
		l := &linked{Path: m.Path, Version: m.Version, sum: m.Sum}
		switch r := m.Replace; {
		case r == nil:
		case r.Version == "(devel)": // It is a directory of this repository.
			l.Version = b.version
		default:
			l.Path, l.Version, l.sum = r.Path, r.Version, r.Sum
		}
		all = append(all, l)
	}
	for _, m := range all {
		m.license = b.licenses[m.Path]
		if strings.HasPrefix(m.Path+"/", root+"/") {
			m.license = ownLicense
		}
		if m.license == "" {
			return nil, fmt.Errorf("%s for %s links %s %s, whose license was not looked up: go list -deps ./%s lists no package of it", path.Base(b.main), b.platform, m.Path, m.Version, b.main)
		}
	}
	return all, nil
}
