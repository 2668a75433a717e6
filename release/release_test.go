package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/release/modules"
	"github.com/paddock-project/paddock/release/repository"
)

// tree is a repository with the modules of Paddock, of which each has one package.
var tree = map[string]string{
	"LICENSE":                 "as you like\n",
	"CHANGELOG.md":            "# Changelog\n\n## 0.2.0\n\n## 0.1.0\n",
	".gitignore":              "/bin/\n",
	"go.mod":                  goMod("", "api", "internal/core", "predict"),
	"cmd/paddock/main.go":     "package main\n\nimport (\n\t\"github.com/paddock-project/paddock/api\"\n\t\"github.com/paddock-project/paddock/internal/core\"\n\t\"github.com/paddock-project/paddock/predict\"\n)\n\nfunc main() { println(api.Name, core.Answer, predict.Answer()) }\n",
	"internal/core/go.mod":    goMod("internal/core"),
	"internal/core/core.go":   "package core\n\nconst Answer = 42\n",
	"api/go.mod":              goMod("api"),
	"api/api.go":              "package api\n\nconst Name = \"api\"\n",
	"predict/go.mod":          goMod("predict", "internal/core"),
	"predict/LICENSE":         "its own\n",
	"predict/predict.go":      "package predict\n\nimport \"github.com/paddock-project/paddock/internal/core\"\n\nfunc Answer() int { return core.Answer }\n",
	"scheduler/go.mod":        goMod("scheduler", "", "api", "internal/core", "predict"),
	"scheduler/main.go":       "package main\n\nimport \"github.com/paddock-project/paddock/predict\"\n\nfunc main() { println(predict.Answer()) }\n",
	"docs/with space.md":      "text\n",
	"predict/testdata/go.txt": "text\n",

	"predict/example_test.go":                "package predict_test\n\nimport \"github.com/paddock-project/paddock/predict\"\n\nfunc ExampleNode_Fill() {\n\tprintln(predict.Answer())\n\t// Output:\n}\n",
	"predict/examples/filter/filter.go":      "package filter\n\nimport \"github.com/paddock-project/paddock/predict\"\n\nfunc Filter() int { return predict.Answer() }\n",
	"predict/examples/filter/filter_test.go": "package filter_test\n\nimport (\n\t\"testing\"\n\n\t\"github.com/paddock-project/paddock/predict/examples/filter\"\n)\n\nfunc TestPlugin(t *testing.T) {\n\tif filter.Filter() != 42 {\n\t\tt.Fail()\n\t}\n}\n",
}

// goMod returns the go.mod of a module that requires and replaces others.
func goMod(dir string, others ...string) string {
	name := func(dir string) string { return strings.TrimSuffix(modules.Root+"/"+dir, "/") }
	text := "module " + name(dir) + "\n\ngo 1.26.0\n"
	up := strings.Repeat("../", strings.Count(dir+"/", "/"))
	if dir == "" {
		up = "./"
	}
	for _, o := range others {
		text += "\nrequire " + name(o) + " v0.0.0\n\nreplace " + name(o) + " => " + up + o + "\n"
	}
	return text
}

// newRepository makes a repository of tree with one commit.
func newRepository(t *testing.T) repository.Repository {
	t.Helper()
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "A")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
		t.Setenv("GIT_"+who+"_DATE", "2026-11-01T10:00:00+02:00")
	}
	dir := t.TempDir()
	write(t, dir, tree)
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch", "main"}, {"add", "."}, {"commit", "--quiet", "--message", "tree"}} {
		inGit(t, dir, args...)
	}
	r, err := repository.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func inGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// released makes the commit of a release and tags it with the commands that are printed. It returns
// a clone at the tag.
func released(t *testing.T, r repository.Repository, version string) repository.Repository {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"commit", "-repository", r.Dir(), "-version", version}, &out); err != nil {
		t.Fatal(err)
	}
	tags := 0
	for line := range strings.Lines(out.String()) {
		if command := strings.Fields(line); len(command) > 2 && command[0] == "git" && command[1] == "tag" {
			inGit(t, r.Dir(), command[1:]...)
			tags++
		}
	}
	if tags != 4 {
		t.Fatalf("%d tags:\n%s", tags, out.String())
	}
	clone, err := r.Clone(t.Context(), version, filepath.Join(t.TempDir(), "clone"))
	if err != nil {
		t.Fatal(err)
	}
	return clone
}

