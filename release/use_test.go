package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/release/modules"
	"github.com/paddock-project/paddock/release/repository"
)

// published makes the release v0.1.0 of the modules of a repository's commit, and returns the
// directory of a proxy with all of them but the main module.
func published(t *testing.T, r repository.Repository) (proxy string, all []modules.Module) {
	t.Helper()
	clone, err := r.Clone(t.Context(), "HEAD", filepath.Join(t.TempDir(), "clone"))
	if err != nil {
		t.Fatal(err)
	}
	if all, err = modules.Published(clone.Dir()); err != nil {
		t.Fatal(err)
	}
	all = all[:len(all)-1]
	if _, err := modules.Prepare(t.Context(), clone, "v0.1.0", all); err != nil {
		t.Fatal(err)
	}
	tree, err := clone.Git(t.Context(), "write-tree")
	if err != nil {
		t.Fatal(err)
	}
	commit, err := clone.Git(t.Context(), "commit-tree", tree, "-m", "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	proxy = filepath.Join(t.TempDir(), "modules")
	if err := modules.WriteProxy(t.Context(), clone, commit, "v0.1.0", all, proxy); err != nil {
		t.Fatal(err)
	}
	return proxy, all
}

// TestModules checks the modules of this repository's commit as others get them: each has the license
// of the repository, and the examples of package predict build and pass outside.
func TestModules(t *testing.T) {
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "A")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
	}
	here, err := repository.Open(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	proxy, all := published(t, here)
	license, err := os.ReadFile(filepath.Join("..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		name, err := m.Zip("v0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(proxy, name))
		if err != nil {
			t.Fatal(err)
		}
		files, err := m.Unzip(data, "v0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(files["LICENSE"], license) {
			t.Errorf("the LICENSE of %s has %d bytes, and that of the repository %d", m.Path, len(files["LICENSE"]), len(license))
		}
	}
	text, err := asUser(t.Context(), proxy, "v0.1.0", func(ctx context.Context, u user) (string, error) { return u.examples(ctx) })
	if err != nil || text != "3 files, 5 tests" {
		t.Errorf("%q, %v; want 3 files, 5 tests", text, err)
	}
}

// TestExamplesFail checks the errors of examples that do not compile, do not pass, or are not there.
func TestExamplesFail(t *testing.T) {
	for _, c := range []struct {
		changed, text, want string
	}{
		{"predict/examples/filter/filter.go", "package filter\n\nimport \"github.com/paddock-project/paddock/predict\"\n\nfunc Filter() int { return predict.Gone() }\n", "undefined: predict.Gone"},
		{"predict/predict.go", "package predict\n\nfunc Answer() int { return 43 }\n", "--- FAIL: TestPlugin"},
		{"predict/example_test.go", "package predict_test\n", `no "--- PASS: ExampleNode_Fill"`},
	} {
		r := newRepository(t)
		write(t, r.Dir(), map[string]string{c.changed: c.text})
		inGit(t, r.Dir(), "commit", "--quiet", "--all", "--message", "change")
		proxy, _ := published(t, r)
		_, err := asUser(t.Context(), proxy, "v0.1.0", func(ctx context.Context, u user) (string, error) { return u.examples(ctx) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.changed, err, c.want)
		}
	}
}
