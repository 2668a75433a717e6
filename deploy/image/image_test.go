package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
)

// everywhere builds the images for arm64 too. Without it, the archives in TestReproducible show that
// an image has both architectures, and TestOtherPlatforms shows that the programs compile.
var everywhere = flag.Bool("arm64", false, "build the images for arm64 too; this takes minutes, once")

// architectures returns the architectures for which images are tested.
func architectures() []string {
	if *everywhere {
		return []string{"amd64", "arm64"}
	}
	return []string{"amd64"}
}

// mostBytes limits the size of the amd64 programs that run on every node, in bytes. The agent's had
// 37.8 MB in November 2026, and 56 MB before it became a separate program (internal/arch,
// TestAgentLinks). The command noise and the counting of interruptions have 0.4 MB, isolated CPUs
// 0.1 MB, the division of caches 0.5 MB, and the proven bound of fleet size 0.3 MB. What is scarce in
// a fleet, and the page of 1,500 nodes, have 0.3 MB: the image serves this page. The program of
// paddock-quiet had 13.8 MB: its size counts in the memory of the process.
var mostBytes = map[string]int{agent.name: 43_700_000, quiet.name: 16_000_000}

// made builds the images of this repository, each once for all tests. The agent's takes a minute
// without a build cache, and the scheduler's takes some minutes.
var made = map[string]func() (string, error){agent.name: once(agent), scheduler.name: once(scheduler), quiet.name: once(quiet)}

// images is the directory of the images.
var images string

func once(c command) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		name := filepath.Join(images, c.name+"-image.tar")
		platforms := "linux/" + strings.Join(architectures(), ",linux/")
		return name, run(context.Background(), []string{"-command", c.name, "-output", name, "-platforms", platforms}, io.Discard)
	})
}

func TestMain(m *testing.M) {
	var err error
	if images, err = os.MkdirTemp("", "paddock-image-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(images); err != nil {
		code = 1
	}
	os.Exit(code)
}

// each runs a test for the image of each command.
func each(t *testing.T, test func(t *testing.T, c command)) {
	t.Helper()
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) { test(t, c) })
	}
}

// unpacked returns the layout in an archive.
func unpacked(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, header.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// image returns the index that the archive names, with its manifest.
func image(t *testing.T, c command) (v1.ImageIndex, *v1.IndexManifest) {
	t.Helper()
	name, err := made[c.name]()
	if err != nil {
		t.Fatal(err)
	}
	top := unpacked(t, name)
	entries, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(entries.Manifests) != 1 {
		t.Fatalf("%d entries: Podman wants one", len(entries.Manifests))
	}
	want := map[string]string{"io.containerd.image.name": c.localName(), "org.opencontainers.image.ref.name": "dev"}
	if got := entries.Manifests[0].Annotations; !maps.Equal(got, want) {
		t.Errorf("the archive has %v, want %v", got, want)
	}
	index, err := top.ImageIndex(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest
}

// TestPlatforms checks that there is an image for each architecture, with the right digests and
// sizes, and a statement for each.
func TestPlatforms(t *testing.T) { each(t, testPlatforms) }

func testPlatforms(t *testing.T, c command) {
	index, manifest := image(t, c)
	var got, want []string
	for _, architecture := range architectures() {
		want = append(want, "linux/"+architecture)
	}
	images := len(want)
	for range images {
		want = append(want, "unknown/unknown")
	}
	for i, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if i < images { // A statement has no file system; TestMaterials reads it.
			err = validate.Image(img)
		}
		if err != nil {
			t.Errorf("%s: %v", m.Platform, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("platforms %q, want %q", got, want)
	}
}

// TestConfiguration checks for a user without a user database, the binary as the entry point, and
// the commit in the labels.
func TestConfiguration(t *testing.T) { each(t, testConfiguration) }

func testConfiguration(t *testing.T, c command) {
	index, manifest := image(t, c)
	for _, m := range manifest.Manifests[:len(architectures())] {
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		file, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config := file.Config
		if file.Architecture != m.Platform.Architecture || file.OS != "linux" || config.User != c.user ||
			!slices.Equal(config.Entrypoint, []string{"/" + c.name}) || !slices.Equal(config.Cmd, []string{"--help"}) {
			t.Errorf("%s: %s/%s, %+v", m.Platform, file.OS, file.Architecture, config)
		}
		for _, label := range []string{"title", "description", "licenses", "source", "version", "revision", "created"} {
			if config.Labels["org.opencontainers.image."+label] == "" {
				t.Errorf("%s: no label %s", m.Platform, label)
			}
		}
		if !maps.Equal(config.Labels, manifest.Annotations) {
			t.Errorf("%s: the labels are %v, the index has %v", m.Platform, config.Labels, manifest.Annotations)
		}
		checkFiles(t, c, img, m.Platform.Architecture, config.Labels["org.opencontainers.image.version"])
	}
}

// checkLicenses checks that what follows the binary in an image are the licenses of what it links, and
// nothing else.
func checkLicenses(t *testing.T, c command, r *tar.Reader) {
	t.Helper()
	var files []string
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, header.Name)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil || header.Mode != 0o644 || header.Uid != 0 {
			t.Errorf("%s: mode %o of %d, %v", header.Name, header.Mode, header.Uid, err)
		}
		for _, want := range []string{"is licensed under the Apache License 2.0", "\nstdlib ", "Copyright 2009 The Go Authors"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s does not have %q", header.Name, want)
			}
		}
	}
	for i := range files {
		files[i] = strings.Trim(files[i], "/")
	}
	if want := []string{"licenses", licensesIn(c)}; !slices.Equal(files, want) {
		t.Errorf("the image has the files %q beside its binary, want %q", files, want)
	}
}

