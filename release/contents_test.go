package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/release/seal"
)

// materialsText returns both bills of materials of a program that links one module.
func materialsText(program, license string) (spdx, cyclonedx string) {
	sum := sha256.Sum256([]byte(program))
	digest := hex.EncodeToString(sum[:])
	choice := `"license": {"id": "` + license + `"}`
	if strings.Contains(license, " ") {
		choice = `"expression": "` + license + `"`
	}
	return fmt.Sprintf(`{"packages": [
  {"name": "p", "versionInfo": "v1", "licenseConcluded": "MIT", "licenseDeclared": "MIT", "checksums": [{"checksumValue": %q}]},
  {"name": "m", "versionInfo": "v2", "licenseConcluded": %q, "licenseDeclared": %q}]}`, digest, license, license),
		fmt.Sprintf(`{"metadata": {"component": {"hashes": [{"content": %q}]}}, "components": [{"name": "m", "version": "v2", "licenses": [{%s}]}]}`, digest, choice)
}

// moduleZip returns a module with one file.
func moduleZip(t *testing.T, file string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.Create("example.org/m@v0.1.0/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLicensed checks a folder with the license of each module, and folders that lack one.
func TestLicensed(t *testing.T) {
	good := map[string]string{"bin/p": "program", "modules/example.org/m/@v/v0.1.0.zip": moduleZip(t, "LICENSE")}
	good["bin/p.spdx.json"], good["bin/p.cdx.json"] = materialsText("program", "Apache-2.0 AND MIT")
	for _, image := range imageNames {
		for _, architecture := range []string{"amd64", "arm64"} {
			name := "images/" + image + "-v0.1.0-" + architecture
			good[name+".spdx.json"], good[name+".cdx.json"] = materialsText(image, "MIT")
		}
	}
	unknown, _ := materialsText("program", "NOASSERTION")
	other, _ := materialsText("program", "MIT")
	changed, _ := materialsText("another program", "Apache-2.0 AND MIT")
	for _, c := range []struct{ name, text, want string }{
		{"README", "text", ""},
		{"bin/p.spdx.json", unknown, `bin/p.spdx.json has the license "NOASSERTION" of m`},
		{"bin/p.spdx.json", other, "bin/p.spdx.json has 1 modules, and bin/p.cdx.json 1: expected the same with the same licenses"},
		{"bin/p.spdx.json", changed, "the bills of materials of bin/p have the checksums"},
		{"bin/p.cdx.json", "{", "bin/p.cdx.json: unexpected end of JSON input"},
		{"bin/q", "another", "bin/q."},
		{"modules/example.org/m/@v/v0.1.0.zip", moduleZip(t, "COPYING"), "modules/example.org/m/@v/v0.1.0.zip: it has no LICENSE"},
		{"modules/example.org/n/@v/v0.1.0.zip", moduleZip(t, "LICENSE"), "the zip of example.org/n v0.1.0 has the file example.org/m@v0.1.0/LICENSE"},
	} {
		dir := t.TempDir()
		write(t, dir, good)
		write(t, dir, map[string]string{c.name: c.text})
		folder, err := seal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		text, err := (&checker{options: options{version: "v0.1.0"}, folder: folder}).licensed(t.Context())
		if c.want == "" && (err != nil || text != "1 modules; bills of materials of 7 programs, which link 2 modules") {
			t.Errorf("%q, %v", text, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
