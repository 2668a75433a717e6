package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/release/repository"
	"github.com/paddock-project/paddock/release/seal"
	"github.com/paddock-project/paddock/release/vulnerabilities"
)

// releasable returns the arguments of release make for a clone at the tags of v0.1.0, which has no
// program to build.
func releasable(t *testing.T) (repository.Repository, []string) {
	t.Helper()
	clone := released(t, newRepository(t), "v0.1.0")
	key := filepath.Join(t.TempDir(), "key.pem")
	if _, err := seal.NewKey(key); err != nil {
		t.Fatal(err)
	}
	return clone, []string{"make", "-repository", clone.Dir(), "-version", "v0.1.0", "-key", key}
}

// TestMakeChecksFirst checks that what was asked is checked before anything is built.
func TestMakeChecksFirst(t *testing.T) {
	_, args := releasable(t)
	for _, c := range []struct{ flag, value, want string }{
		{"-registry", "https://registry.example/paddock", `REGISTRY "https://registry.example/paddock": expected a registry`},
		{"-registry", "registry.example/paddock/", "leave out the slash at the end"},
		{"-vulnerabilities", "ftp://example.org", "VULNDB ftp://example.org: expected an address"},
		{"-vulnerabilities", "file://" + t.TempDir(), "expected a copy of a Go vulnerability database"},
	} {
		var out bytes.Buffer
		expectError(t, run(t.Context(), append(args, c.flag, c.value), &out), c.want)
		if out.Len() > 0 {
			t.Errorf("%s %s: it began: %s", c.flag, c.value, out.String())
		}
	}
}

// stopper interrupts what writes to it.
type stopper struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (s *stopper) Write(text []byte) (int, error) {
	s.stop()
	return s.Buffer.Write(text)
}

// TestNothingIsLeft checks that a release that fails, or is interrupted, leaves no files, neither in
// the folder nor among the temporary ones.
func TestNothingIsLeft(t *testing.T) {
	clone, args := releasable(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	interrupted := &stopper{stop: stop}
	err := run(ctx, args, interrupted)
	if err == nil || problem(err) != "interrupted" || interrupted.String() != "making v0.1.0 in bin/release/v0.1.0\n" {
		t.Errorf("%v after %q", err, interrupted.String())
	}
	expectError(t, run(t.Context(), args, &bytes.Buffer{}), "go build -o ")
	for _, dir := range []string{temporary, filepath.Join(clone.Dir(), "bin", "release")} {
		left, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) || len(left) > 0 {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
}

// TestDamagedFolder checks that a folder of which files lack their ends is rejected with the names of
// all of them, before any is read as what it was.
func TestDamagedFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"manifests/paddock.yaml": "image: a\n", "images/paddock-v0.1.0.tar": "image", "bin/paddock": "program"})
	if err := seal.WriteSums(dir); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"manifests/paddock.yaml": "ima", "images/paddock-v0.1.0.tar": "im"})
	err := run(t.Context(), []string{"check", "-version", "v0.1.0", "-folder", dir, "-skip", " cluster , rebuild"}, &bytes.Buffer{})
	for _, want := range []string{"images/paddock-v0.1.0.tar has SHA-256", "manifests/paddock.yaml has SHA-256"} {
		expectError(t, err, want)
	}
	if strings.Contains(err.Error(), "bin/paddock has") {
		t.Errorf("%v names a file that is as it was", err)
	}
}

// TestForeignFolder checks that a folder is read only if the trusted key signed it.
func TestForeignFolder(t *testing.T) {
	dir, name := t.TempDir(), filepath.Join(t.TempDir(), "key.pem")
	write(t, dir, map[string]string{"manifests/paddock.yaml": "image: a\n"})
	if _, err := seal.NewKey(name); err != nil {
		t.Fatal(err)
	}
	key, err := seal.ReadKey(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(seal.WriteSums(dir), seal.Seal(t.Context(), dir, key, seal.Build{Version: "v0.1.0", Registry: "a", Commit: strings.Repeat("0", 40), GoVersion: "go1.26.8", Builder: localBuilder})); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.pem")
	if _, err := seal.NewKey(other); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{name: "images/paddock-v0.1.0.tar: no such file", other: "signatures/SHA256SUMS.sig: the signature is not by this key"} {
		err := run(t.Context(), []string{"check", "-version", "v0.1.0", "-folder", dir, "-public-key", seal.PublicName(file)}, &bytes.Buffer{})
		expectError(t, err, want)
	}
}

// TestPinned checks that the names of images are parsed.
func TestPinned(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"manifests/paddock.yaml": "image: https://registry.example/paddock@sha256:1\n"})
	folder, err := seal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&checker{folder: folder, images: map[string]string{"https://registry.example/paddock": "sha256:1"}}).pinned(t.Context())
	expectError(t, err, `manifests/paddock.yaml: the image "https://registry.example/paddock@sha256:1": expected a registry, a name and a digest`)
}

// TestLine checks the lines of steps, of which one is no proof.
func TestLine(t *testing.T) {
	const step = "vulnerabilities are recorded"
	if got, want := line(step, time.Second, "3 known"), "vulnerabilities are recorded           yes     1.0 s  3 known\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := line(step, 0, vulnerabilities.NotLookedUp+"no answer"), "vulnerabilities are recorded           not looked up     0.0 s  no answer\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