// TestCommit checks the commit of a release: no replace directive, the version everywhere, the
// working tree as it was, and a second commit that goes back.
func TestCommit(t *testing.T) {
	r := newRepository(t)
	clone := released(t, r, "v0.1.0")
	for _, name := range []string{"go.mod", "predict/go.mod", "api/go.mod", "internal/core/go.mod"} {
		text, err := os.ReadFile(filepath.Join(clone.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "replace") || strings.Contains(string(text), "v0.0.0") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	kept, err := os.ReadFile(filepath.Join(clone.Dir(), "scheduler", "go.mod"))
	if err != nil || !strings.Contains(string(kept), "replace "+modules.Root+"/predict => ../predict") || strings.Contains(string(kept), "v0.0.0") {
		t.Errorf("scheduler/go.mod: %v\n%s", err, kept)
	}
	sums, err := os.ReadFile(filepath.Join(clone.Dir(), "go.sum"))
	if n := strings.Count(string(sums), " v0.1.0"); err != nil || n != 6 {
		t.Errorf("go.sum has %d lines of the release, want 6: %v\n%s", n, err, sums)
	}
	if changed := inGit(t, r.Dir(), "status", "--porcelain"); changed != "" || inGit(t, r.Dir(), "branch", "--show-current") != "main" {
		t.Errorf("the working tree was changed: %s", changed)
	}
	if differ := inGit(t, r.Dir(), "diff", "main", "release-v0.1.0"); differ != "" {
		t.Errorf("after the release, the tree is not that before it:\n%s", differ)
	}
	if after := inGit(t, r.Dir(), "describe", "--tags", "--match", "v*", "release-v0.1.0"); !strings.HasPrefix(after, "v0.1.0-1-") {
		t.Errorf("the branch does not descend from the tag: %s", after)
	}
	if out, err := command(t.Context(), filepath.Join(clone.Dir(), "scheduler"), []string{"GOFLAGS=", "GOPROXY=off"}, "go", "run", "."); err != nil {
		t.Errorf("the module scheduler does not build at the tag: %v: %s", err, out)
	}
}

// TestAsFromGit checks that the files of the proxy are those that the go command makes of the tags:
// the same checksums, license files of nested modules included.
func TestAsFromGit(t *testing.T) {
	r := newRepository(t)
	clone := released(t, r, "v0.1.0")
	all, err := modules.Published(clone.Dir())
	if err != nil || len(all) != 4 {
		t.Fatalf("%d modules, %v", len(all), err)
	}
	proxy := t.TempDir()
	if err := modules.WriteProxy(t.Context(), clone, "HEAD", "v0.1.0", all, proxy); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "gitconfig")
	write(t, filepath.Dir(config), map[string]string{
		"gitconfig": "[url \"file://" + r.Dir() + "\"]\n\tinsteadOf = https://" + modules.Root + "\n[safe]\n\tdirectory = *\n",
	})
	fromGit := []string{"GOPROXY=direct", "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOVCS=*:git", "GIT_CONFIG_GLOBAL=" + config, "GOMODCACHE=" + t.TempDir()}
	fromFiles := []string{"GOPROXY=file://" + proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + t.TempDir()}
	for _, m := range all {
		var sums [2]string
		for i, environment := range [][]string{fromGit, fromFiles} {
			out, err := command(t.Context(), t.TempDir(), environment, "go", "mod", "download", "-json", m.Path+"@v0.1.0")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, `"Sum"`) || strings.Contains(line, `"GoModSum"`) {
					sums[i] += strings.Trim(line, " \t\n,") + "\n"
				}
			}
		}
		if sums[0] != sums[1] || !strings.Contains(sums[0], "h1:") {
			t.Errorf("%s: from git\n%sfrom the proxy\n%s", m.Path, sums[0], sums[1])
		}
	}
	bin := t.TempDir()
	if _, err := command(t.Context(), bin, append(fromFiles, "GOBIN="+bin), "go", "install", modules.Root+"/cmd/paddock@v0.1.0"); err != nil {
		t.Error(err)
	}
}

// TestErrors checks that each error describes what to do.
func TestErrors(t *testing.T) {
	r := newRepository(t)
	dir := r.Dir()
	expect := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		err := run(context.Background(), slices.Concat(args[:1], []string{"-repository", dir}, args[1:]), &out)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.1.0+more", "v0.0.0-20261101080000-0123456789ab"} {
		expect("expected vMAJOR.MINOR.PATCH", "commit", "-version", version)
	}
	expect("expected v0 or v1", "commit", "-version", "v2.0.0")
	expect("there is no tag internal/core/v0.1.0: make the commit of the release", "make", "-version", "v0.1.0")
	released(t, r, "v0.1.0")
	expect("the tag v0.1.0 exists: a version is released once", "commit", "-version", "v0.1.0")
	expect("HEAD is "+inGit(t, dir, "rev-parse", "--short=12", "HEAD")+": check it out with git checkout v0.1.0", "make", "-version", "v0.1.0")
	inGit(t, dir, "merge", "--quiet", "--ff-only", "release-v0.1.0")
	expect("version v0.0.9 does not sort after v0.1.0", "commit", "-version", "v0.0.9")
	for _, m := range []string{"internal/core/", "api/", "predict/", ""} {
		inGit(t, dir, "tag", m+"v0.2.0")
	}
	expect("replaces github.com/paddock-project/paddock/internal/core: a release has no replace directive", "make", "-version", "v0.2.0")
	inGit(t, dir, "checkout", "--quiet", "v0.1.0")
	expect("there is no key "+dir+"/none: make one with make release-key", "make", "-version", "v0.1.0", "-key", dir+"/none")
	expect("is not the folder of a release: make it with make release VERSION=v0.1.0", "check", "-version", "v0.1.0")
	expect(`step "reboot" cannot be left out: expected cluster or rebuild`, "check", "-version", "v0.1.0", "-skip", "cluster,reboot")
	write(t, dir, map[string]string{"docs/new.md": "text\n"})
	expect("not committed: ?? docs/new.md: a release has only what is committed", "make", "-version", "v0.1.0")
	expect("is not in a git repository", "commit", "-version", "v0.3.0", "-repository", os.TempDir())
	if err := run(t.Context(), []string{"publish"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "expected commit, key, make or check") {
		t.Errorf("%v", err)
	}
}
