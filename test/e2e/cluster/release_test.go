package cluster

import (
	"context"
	"flag"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/test/e2e/vm"
)

var releaseDir = flag.String("release", "", "the folder of a release, as make release makes it, to install on a node without a network")

// TestRelease installs a release from its folder alone: a node imports the image, and kubectl applies
// the manifests. It is not part of other runs, because making a release takes long.
func TestRelease(t *testing.T) {
	if *releaseDir == "" {
		t.Skip("a release is installed with -release")
	}
	dir, err := filepath.Abs(*releaseDir)
	if err != nil {
		t.Fatal(err)
	}
	images, err := filepath.Glob(filepath.Join(dir, "images", "paddock-v*.tar"))
	if err != nil || len(images) != 1 {
		t.Fatalf("%s has %d images of the agent: %v", dir, len(images), err)
	}
	t.Setenv("RELEASE", dir)
	t.Setenv("VERSION", strings.TrimSuffix(strings.TrimPrefix(filepath.Base(images[0]), "paddock-"), ".tar"))
	page := filepath.Join("testdata", "release", "install.txt")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := newReleasedRig(t, dir)
	if err := r.play(ctx, page, nil); err != nil {
		t.Fatal(err)
	}
}

// newReleasedRig prepares a stock node, and takes the plugin of kubectl from a release.
func newReleasedRig(t *testing.T, dir string) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), parts: find(t, needs{kernels: []string{"6.1"}}), plugin: filepath.Join(dir, "bin", "paddock-linux-"+runtime.GOARCH)}
	var err error
	if r.machine, err = vm.ReadMachine(filepath.Join("..", "testdata", "machines", "2numa-pci.json")); err != nil {
		t.Fatal(err)
	}
	if r.certs, err = newCerts(r.dir); err != nil {
		t.Fatal(err)
	}
	return r
}
