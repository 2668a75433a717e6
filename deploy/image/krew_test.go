package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// plugin has the fields of a manifest that krew reads
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
type plugin struct {
	APIVersion, Kind string
	Metadata         struct{ Name string }
	Spec             struct {
		Version, Homepage, ShortDescription, Description, Caveats string
		Platforms                                                 []platform
	}
}

type platform struct {
	Selector         struct{ MatchLabels map[string]string }
	URI, SHA256, Bin string
	Files            []struct{ From, To string }
}

// TestKrew checks that krew can read the manifest, and that it has the checksums and the files of
// the archives beside it. The output has the same bytes every time.
func TestKrew(t *testing.T) {
	repository := repository(t)
	template, err := os.ReadFile("../krew/paddock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, repository, map[string]string{"deploy/krew/paddock.yaml": string(template)})
	inGit(t, repository, "add", ".")
	inGit(t, repository, "commit", "--quiet", "--message", "manifest")
	inGit(t, repository, "tag", "v0.3.0")
	dir, again := t.TempDir(), t.TempDir()
	for _, to := range []string{dir, again} {
		if err := run(t.Context(), []string{"-repository", repository, "-krew", to}, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "paddock.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var read plugin
	if err := yaml.UnmarshalStrict(data, &read); err != nil {
		t.Fatal(err)
	}
	if read.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || read.Kind != "Plugin" || read.Metadata.Name != "paddock" ||
		read.Spec.Version != "v0.3.0" || len(read.Spec.Platforms) != 4 {
		t.Errorf("%+v", read)
	}
	if n := len(read.Spec.ShortDescription); n > 50 {
		t.Errorf("the short description has %d characters: krew shows 50", n)
	}
	for _, p := range read.Spec.Platforms {
		name := path.Base(p.URI)
		want := "https://github.com/paddock-project/paddock/releases/download/v0.3.0/kubectl-paddock_v0.3.0_" +
			p.Selector.MatchLabels["os"] + "_" + p.Selector.MatchLabels["arch"] + ".tar.gz"
		if p.URI != want {
			t.Errorf("%s, want %s", p.URI, want)
		}
		packed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != p.SHA256 {
			t.Errorf("%s has another checksum than %s", name, p.SHA256)
		}
		if same, err := os.ReadFile(filepath.Join(again, name)); err != nil || !bytes.Equal(same, packed) {
			t.Errorf("%s is another one the second time: %v", name, err)
		}
		checkPlugin(t, packed, p)
	}
}

// checkPlugin checks that the archive has the files that the manifest extracts.
func checkPlugin(t *testing.T, packed []byte, p platform) {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if header.Name == p.Bin && header.Mode != 0o755 {
			t.Errorf("%s has the mode %o", p.Bin, header.Mode)
		}
	}
	for _, f := range p.Files {
		if !slices.Contains(names, f.From) {
			t.Errorf("no %s in %s", f.From, strings.Join(names, ", "))
		}
	}
	if !slices.Contains(names, p.Bin) {
		t.Errorf("no %s in %s", p.Bin, strings.Join(names, ", "))
	}
}
