package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// together lists the modules whose packages .ci/run compiles.
var together = []string{".", "deploy/image", "scheduler", "test/chart", "test/cluster", "test/e2e", "test/podresources", "test/programs"}

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
		name := filepath.Join("..", "..", dir, "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(name, data, nil)
		if err != nil {
			t.Fatal(err)
		}
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