// checkFiles checks that the image has one static binary for the architecture, and its licenses. It runs the binary
// if the machine has this architecture.
func checkFiles(t *testing.T, c command, img v1.Image, architecture, version string) {
	t.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	r := tar.NewReader(content)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != c.name || header.Mode != 0o755 || header.Uid != 0 || header.Gid != 0 {
		t.Errorf("%s: %s, mode %o of %d:%d", architecture, header.Name, header.Mode, header.Uid, header.Gid)
	}
	program, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	checkLicenses(t, c, r)
	parsed, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]
	libraries, err := parsed.ImportedLibraries()
	if err != nil || parsed.Machine != machine || len(libraries) > 0 || parsed.Section(".interp") != nil {
		t.Errorf("%s: a binary for %s with %v, %v", architecture, parsed.Machine, libraries, err)
	}
	if most := mostBytes[c.name]; architecture == "amd64" && most > 0 && len(program) > most {
		t.Errorf("the program of %s has %d bytes, more than %d: go list -deps shows what it links; a program that is larger on purpose changes mostBytes", c.name, len(program), most)
	}
	if architecture != runtime.GOARCH {
		return
	}
	name := filepath.Join(t.TempDir(), c.name)
	if err := os.WriteFile(name, program, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), name, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) || version == "" {
		t.Errorf("%s --version: %s, %v; want %q", c.name, out, err, version)
	}
}

// TestMaterials checks that the statement of each image names its digest and has the modules that
// are linked into the command.
func TestMaterials(t *testing.T) { each(t, testMaterials) }

func testMaterials(t *testing.T, c command) {
	index, manifest := image(t, c)
	archive, err := made[c.name]()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range manifest.Manifests[len(architectures()):] {
		of := manifest.Manifests[i]
		if m.Annotations["vnd.docker.reference.digest"] != of.Digest.String() {
			t.Errorf("statement %d is of %s, want %s", i, m.Annotations["vnd.docker.reference.digest"], of.Digest)
		}
		statement := statementIn(t, index, m.Digest)
		if len(statement.Subject) != 1 || statement.Subject[0].Digest["sha256"] != of.Digest.Hex || statement.PredicateType != spdxPredicate {
			t.Errorf("statement of %s: %+v", of.Platform, statement)
		}
		beside, err := os.ReadFile(sbomName(archive, *of.Platform))
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, beside); err != nil || !bytes.Equal(compact.Bytes(), statement.Predicate) {
			t.Errorf("%s: the file beside the archive is another one than the statement's (%v)", of.Platform, err)
		}
		validSPDX(t, beside)
		document, err := spdxjson.Read(bytes.NewReader(beside))
		if err != nil {
			t.Fatal(err)
		}
		versions := map[string]string{}
		for _, p := range document.Packages {
			versions[p.PackageName] = p.PackageVersion
		}
		linked := map[string]string{agent.name: "github.com/containerd/nri", scheduler.name: "k8s.io/kubernetes", quiet.name: "k8s.io/kubelet"}[c.name]
		for _, name := range []string{linked, "google.golang.org/grpc", "stdlib", "github.com/paddock-project/paddock"} {
			if versions[name] == "" {
				t.Errorf("%s: %s is not there, or has no version", of.Platform, name)
			}
		}
	}
}

type statement struct {
	PredicateType string
	Subject       []struct{ Digest map[string]string }
	Predicate     json.RawMessage
}

func statementIn(t *testing.T, index v1.ImageIndex, digest v1.Hash) statement {
	t.Helper()
	img, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	want, err := layers[0].Digest()
	if got, _, hashErr := v1.SHA256(bytes.NewReader(data)); err != nil || hashErr != nil || got != want {
		t.Errorf("the layer of %s is %s, want %s", digest, got, want)
	}
	return s
}
