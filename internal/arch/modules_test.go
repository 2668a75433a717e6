package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// together lists the modules whose packages .ci/run compiles.
var together = []string{".", "deploy/image", "release", "scheduler", "test/chart", "test/cluster", "test/e2e", "test/podresources", "test/programs"}

// TestOneVersion checks that modules compiled together require the same version of a library. If
// they differ, Go compiles every package above that library twice. With Kubernetes above it, that
// takes minutes.
//
// The modules in Kubernetes' own repository have two versions: modules that import Kubernetes 1.36
// replace them. The required version matters there, too, because compiled packages contain it.
func TestOneVersion(t *testing.T) {
	type requirement struct{ module, version string }
	newest := map[string]requirement{}
	required := map[string][]requirement{}
	for _, dir := range together {
		file := readModule(t, dir)
		for _, r := range file.Require {
			path := r.Mod.Path
			if followsKubernetes(path) {
				continue
			}
			here := requirement{dir, r.Mod.Version}
			path += replacement(file, path)
			required[path] = append(required[path], here)
			if semver.Compare(here.version, newest[path].version) > 0 {
				newest[path] = here
			}
		}
	}
	for path, all := range required {
		for _, r := range all {
			if best := newest[path]; r.version != best.version {
				t.Errorf("%s/go.mod requires %s %s, and %s/go.mod requires %s: run go get %s@%s and go mod tidy in %s", r.module, path, r.version, best.module, best.version, path, best.version, r.module)
			}
		}
	}
}

// TestNestedModules checks what the modules of the Go API require: nothing of this repository
// except what mayRequire has, and nothing of others that only tests of the main module need. A
// module that uses the main module from its directory replaces these modules too: a replacement
// counts only in the module that is built.
func TestNestedModules(t *testing.T) {
	for _, dir := range nested {
		file := readModule(t, dir)
		if want := modulePath + "/" + dir; file.Module.Mod.Path != want {
			t.Errorf("%s/go.mod is of %s, want %s", dir, file.Module.Mod.Path, want)
		}
		for _, r := range file.Require {
			if !r.Indirect && !slices.Contains(mayRequire[dir], r.Mod.Path) {
				t.Errorf("%s/go.mod requires %s, and so does each module that uses it: it may require %v", dir, r.Mod.Path, mayRequire[dir])
			}
		}
	}
	for _, dir := range together {
		file := readModule(t, dir)
		replaced := map[string]string{}
		for _, r := range file.Replace {
			replaced[r.Old.Path] = filepath.Join(dir, r.New.Path)
		}
		for _, inner := range nested {
			if got := replaced[modulePath+"/"+inner]; (dir == "." || replaced[modulePath] != "") && got != inner {
				t.Errorf("%s/go.mod uses the main module from its directory, and %s/%s from %q", dir, modulePath, inner, got)
			}
		}
	}
}

// mayRequire has the modules that a nested module may require itself.
var mayRequire = map[string][]string{
	"api":           {"k8s.io/apimachinery", "google.golang.org/grpc", "google.golang.org/protobuf"},
	"internal/core": coreTests,
	"predict":       {modulePath + "/api", modulePath + "/internal/core", "k8s.io/apimachinery", "pgregory.net/rapid"},
}

func readModule(t *testing.T, dir string) *modfile.File {
	t.Helper()
	name := filepath.Join("..", "..", dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(name, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestModuleRulesBite checks that imports out of a nested module are noticed.
func TestModuleRulesBite(t *testing.T) {
	own := func(s string) string { return modulePath + "/internal/" + s }
	for _, c := range []struct {
		dir, imported string
		test, bad     bool
	}{
		{"internal/core/node", own("core/moves"), true, false},
		{"internal/core/node", own("codec/podspec"), false, true},
		{"internal/core/node", own("codec/podspec"), true, true},
		{"internal/core/node", modulePath + "/api/v1alpha1", false, true},
		{"internal/core/node", "k8s.io/utils/cpuset", true, true},
		{"internal/core/node", "pgregory.net/rapid", true, false},
		{"internal/testing/core/node", own("codec/podspec"), true, false},
		{"internal/codec/objects", modulePath + "/api/v1alpha1", false, false},
		{"api/v1alpha1", own("core/mask"), true, true},
	} {
		got := checkImports(c.dir, c.test, []string{c.imported})
		if bad := len(got) > 0 && strings.Contains(got[0], adviceModule); bad != c.bad {
			t.Errorf("%s (test %v) importing %s: %q", c.dir, c.test, c.imported, got)
		}
	}
}

// followsKubernetes reports whether a module has the version that Kubernetes requires, or is one of
// this repository.
func followsKubernetes(path string) bool {
	return strings.HasPrefix(path, "go.etcd.io/etcd/") || strings.HasPrefix(path, "github.com/paddock-project/")
}

// replacement returns with what a module is replaced, or "".
func replacement(file *modfile.File, path string) string {
	for _, r := range file.Replace {
		if r.Old.Path == path {
			return " => " + r.New.Version
		}
	}
	return ""
}
