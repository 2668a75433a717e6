package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/paddock-project/paddock/release/modules"
	"github.com/paddock-project/paddock/release/repository"
)

// commit makes the branch of a release: its commit, which people review and tag, and a commit that
// lets the modules replace each other again. Both belong in the main branch, so that later
// commits descend from the tag and have greater versions. It leaves the working tree alone.
func commit(ctx context.Context, o options, stdout io.Writer) (err error) {
	r, err := repository.Open(ctx, o.repository)
	if err != nil {
		return err
	}
	if err := checkCommittable(ctx, r, o); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "paddock-release-commit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	clone, err := r.Clone(ctx, "HEAD", filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	all, err := modules.Published(clone.Dir())
	if err != nil {
		return err
	}
	sums, err := modules.Prepare(ctx, clone, o.version, all)
	if err != nil {
		return err
	}
	if err := commitBoth(ctx, clone, o.version, all, sums); err != nil {
		return err
	}
	if err := tidy(ctx, clone, o.version, all, work); err != nil {
		return err
	}
	if _, err := r.Git(ctx, "fetch", "--quiet", "--no-tags", clone.Dir(), "HEAD:refs/heads/"+o.branch()); err != nil {
		return err
	}
	on, err := r.Branch(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, next(o, all, on))
	return err
}

// checkCommittable checks that HEAD can become a release with the version.
func checkCommittable(ctx context.Context, r repository.Repository, o options) error {
	if err := repository.CheckVersion(o.version); err != nil {
		return err
	}
	all, err := modules.Published(r.Dir())
	if err != nil {
		return err
	}
	for _, check := range []func() error{
		func() error { return r.CheckClean(ctx) },
		func() error { return modules.CheckDevelopment(r.Dir(), all) },
		func() error { return r.CheckNew(ctx, modules.Tags(all, o.version)) },
		func() error { return r.CheckAfter(ctx, o.version) },
		func() error { return checkNoBranch(ctx, r, o.branch()) },
		func() error { return checkChangelog(r.Dir(), o.version) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// branch is the name of the branch of a release.
func (o options) branch() string { return repository.ReleaseBranch(o.version) }

// checkChangelog checks that the changelog has a heading for a version. A candidate has that of its
// release.
func checkChangelog(root, version string) error {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	want := strings.TrimPrefix(strings.TrimSuffix(version, semver.Prerelease(version)), "v")
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "##" && words[1] == want {
			return nil
		}
	}
	return fmt.Errorf("CHANGELOG.md has no heading ## %s: add one, with what users must do and what is new, and commit it", want)
}

func checkNoBranch(ctx context.Context, r repository.Repository, branch string) error {
	found, err := r.Git(ctx, "branch", "--list", branch)
	if err == nil && found != "" {
		err = fmt.Errorf("the branch %s exists: review and tag it, or remove it with git branch -D %s", branch, branch)
	}
	return err
}

// commitBoth commits what is in the index of the clone, and after that the opposite.
func commitBoth(ctx context.Context, clone repository.Repository, version string, all []modules.Module, sums modules.Sums) error {
	message := "release: " + version + "\n\nThe modules require each other with the version, without replace directives. Their checksums:\n"
	for _, m := range all {
		message += "\n    " + m.Path + " " + sums[m.Path].Module
	}
	before, err := clone.Git(ctx, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return err
	}
	if _, err := clone.Git(ctx, "commit", "--quiet", "--allow-empty", "--message", message); err != nil {
		return err
	}
	back, err := clone.Git(ctx, "commit-tree", before, "-p", "HEAD", "-m",
		"release: the modules replace each other again after "+version+"\n\nThe files are those before the release.")
	if err != nil {
		return err
	}
	_, err = clone.Git(ctx, "reset", "--quiet", "--soft", back)
	return err
}

// tidy checks that go.mod and go.sum of every module of the release are what go mod tidy makes, with
// the other modules of the release as from a proxy.
func tidy(ctx context.Context, clone repository.Repository, version string, all []modules.Module, work string) (err error) {
	proxy := filepath.Join(work, "modules")
	if err := modules.WriteProxy(ctx, clone, "HEAD^", version, all, proxy); err != nil {
		return err
	}
	environment, err := modules.Environment(ctx, proxy, filepath.Join(work, "cache"))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, modules.Clean(context.WithoutCancel(ctx), filepath.Join(work, "cache")))
	}()
	for _, m := range all {
		dir := filepath.Join(clone.Dir(), filepath.FromSlash(m.Dir))
		if _, err := command(ctx, dir, environment, "go", "mod", "tidy", "-diff"); err != nil {
			return fmt.Errorf("go.mod or go.sum of %s is not complete: run go mod tidy there, commit it, and make the release commit again: %w", m.Path, err)
		}
	}
	return nil
}

// next describes the next steps. on is the branch that the release was made from, or empty.
func next(o options, all []modules.Module, on string) string {
	tags := modules.Tags(all, o.version)
	var out strings.Builder
	fmt.Fprintf(&out, "The branch %s has the commit of the release, and a commit that goes back to development.\n\nReview the first one:\n\n    git show %s~1\n\nTag it, the module that all others need first:\n\n",
		o.branch(), o.branch())
	for _, tag := range tags {
		fmt.Fprintf(&out, "    git tag -a -m %s %s %s~1\n", tag, tag, o.branch())
	}
	fmt.Fprintf(&out, "\nMake the release of the tag, which changes nothing outside of bin/release. REGISTRY is where the images will be, and FILE the\npublic key. If the private key is not where make release-key puts it by default, name it to make release with KEY=:\n\n    git checkout %s\n    make release VERSION=%s REGISTRY=REGISTRY\n    make release-check VERSION=%s PUBLIC_KEY=FILE\n",
		o.version, o.version, o.version)
	if on == "" {
		on = "BRANCH"
		out.WriteString("\nThen merge the branch into the one that you release from, BRANCH, and push that with the tags:\n")
	} else {
		fmt.Fprintf(&out, "\nThen merge the branch into %s, and push that with the tags:\n", on)
	}
	fmt.Fprintf(&out, "\n    git checkout %s\n    git merge --ff-only %s\n    git push --atomic origin %s %s\n\nIf %s has new commits by then, leave out --ff-only.\n", on, o.branch(), on, strings.Join(tags, " "), on)
	return out.String()
}
