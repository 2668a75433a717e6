package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestVersions checks that the version is the one that the go command derives for the main module
// (build fails if they differ), with tags of other modules, of pre-releases and of no version
// beside it, and that the program of the module scheduler has the same version.
func TestVersions(t *testing.T) {
	dir := repository(t)
	platforms := []v1.Platform{{OS: "linux", Architecture: "amd64"}}
	for _, c := range []struct {
		tags []string
		want string
	}{
		{nil, "v0.0.0-20261101080000-"},
		{[]string{"api/v0.9.0", "latest", "v1"}, "v0.0.0-20261101080000-"},
		{[]string{"v0.1.0-rc.1"}, "v0.1.0-rc.1"},
		{nil, "v0.1.0-rc.1.0.20261101080000-"},
		{[]string{"v0.1.0-rc.2", "v0.1.0"}, "v0.1.0"},
		{nil, "v0.1.1-0.20261101080000-"},
	} {
		inGit(t, dir, "commit", "--quiet", "--allow-empty", "--message", "next")
		for _, tag := range c.tags {
			inGit(t, dir, "tag", tag)
		}
		var printed bytes.Buffer
		if err := run(t.Context(), []string{"-repository", dir, "-print-version"}, &printed); err != nil || !strings.HasPrefix(printed.String(), c.want) {
			t.Errorf("%q: -print-version prints %q (%v), want %s", c.tags, printed.String(), err, c.want)
		}
		for _, program := range []command{agent, scheduler} {
			built, err := build(t.Context(), program, dir, filepath.Join(t.TempDir(), "work"), platforms)
			if err != nil {
				t.Fatal(err)
			}
			if got := built[0].version; !strings.HasPrefix(got, c.want) {
				t.Errorf("%q: %s has version %s, want %s", c.tags, program.name, got, c.want)
			}
			if !strings.Contains(string(built[0].program), built[0].version) {
				t.Errorf("%q: the program %s does not have the version %s in it", c.tags, program.name, built[0].version)
			}
		}
	}
}
