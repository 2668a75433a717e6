package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
)

// TestPrograms checks that -programs writes the program of an image and of each platform of the
// plugin, and beside each what it is made of, in two formats that agree.
func TestPrograms(t *testing.T) {
	repository := repository(t)
	manifest, err := os.ReadFile("../krew/paddock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, repository, map[string]string{"deploy/krew/paddock.yaml": string(manifest)})
	inGit(t, repository, "add", ".")
	inGit(t, repository, "commit", "--quiet", "--message", "manifest")
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-krew", filepath.Join(dir, "krew")},
		{"-command", "paddock-scheduler", "-output", filepath.Join(dir, "image.tar"), "-platforms", "linux/arm64"},
	} {
		if err := run(t.Context(), append(args, "-repository", repository, "-programs", filepath.Join(dir, "bin")), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "bin", "*64"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
		checkMaterials(t, f)
	}
	if want := []string{"paddock-darwin-amd64", "paddock-darwin-arm64", "paddock-linux-amd64", "paddock-linux-arm64", "paddock-scheduler-linux-arm64"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// checkMaterials checks that both bills of materials of a program are valid, and have its checksum and
// the same modules.
func checkMaterials(t *testing.T, program string) {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	spdx, err := os.ReadFile(program + ".spdx.json")
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(program + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	if one, two := validSPDX(t, spdx), validCycloneDX(t, other); !slices.Equal(one, two) || len(one) == 0 {
		t.Errorf("%s: SPDX has %q, and CycloneDX %q", program, one, two)
	}
	document, err := spdxjson.Read(bytes.NewReader(spdx))
	if err != nil {
		t.Fatal(err)
	}
	if got := document.Packages[0].PackageChecksums[0].Value; got != digest {
		t.Errorf("%s: SPDX has the checksum %s, want %s", program, got, digest)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(other), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if got := (*bom.Metadata.Component.Hashes)[0].Value; got != digest || bom.SerialNumber != "" {
		t.Errorf("%s: CycloneDX has the checksum %s, want %s, and the serial number %q", program, got, digest, bom.SerialNumber)
	}
}
