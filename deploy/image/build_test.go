package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is a repository that builds in seconds. It is compiled in the same way as Paddock.
var program = map[string]string{
	"go.mod":                    "module github.com/paddock-project/paddock\n\ngo 1.26.0\n",
	".gitignore":                "/bin/\n",
	"LICENSE":                   "as you like\n",
	"cmd/paddock/main.go":       "package main\n\nimport \"github.com/paddock-project/paddock/internal/base/build\"\n\nfunc main() { println(build.Version()) }\n",
	"cmd/paddock-agent/main.go": "package main\n\nimport \"github.com/paddock-project/paddock/internal/base/build\"\n\nfunc main() { println(answer, build.Version()) }\n",
	"internal/base/build/b.go":  "package build\n\nvar version string\n\nfunc Version() string { return version }\n",
	"cmd/paddock-agent/a.go":    "package main\n\nconst answer = 42\n",
	"scheduler/go.mod": "module github.com/paddock-project/paddock/scheduler\n\ngo 1.26.0\n\n" +
		"require github.com/paddock-project/paddock v0.0.0\n\nreplace github.com/paddock-project/paddock => ../\n",
	"scheduler/cmd/paddock-scheduler/main.go": "package main\n\nimport \"github.com/paddock-project/paddock/internal/base/build\"\n\nfunc main() { println(build.Version()) }\n",
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func inGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := git(t.Context(), dir, args...); err != nil {
		t.Fatal(err)
	}
}

// repository creates a repository of program with one commit.
func repository(t *testing.T) string {
	t.Helper()
	t.Setenv("GIT_AUTHOR_DATE", "2026-11-01T10:00:00+02:00")
	t.Setenv("GIT_COMMITTER_DATE", "2026-11-01T10:00:00+02:00")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "A")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
	}
	dir := t.TempDir()
	write(t, dir, program)
	inGit(t, dir, "init", "--quiet")
	inGit(t, dir, "add", ".")
	inGit(t, dir, "commit", "--quiet", "--message", "program")
	return dir
}

