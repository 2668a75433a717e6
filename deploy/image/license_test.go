package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// TestLicenses checks that -licenses writes a text for each program, with the license of the
// repository and those of the modules that are linked.
func TestLicenses(t *testing.T) {
	repository := repository(t)
	addModule(t, repository, mit(t))
	dir := filepath.Join(t.TempDir(), "licenses")
	var printed bytes.Buffer
	if err := run(t.Context(), []string{"-repository", repository, "-licenses", dir}, &printed); err != nil {
		t.Fatal(err)
	}
	var names []string
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"stdlib", "BSD-3-Clause", "as you like", "Copyright 2009 The Go Authors"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s does not have %q", f.Name(), want)
			}
		}
	}
	if want := []string{"paddock-agent.txt", "paddock-quiet.txt", "paddock-scheduler.txt", "paddock.txt"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if want := "paddock.txt: 2 modules, all under licenses that are allowed\n"; !strings.Contains(printed.String(), want) {
		t.Errorf("printed %s, want %s", printed.String(), want)
	}
}

// TestLicensesTravel checks that the archives of the plugin have the licenses of what the program
// links, and so has an image. TestConfiguration checks the images of this repository.
func TestLicensesTravel(t *testing.T) {
	repository := repository(t)
	addModule(t, repository, mit(t))
	template, err := os.ReadFile("../krew/paddock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, repository, map[string]string{"deploy/krew/paddock.yaml": string(template), "cmd/paddock-agent/uses.go": "package main\n\nimport _ \"example.org/m\"\n"})
	inGit(t, repository, "add", ".")
	inGit(t, repository, "commit", "--quiet", "--message", "licenses")
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-repository", repository, "-krew", dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) != 4 {
		t.Fatalf("archives %q, %v", archives, err)
	}
	for _, name := range archives {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		checkTexts(t, tar.NewReader(plain), "licenses.txt")
		file.Close()
	}
	work := t.TempDir()
	binaries, err := build(t.Context(), agent, repository, work, nodes[:1])
	if err != nil {
		t.Fatal(err)
	}
	img, err := imageOf(binaries[0])
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	checkTexts(t, tar.NewReader(content), licensesIn(agent))
}

// checkTexts checks that an archive has a file with the licenses of the small program.
func checkTexts(t *testing.T, r *tar.Reader, name string) {
	t.Helper()
	for {
		header, err := r.Next()
		if err != nil {
			t.Fatalf("no %s: %v", name, err)
		}
		if header.Name != name {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil || header.Mode != 0o644 {
			t.Errorf("%s: mode %o, %v", name, header.Mode, err)
		}
		for _, want := range []string{"example.org/m  v1.0.0  MIT", "Permission is hereby granted", "as you like", "Copyright 2009 The Go Authors"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s does not have %q", name, want)
			}
		}
		return
	}
}

// TestLicenseNotAllowed checks that a module under a license that is not allowed ends a build before
// it compiles anything, and that the error names the program, the module and its file.
func TestLicenseNotAllowed(t *testing.T) {
	repository := repository(t)
	addModule(t, repository, "You may use this on Sundays.\n")
	write(t, repository, map[string]string{"cmd/paddock/broken.go": "package main\n\nvar broken int = \"text\"\n"})
	for _, args := range [][]string{{"-licenses", t.TempDir()}, {"-krew", t.TempDir()}} {
		err := run(t.Context(), append(args, "-repository", repository), io.Discard)
		if want := "paddock links example.org/m v1.0.0: LICENSE is not a license that is known (0 % of its words are)"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// addModule lets cmd/paddock link a module of others with a license.
func addModule(t *testing.T, repository, license string) {
	t.Helper()
	quiet := "package main\n\nfunc main() {}\n"
	write(t, repository, map[string]string{
		"go.mod":               program["go.mod"] + "\nrequire example.org/m v1.0.0\n\nreplace example.org/m v1.0.0 => ./third_party/m\n",
		"third_party/m/go.mod": "module example.org/m\n\ngo 1.26.0\n", "third_party/m/m.go": "package m\n", "third_party/m/LICENSE": license,
		"cmd/paddock/uses.go": "package main\n\nimport _ \"example.org/m\"\n", "cmd/paddock-quiet/main.go": quiet,
	})
}

func mit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("licenses", "testdata", "mit.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
