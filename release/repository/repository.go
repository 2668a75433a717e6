// Package repository asks git whether a commit can be released, and copies commits.
//
// It never changes the working tree, the index or the current branch of the user: changes are made
// in clones.
package repository

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/paddock-project/paddock/release/process"
)

// Repository is a clone, or a working tree of one.
type Repository struct{ dir string }

// Open returns the repository that has a directory. The error describes what was expected.
func Open(ctx context.Context, dir string) (Repository, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Repository{}, err
	}
	top, err := (Repository{dir}).Git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return Repository{}, fmt.Errorf("%s is not in a git repository: a release is made of a commit, run it in a clone: %w", dir, err)
	}
	return Repository{top}, nil
}

// Dir returns the root of the working tree.
func (r Repository) Dir() string { return r.dir }

// Git runs git and returns what it prints, without space at its ends. The error has what git
// printed on standard error.
func (r Repository) Git(ctx context.Context, args ...string) (string, error) {
	out, err := r.Output(ctx, args...)
	return strings.TrimSpace(string(out)), err
}

// Output is Git for output that is not text.
func (r Repository) Output(ctx context.Context, args ...string) ([]byte, error) {
	out, stderr, err := process.Output(ctx, r.dir, nil, "git", args...)
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
		if text := bytes.TrimSpace(stderr); len(text) > 0 {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	return out, nil
}

// Clone checks a commit out into dir, which must not exist. The clone has the tags.
func (r Repository) Clone(ctx context.Context, commit, dir string) (Repository, error) {
	if _, err := r.Git(ctx, "clone", "--quiet", "--shared", "--no-checkout", r.dir, dir); err != nil {
		return Repository{}, err
	}
	clone := Repository{dir}
	_, err := clone.Git(ctx, "checkout", "--quiet", "--detach", commit)
	return clone, err
}

// Commit is a commit.
type Commit struct {
	ID   string
	Time time.Time // of the committer, in UTC
}

// Commit returns a commit by a name such as HEAD.
func (r Repository) Commit(ctx context.Context, name string) (Commit, error) {
	out, err := r.Git(ctx, "show", "--no-patch", "--format=%H %cI", name+"^{commit}")
	if err != nil {
		return Commit{}, err
	}
	id, at, _ := strings.Cut(out, " ")
	committed, err := time.Parse(time.RFC3339, at)
	return Commit{id, committed.UTC()}, err
}

// CheckVersion checks the form of a version.
func CheckVersion(version string) error {
	if version == "" || version != semver.Canonical(version) || module.IsPseudoVersion(version) {
		return fmt.Errorf("version %q: expected vMAJOR.MINOR.PATCH, such as v0.1.0 or v0.2.0-rc.1", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("version %q: the import path of a Go module ends in its major version from v2 on, and these modules have none: expected v0 or v1", version)
	}
	return nil
}

// CheckClean checks that every change is committed.
func (r Repository) CheckClean(ctx context.Context) error {
	changed, err := r.Git(ctx, "status", "--porcelain")
	if err != nil || changed == "" {
		return err
	}
	lines := strings.Split(changed, "\n")
	shown := lines[:min(len(lines), 5)]
	for i, line := range shown {
		shown[i] = strings.TrimSpace(line)
	}
	names := strings.Join(shown, ", ")
	if more := len(lines) - len(shown); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("not committed: %s: a release has only what is committed: commit it, or put it aside with git stash --include-untracked", names)
}

// CheckAfter checks that a version is greater than every version that HEAD descends from.
func (r Repository) CheckAfter(ctx context.Context, version string) error {
	tags, err := r.Git(ctx, "tag", "--merged", "HEAD")
	if err != nil {
		return err
	}
	var last string
	for tag := range strings.FieldsSeq(tags) {
		if tag != version && tag == semver.Canonical(tag) && semver.Compare(tag, last) > 0 {
			last = tag
		}
	}
	if last != "" && semver.Compare(version, last) <= 0 {
		return fmt.Errorf("version %s does not sort after %s, the last release that this commit descends from: choose a greater version", version, last)
	}
	return nil
}

// CheckNew checks that none of the tags of a version exists.
func (r Repository) CheckNew(ctx context.Context, tags []string) error {
	found, err := r.Git(ctx, append([]string{"tag", "--list"}, tags...)...)
	if err != nil || found == "" {
		return err
	}
	all := strings.Fields(found)
	// The last one is that of the main module. In the order of git, it is the last one as well.
	return fmt.Errorf("the tag %s exists: a version is released once: choose a greater one, or, if no tag of this version was ever pushed, start over with git tag -d %s",
		all[len(all)-1], strings.Join(all, " "))
}

// Branch returns the name of the branch that HEAD is on. It is empty if HEAD is on none.
func (r Repository) Branch(ctx context.Context) (string, error) {
	return r.Git(ctx, "branch", "--show-current")
}

// ReleaseBranch returns the name of the branch of a release. The release is the commit before its
// last one.
func ReleaseBranch(version string) string { return "release-" + version }

// CheckTags checks that every tag is on HEAD. The last one is the version. The first error describes
// what to do.
func (r Repository) CheckTags(ctx context.Context, tags []string) error {
	head, err := r.Commit(ctx, "HEAD")
	if err != nil {
		return err
	}
	var on []string
	differ, first := false, Commit{}
	for i, tag := range tags {
		found, err := r.Git(ctx, "tag", "--list", tag)
		if err != nil {
			return err
		}
		if found == "" {
			return fmt.Errorf("there is no tag %s: make the commit of the release with make release-commit, review it, and tag it with the commands that it prints", tag)
		}
		of, err := r.Commit(ctx, "refs/tags/"+tag)
		if err != nil {
			return err
		}
		if i == 0 {
			first = of
		}
		differ = differ || of.ID != first.ID
		on = append(on, fmt.Sprintf("%s on %.12s", tag, of.ID))
	}
	version := tags[len(tags)-1]
	switch {
	case differ:
		return fmt.Errorf("the tags are on different commits: %s: delete the wrong one with git tag -d TAG, and tag %s~1", strings.Join(on, ", "), ReleaseBranch(version))
	case first.ID != head.ID:
		return fmt.Errorf("the tag %s is on %.12s, and HEAD is %.12s: check it out with git checkout %s", version, first.ID, head.ID, version)
	}
	return nil
}

// Files returns the names of the committed files below a directory of the repository.
func (r Repository) Files(ctx context.Context, below string) ([]string, error) {
	out, err := r.Output(ctx, "ls-files", "-z", "--", below)
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(names) == 1 && names[0] == "" {
		return nil, fmt.Errorf("%s has no files in git: %w", below, os.ErrNotExist)
	}
	return names, nil
}
