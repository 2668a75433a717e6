package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/release/modules"
)

var whole = flag.Bool("whole", false, "make and check a release of small programs; this compiles the standard library for four platforms, twice")

// small is a program that answers as the programs of Paddock do, as far as a release asks them.
const small = `package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/paddock-project/paddock/internal/base/build"
)

func main() {
	name := os.Args[0]
	for i := range name {
		if name[len(name)-1-i] == '/' {
			name = name[len(name)-i:]
			break
		}
	}
	switch os.Args[1] {
	case "version":
		info, _ := debug.ReadBuildInfo()
		os.Stdout.WriteString(name + " " + build.Version(info) + "\ncommit " + revision(info) + "\n" + runtime.Version() + "\n")
	case "man":
		os.WriteFile(os.Args[2]+"/paddock.1", []byte("a page\n"), 0o600)
	case "completion":
		os.Stdout.WriteString("completion for " + os.Args[2] + "\n")
	}
}

func revision(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
`

// smallVersion is the package that the linker gives the version.
const smallVersion = `package build

import "runtime/debug"

var version string

func Version(info *debug.BuildInfo) string {
	if version != "" {
		return version
	}
	return info.Main.Version
}
`

// TestWhole makes the commit of a release, its folder and its proof, of a repository with the
// deploy/ of this one and small programs. A byte that is changed on disk is noticed.
func TestWhole(t *testing.T) {
	if !*whole {
		t.Skip("make release-whole runs it")
	}
	r := newRepository(t)
	programs := map[string]string{
		"internal/base/build/build.go": smallVersion,
		"scheduler/go.mod":             goMod("scheduler", ""),
		"scheduler/main.go":            "",
	}
	for _, name := range []string{"cmd/paddock", "cmd/paddock-agent", "cmd/paddock-quiet", "scheduler/cmd/paddock-scheduler"} {
		programs[name+"/main.go"] = small
	}
	programs["cmd/paddock/uses.go"] = "package main\n\nimport (\n\t_ \"" + modules.Root + "/api\"\n\t_ \"" + modules.Root + "/internal/core\"\n\t_ \"" + modules.Root + "/predict\"\n)\n"
	programs["scheduler/go.mod"] = goMod("scheduler", "", "api", "internal/core", "predict")
	delete(programs, "scheduler/main.go")
	write(t, r.Dir(), programs)
	for _, name := range []string{"base", "chart", "fleet", "image", "krew", "quiet", "scheduler"} {
		if err := os.CopyFS(filepath.Join(r.Dir(), "deploy", name), os.DirFS(filepath.Join("..", "deploy", name))); err != nil {
			t.Fatal(err)
		}
	}
	inGit(t, r.Dir(), "rm", "--quiet", "--cached", "scheduler/main.go")
	if err := os.Remove(filepath.Join(r.Dir(), "scheduler", "main.go")); err != nil {
		t.Fatal(err)
	}
	inGit(t, r.Dir(), "add", ".")
	inGit(t, r.Dir(), "commit", "--quiet", "--message", "programs")
	clone := released(t, r, "v0.1.0")
	key := filepath.Join(t.TempDir(), "key.pem")
	did := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), args, &out)
		t.Logf("release %s\n%s", strings.Join(args, " "), out.String())
		return out.String(), err
	}
	public, err := did("key", "-key", key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := filepath.Join(t.TempDir(), "paddock.pub")
	_, text, _ := strings.Cut(public, "-----BEGIN")
	write(t, filepath.Dir(trusted), map[string]string{"paddock.pub": "-----BEGIN" + text})
	database, err := filepath.Abs(filepath.Join("vulnerabilities", "testdata", "database"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := did("make", "-repository", clone.Dir(), "-version", "v0.1.0", "-key", key, "-registry", "registry.example/team", "-vulnerabilities", "file://"+database)
	if err != nil || !strings.HasPrefix(made, "making v0.1.0 in bin/release/v0.1.0\n") || !strings.HasSuffix(made, "\nknown vulnerabilities: 1 known to a copy of the Go vulnerability database of 2026-11-20T10:00:00Z\n") {
		t.Fatalf("%v after %s", err, made)
	}
	checkWhole(t, clone.Dir(), trusted, did)
}

// checkWhole checks the folder, and then the folder with a changed byte.
func checkWhole(t *testing.T, repository, trusted string, did func(...string) (string, error)) {
	t.Helper()
	checked, err := did("check", "-repository", repository, "-version", "v0.1.0", "-public-key", trusted, "-skip", "cluster")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"the same bytes again", "equal: yes", "4 modules; bills of materials of 14 programs, which link ", "1 known to a copy of the Go vulnerability database of 2026-11-20T10:00:00Z", "3 files, 2 tests", "vulnerabilities.txt", "modules/github.com/paddock-project/paddock/predict/@v/v0.1.0.zip", "krew/paddock.yaml", "left out", "\n  signed with the key ",
	} {
		if !strings.Contains(checked, want) {
			t.Errorf("the proof does not have %q", want)
		}
	}
	checkNamed(t, filepath.Join(repository, "bin", "release", "v0.1.0"))
	if _, err := did("make", "-repository", repository, "-version", "v0.1.0", "-key", trusted); err == nil {
		t.Error("a public key signs")
	}
	name := filepath.Join(repository, "bin", "release", "v0.1.0", "chart", "paddock-0.1.0.tgz")
	chart, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	chart[len(chart)/2] ^= 1
	if err := os.WriteFile(name, chart, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := did("check", "-repository", repository, "-version", "v0.1.0"); err == nil || !strings.Contains(err.Error(), "chart/paddock-0.1.0.tgz has SHA-256") {
		t.Errorf("a changed chart: %v", err)
	}
}

var (
	// named matches the files of a release that a page names.
	named = regexp.MustCompile("[ `=]((?:manifests|chart|krew|images)/[A-Za-z0-9._-]+\\.(?:yaml|tgz|gz|tar)|bin/paddock-(?:linux|darwin)-[a-z0-9]+)")
	// numbered matches the version in their names.
	numbered = regexp.MustCompile(`\d+\.\d+\.\d+`)
)

// checkNamed checks that a release has the files that the pages about its use name.
func checkNamed(t *testing.T, folder string) {
	t.Helper()
	for page, least := range map[string]int{"deploy/README.md": 10, "deploy/scheduler/README.md": 1, "docs/adopt.md": 4, "docs/roll-out-and-back.md": 8, "docs/release.md": 5, "README.md": 1} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		all := named.FindAllStringSubmatch(string(text), -1)
		if len(all) < least {
			t.Errorf("%s names %d files of a release, want at least %d", page, len(all), least)
		}
		for _, m := range all {
			name := numbered.ReplaceAllString(m[1], "0.1.0")
			if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
}
