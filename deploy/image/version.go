package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// versionVariable is the variable in which the linker records the version in every program. The go
// command records it only in programs of the main module, because the others have no tags.
const versionVariable = "github.com/paddock-project/paddock/internal/base/build.version"

// versionOf returns the version of the commit that is checked out in dir, as the go command derives
// it: the greatest tag of the commit, or else a pseudo-version after the greatest tag of its
// ancestors. Tags of modules below the root, such as api/v0.1.0, do not count.
func versionOf(ctx context.Context, dir string) (string, error) {
	here, err := greatestTag(ctx, dir, "--points-at")
	if err != nil {
		return "", err
	}
	changed, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	version := here
	if version == "" {
		if version, err = pseudoVersion(ctx, dir); err != nil {
			return "", err
		}
	}
	if len(changed) > 0 {
		version += "+dirty"
	}
	return version, nil
}

// printVersion prints the version of a repository. source is a directory for a clone.
func printVersion(ctx context.Context, repository, source string, stdout io.Writer) error {
	if err := checkOut(ctx, repository, source); err != nil {
		return err
	}
	version, err := versionOf(ctx, source)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, version)
	return err
}

func pseudoVersion(ctx context.Context, dir string) (string, error) {
	before, err := greatestTag(ctx, dir, "--merged")
	if err != nil {
		return "", err
	}
	out, err := git(ctx, dir, "show", "--no-patch", "--format=%H %cI", "HEAD")
	if err != nil {
		return "", err
	}
	revision, at, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	committed, err := time.Parse(time.RFC3339, at)
	if err != nil || len(revision) < 12 {
		return "", fmt.Errorf("git show prints %q: expected a commit and its time", out)
	}
	major := "v0"
	if before != "" {
		major = semver.Major(before)
	}
	return module.PseudoVersion(major, before, committed.UTC(), revision[:12]), nil
}

// greatestTag returns the greatest version among the tags of HEAD or of its ancestors. It is empty
// if there is none.
func greatestTag(ctx context.Context, dir, which string) (greatest string, err error) {
	out, err := git(ctx, dir, "tag", which, "HEAD")
	if err != nil {
		return "", err
	}
	for tag := range strings.Lines(string(out)) {
		tag = strings.TrimSpace(tag)
		if tag == semver.Canonical(tag) && !module.IsPseudoVersion(tag) && semver.Compare(tag, greatest) > 0 {
			greatest = tag
		}
	}
	return greatest, nil
}
