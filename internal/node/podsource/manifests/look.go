package manifests

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// kind is the kind of file at a path.
type kind int

const (
	unknown kind = iota // nothing has existed at the path since the start
	file
	directory
)

// sight is the result of one look at all paths.
type sight struct {
	glances   []glance // parallel to the paths
	unwatched error    // why changes cause no events
}

// glance is the result of one look at one path.
type glance struct {
	kind  kind
	err   error // why it could not be read, or that it does not exist
	gone  bool  // it was a file, and was removed
	found []found
	odd   []string // names that were left out, perhaps by mistake
}

// found is one file. With an error, its data is not valid.
type found struct {
	path string
	data []byte
	sum  [sha256.Size]byte
	err  error
}

// digest returns a digest that is equal for two looks with the same result.
func (s sight) digest() [sha256.Size]byte {
	var all []byte
	for _, g := range s.glances {
		all = fmt.Appendf(all, "%d %t %q %q\n", g.kind, g.gone, text(g.err), g.odd)
		for _, f := range g.found {
			all = fmt.Appendf(all, "%q %x %q\n", f.path, f.sum, text(f.err))
		}
	}
	return sha256.Sum256(fmt.Appendf(all, "%q", text(s.unwatched)))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// look reads a path. was is the kind that the path had before.
func look(path string, was kind) glance {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return lookDir(path)
	case err == nil:
		return glance{kind: file, found: []found{readFile(path)}}
	case was == file:
		// The file was removed if its directory exists and does not have the name, not even as a
		// link that leads nowhere.
		_, missing := os.Lstat(path)
		if _, around := os.Stat(filepath.Dir(path)); errors.Is(missing, fs.ErrNotExist) && around == nil {
			return glance{kind: file, gone: true, err: fmt.Errorf("%s: the file no longer exists", path)}
		}
	}
	return glance{kind: was, err: err}
}

func lookDir(dir string) glance {
	g := glance{kind: directory}
	entries, err := os.ReadDir(dir)
	if err != nil {
		g.err = err
		return g
	}
	for _, e := range entries { // sorted by name
		path, name := filepath.Join(dir, e.Name()), e.Name()
		switch {
		case e.IsDir():
		// Skip hidden files, and those that editors and mounted volumes keep beside the real ones.
		case strings.HasPrefix(name, "."), strings.HasPrefix(name, "#"), strings.HasSuffix(name, "~"),
			slices.Contains([]string{".swp", ".swx", ".tmp", ".bak", ".part"}, strings.ToLower(filepath.Ext(name))):
		case !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))):
			g.odd = append(g.odd, path+": ignored, because the names of manifests end in .yaml, .yml or .json")
		default:
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				continue // a link to a directory
			}
			g.found = append(g.found, readFile(path))
		}
	}
	return g
}

func readFile(path string) found {
	data, err := read(path)
	return found{path: path, data: data, sum: sha256.Sum256(data), err: err}
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return nil, fmt.Errorf("%s: it is not a regular file (%s)", path, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := bounded.Read(path, f, podspec.MaxFileSize)
	switch {
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(data)) == 0:
		return nil, fmt.Errorf("%s: it is empty; delete the file to remove its pods", path)
	}
	return data, nil
}
