package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/release/process"
)

// Environment returns the variables with which the go command takes the modules of this repository
// from a folder, and all others as it does for the user. work is a directory that Environment makes
// and Clean removes. It has a module cache without the modules of this repository, because the user's
// may have a trial of the same version, and the temporary files of the programs that run with it.
func Environment(ctx context.Context, proxy, work string) ([]string, error) {
	out, _, err := process.Output(ctx, "", nil, "go", "env", "GOMODCACHE", "GOPROXY", "GONOSUMDB")
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	values := strings.Split(string(out), "\n")
	users, proxies, unchecked := values[0], values[1], values[2]
	cache, temporary := filepath.Join(work, "mod"), filepath.Join(work, "tmp")
	if err := cacheBeside(users, cache); err != nil {
		return nil, fmt.Errorf("module cache %s: %w", cache, err)
	}
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, err
	}
	return []string{
		"GOMODCACHE=" + cache,
		"TMPDIR=" + temporary,
		"GOPROXY=file://" + filepath.ToSlash(proxy) + "," + proxies,
		"GONOSUMDB=" + strings.Trim(unchecked+","+Root+","+Root+"/*", ","),
		"GOPRIVATE=", "GONOPROXY=none", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local",
	}, nil
}

// cacheBeside makes a module cache of links to the parts of another one, without the modules of this
// repository. Other modules are downloaded into the other cache, once.
func cacheBeside(users, work string) error {
	owner := filepath.Dir(filepath.FromSlash(Root)) // github.com/paddock-project
	host := filepath.Dir(owner)
	for _, part := range []string{".", filepath.Join("cache", "download")} {
		from, to := filepath.Join(users, part), filepath.Join(work, part)
		for _, below := range []string{".", host} {
			without := []string{"cache", host}
			if below == host {
				without = []string{filepath.Base(owner)}
			}
			if err := linkAll(filepath.Join(from, below), filepath.Join(to, below), without); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkAll links every entry of a directory, except some. A directory that does not exist has no
// entries.
func linkAll(from, to string, without []string) error {
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(without, e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Clean removes the directory of Environment. The go command makes what it extracts read-only.
func Clean(ctx context.Context, work string) error {
	err := filepath.WalkDir(work, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() { // Links are not followed.
			err = os.Chmod(name, 0o755) //nolint:gosec // a directory of this user
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(ctx.Err(), os.RemoveAll(work))
}
