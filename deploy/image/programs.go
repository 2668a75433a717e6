package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// materials is the bill of materials of a binary, in two formats.
type materials struct{ spdx, cyclonedx []byte }

func materialsOf(b binary) (m materials, err error) {
	if m.spdx, err = sbomOf(b); err != nil {
		return m, err
	}
	m.cyclonedx, err = cyclonedxOf(b)
	return m, err
}

// write writes both formats. name is the name of the file with SPDX.
func (m materials) write(name string) error {
	other := strings.TrimSuffix(name, ".spdx.json") + ".cdx.json"
	return errors.Join(os.WriteFile(name, m.spdx, 0o644), os.WriteFile(other, m.cyclonedx, 0o644))
}

// writePrograms writes programs and their bills of materials to dir. It does nothing if dir is
// empty.
func writePrograms(dir string, binaries []binary) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, b := range binaries {
		name := filepath.Join(dir, b.name+"-"+b.platform.OS+"-"+b.platform.Architecture)
		m, err := materialsOf(b)
		if err := errors.Join(err, os.WriteFile(name, b.program, 0o755), m.write(name+".spdx.json")); err != nil { //nolint:gosec // it is a program
			return err
		}
	}
	return nil
}