// archiveOf builds the image of a repository and returns everything that is written.
func archiveOf(t *testing.T, repository string) (files map[string][]byte, printed string) {
	t.Helper()
	dir := t.TempDir()
	var out bytes.Buffer
	name := filepath.Join(dir, "image.tar")
	if err := run(t.Context(), []string{"-repository", repository, "-output", name}, &out); err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for _, f := range []string{"image.tar", "image-amd64.spdx.json", "image-arm64.spdx.json", "image-amd64.cdx.json", "image-arm64.cdx.json"} {
		data, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		files[f] = data
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != len(files) {
		t.Errorf("%v is left, %v", left, err)
	}
	return files, strings.ReplaceAll(out.String(), dir, "")
}

// TestReproducible checks that another directory, an empty build cache, another time zone, other
// settings of the user, and files that git ignores do not change a byte.
func TestReproducible(t *testing.T) {
	first := repository(t)
	second := filepath.Join(t.TempDir(), "elsewhere", "clone")
	inGit(t, first, "clone", "--quiet", first, second)
	one, printed := archiveOf(t, first)

	write(t, second, map[string]string{"bin/left": "over", "bin/go.mod": "module other\n"})
	for name, value := range map[string]string{
		"GOCACHE": t.TempDir(), "TZ": "Asia/Tokyo", "GOAMD64": "v3", "GOFLAGS": "-tags=other", "CGO_ENABLED": "1", "LANG": "C",
	} {
		t.Setenv(name, value)
	}
	two, again := archiveOf(t, second)
	for name := range one {
		if !bytes.Equal(one[name], two[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if printed != again || !strings.Contains(printed, "localhost/paddock:dev sha256:") || !strings.Contains(printed, "version v0.0.0-20261101080000-") {
		t.Errorf("printed\n%sand then\n%s", printed, again)
	}
}

// TestNotCommitted checks that changed, added and removed files are in the build, and that the
// version shows it.
func TestNotCommitted(t *testing.T) {
	dir := repository(t)
	clean, printed := archiveOf(t, dir)
	if strings.Contains(printed, "+dirty") {
		t.Errorf("a clean tree is %s", printed)
	}
	write(t, dir, map[string]string{"cmd/paddock-agent/b.go": "package main\n\nconst answer = 43\n"})
	if err := os.Remove(filepath.Join(dir, "cmd/paddock-agent/a.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("main.go", filepath.Join(dir, "cmd/paddock-agent/link.txt")); err != nil {
		t.Fatal(err)
	}
	dirty, printed := archiveOf(t, dir)
	if !strings.Contains(printed, "+dirty") || bytes.Equal(clean["image.tar"], dirty["image.tar"]) {
		t.Errorf("a changed tree is %s", printed)
	}
	if again, _ := archiveOf(t, dir); !bytes.Equal(again["image.tar"], dirty["image.tar"]) {
		t.Error("the same change gives another archive")
	}
}

// TestWorktree checks that the image has a version in a git worktree, where the go command finds
// none.
func TestWorktree(t *testing.T) {
	dir := repository(t)
	tree := filepath.Join(t.TempDir(), "tree")
	inGit(t, dir, "worktree", "add", "--quiet", tree)
	of, _ := archiveOf(t, tree)
	if want, _ := archiveOf(t, dir); !bytes.Equal(of["image.tar"], want["image.tar"]) {
		t.Error("the image of a worktree is another one than that of its commit")
	}
}

// TestModuleBelow checks that a command of another module of the repository is built from the same
// commit. In the bill of materials, the modules of the repository have its version.
func TestModuleBelow(t *testing.T) {
	dir := repository(t)
	output := filepath.Join(t.TempDir(), "image.tar")
	var printed bytes.Buffer
	if err := run(t.Context(), []string{"-command", "paddock-scheduler", "-repository", dir, "-output", output}, &printed); err != nil {
		t.Fatal(err)
	}
	materials, err := os.ReadFile(sbomName(output, v1.Platform{OS: "linux", Architecture: "arm64"}))
	if err != nil {
		t.Fatal(err)
	}
	const version = "v0.0.0-20261101080000-"
	for _, want := range []string{
		`"name": "github.com/paddock-project/paddock/scheduler"`, `"packageFileName": "/paddock-scheduler"`,
		`pkg:golang/github.com/paddock-project/paddock@` + version, `pkg:golang/github.com/paddock-project/paddock/scheduler@` + version,
	} {
		if !bytes.Contains(materials, []byte(want)) {
			t.Errorf("the bill of materials does not have %s:\n%s", want, materials)
		}
	}
	if !strings.Contains(printed.String(), "localhost/paddock-scheduler:dev sha256:") {
		t.Errorf("printed %s", printed.String())
	}
}

// TestErrors checks that each error names what was expected, and that no archive is left.
func TestErrors(t *testing.T) {
	broken := repository(t)
	write(t, broken, map[string]string{"cmd/paddock-agent/a.go": "package main\n"})
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-repository", empty}, "is not in a git repository, so the image would have no version: expected a clone"},
		{[]string{"-repository", filepath.Join(empty, "none")}, "is not in a git repository"},
		{[]string{"-repository", broken}, "go build for linux/amd64: exit status 1: "},
		{[]string{"-platforms", "linux/s390x"}, `"linux/s390x": expected linux/amd64 or linux/arm64`},
		{[]string{"-platforms", ""}, `"": expected linux/amd64 or linux/arm64`},
		{[]string{"-command", "kubelet"}, `-command: "kubelet": expected paddock, paddock-scheduler or paddock-quiet`},
		{[]string{"-name", "paddock"}, `"paddock": expected REGISTRY/REPOSITORY:TAG`},
		{[]string{"-name", "localhost:5000/paddock"}, "expected REGISTRY/REPOSITORY:TAG"},
		{[]string{"-name", "localhost/paddock:"}, "expected REGISTRY/REPOSITORY:TAG"},
		{[]string{"archive.tar"}, `argument "archive.tar": expected only flags`},
	} {
		output := filepath.Join(t.TempDir(), "image.tar")
		err := run(t.Context(), append([]string{"-output", output}, c.args...), io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
		if left, _ := filepath.Glob(filepath.Dir(output) + "/*"); len(left) > 0 {
			t.Errorf("%q leaves %q", c.args, left)
		}
	}
	if r, tag, err := splitName("registry.example:5000/a/paddock:v1"); r != "registry.example:5000/a/paddock" || tag != "v1" || err != nil {
		t.Errorf("%s, %s, %v", r, tag, err)
	}
}

// TestNameIsDeployed checks that the manifests name the image that is built, and that the page
// describes how to build and import it.
func TestNameIsDeployed(t *testing.T) {
	for name, want := range map[string]string{
		"../base/daemonset.yaml":       "image: " + agent.localName() + "\n",
		"../scheduler/deployment.yaml": "image: " + scheduler.localName() + "\n",
		"../quiet/daemonset.yaml":      "image: " + quiet.localName() + "\n",
		"../README.md":                 "    make image\n    ssh NODE sudo ctr -n k8s.io images import - < bin/paddock-image.tar\n",
		"../../Makefile":               "bin/paddock-image.tar",
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
}
