package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checkOut clones the repository's commit into dir, and copies uncommitted changes into the clone.
// The go command reads the version from the clone, because it cannot read it in a git worktree.
func checkOut(ctx context.Context, repository, dir string) error {
	repository, err := filepath.Abs(repository)
	if err != nil {
		return err
	}
	top, err := git(ctx, repository, "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("%s is not in a git repository, so the image would have no version: expected a clone: %w", repository, err)
	}
	repository = strings.TrimSpace(string(top))
	if _, err := git(ctx, repository, "clone", "--quiet", "--shared", repository, dir); err != nil {
		return err
	}
	changed, err := git(ctx, repository, "status", "--porcelain")
	if err != nil || len(changed) == 0 {
		return err
	}
	return overlay(ctx, repository, dir)
}

// overlay makes the files of dir equal to those of the repository's working tree, including
// changed, added and removed files. Ignored files are left out.
func overlay(ctx context.Context, repository, dir string) error {
	names, err := git(ctx, repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(repository, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("copy what is not committed: %w", err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, linkErr := os.Readlink(from)
		if linkErr != nil {
			return linkErr
		}
		return os.Symlink(target, to)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// git runs git in dir. Its error contains what git printed on standard error.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
