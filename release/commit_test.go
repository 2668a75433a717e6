package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/release/repository"
)

// committed runs release commit, and returns what it prints.
func committed(t *testing.T, r repository.Repository, version string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), []string{"commit", "-repository", r.Dir(), "-version", version}, &out)
	return out.String(), err
}

// expectError checks that an error has a text.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCommitOfRelease checks that no release is made from the commit of another one, whose modules do
// not build without the proxy: nothing is made.
func TestCommitOfRelease(t *testing.T) {
	r := newRepository(t)
	released(t, r, "v0.1.0")
	inGit(t, r.Dir(), "checkout", "--quiet", "v0.1.0")
	_, err := committed(t, r, "v0.2.0")
	expectError(t, err, "HEAD is the commit of release v0.1.0, whose modules do not replace each other: check out the branch to release from, such as git checkout main")
	if branches := inGit(t, r.Dir(), "branch", "--list", "release-v0.2.0"); branches != "" {
		t.Errorf("it made %s", branches)
	}
	inGit(t, r.Dir(), "checkout", "--quiet", "release-v0.1.0") // Where a patch release begins.
	if _, err := committed(t, r, "v0.2.0"); err != nil {
		t.Error(err)
	}
}

// TestTags checks the errors of tags on different commits, and of tags that are there before the
// release.
func TestTags(t *testing.T) {
	r := newRepository(t)
	clone := released(t, r, "v0.1.0")
	dir := clone.Dir()
	release, wrong := inGit(t, dir, "rev-parse", "--short=12", "HEAD"), inGit(t, dir, "rev-parse", "--short=12", "HEAD~1")
	inGit(t, dir, "tag", "--force", "api/v0.1.0", "HEAD~1")
	for _, at := range []string{"v0.1.0", "api/v0.1.0"} {
		inGit(t, dir, "checkout", "--quiet", at)
		err := run(t.Context(), []string{"make", "-repository", dir, "-version", "v0.1.0"}, &bytes.Buffer{})
		expectError(t, err, "the tags are on different commits: internal/core/v0.1.0 on "+release+", api/v0.1.0 on "+wrong+", predict/v0.1.0 on "+release+", v0.1.0 on "+release+
			": delete the wrong one with git tag -d TAG, and tag release-v0.1.0~1")
	}
	_, err := committed(t, r, "v0.1.0")
	expectError(t, err, "a version is released once: choose a greater one, or, if no tag of this version was ever pushed, start over with git tag -d api/v0.1.0 internal/core/v0.1.0 predict/v0.1.0 v0.1.0")
	inGit(t, r.Dir(), "tag", "-d", "internal/core/v0.1.0", "predict/v0.1.0", "v0.1.0")
	_, err = committed(t, r, "v0.1.0")
	expectError(t, err, "the tag api/v0.1.0 exists: a version is released once")
	inGit(t, r.Dir(), "tag", "-d", "api/v0.1.0")
	_, err = committed(t, r, "v0.1.0")
	expectError(t, err, "the branch release-v0.1.0 exists")
	inGit(t, r.Dir(), "branch", "-D", "release-v0.1.0")
	released(t, r, "v0.1.0")
}

// TestNext checks that the printed commands name the branch that the release was made from.
func TestNext(t *testing.T) {
	r := newRepository(t)
	inGit(t, r.Dir(), "checkout", "--quiet", "-b", "release-0.1")
	for _, c := range []struct{ checkout, version, want string }{
		{"release-0.1", "v0.1.0-rc.1", "\n    git checkout release-0.1\n    git merge --ff-only release-v0.1.0-rc.1\n    git push --atomic origin release-0.1 internal/core/v0.1.0-rc.1 api/"},
		{"HEAD~0", "v0.1.0", "merge the branch into the one that you release from, BRANCH, and push that with the tags:\n\n    git checkout BRANCH\n"},
	} {
		inGit(t, r.Dir(), "checkout", "--quiet", c.checkout)
		out, err := committed(t, r, c.version)
		if err != nil || !strings.Contains(out, c.want) || !strings.Contains(out, "\n    make release VERSION="+c.version+" REGISTRY=REGISTRY\n") {
			t.Errorf("%v: expected %q in\n%s", err, c.want, out)
		}
	}
}

// TestChangelog checks that a version needs its heading, and a candidate that of its release.
func TestChangelog(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"CHANGELOG.md": "# Changelog\n\n## 0.2.0 (2027-01-01)\n\n### 0.3.0\n\n## 0.1.0\n"})
	for _, version := range []string{"v0.2.0", "v0.2.0-rc.1", "v0.1.0"} {
		if err := checkChangelog(dir, version); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	for version, want := range map[string]string{"v0.3.0": "0.3.0", "v0.2.1-rc.1": "0.2.1"} {
		expectError(t, checkChangelog(dir, version), "CHANGELOG.md has no heading ## "+want+": add one")
	}
}

// TestProblem checks that a person who interrupts reads no details of what was interrupted.
func TestProblem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := committed(t, newRepository(t), "v0.1")
	expectError(t, err, "expected vMAJOR.MINOR.PATCH")
	if got := problem(err); got != err.Error() {
		t.Errorf("%q", got)
	}
	if _, err := command(ctx, t.TempDir(), nil, "sleep", "60"); problem(err) != "interrupted" {
		t.Errorf("%v", err)
	}
}
