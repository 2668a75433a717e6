package modules

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"

	"github.com/paddock-project/paddock/release/repository"
)

// license is the file that the go command copies from the root of a repository into a module that
// has none.
const license = "LICENSE"

// WriteProxy writes the modules of a commit as files of a proxy to dir. The bytes depend only on the
// commit.
func WriteProxy(ctx context.Context, clone repository.Repository, commit, version string, all []Module, dir string) error {
	of, err := clone.Commit(ctx, commit)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := m.write(ctx, clone, of, version, dir); err != nil {
			return fmt.Errorf("module %s: %w", m.Path, err)
		}
	}
	return nil
}

func (m Module) write(ctx context.Context, clone repository.Repository, of repository.Commit, version, dir string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	goMod, err := clone.Output(ctx, "cat-file", "blob", of.ID+":"+path.Join(m.Dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, of.Time})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := m.zip(ctx, clone, of.ID, version, &archive); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": goMod, version + ".zip": archive.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Zip returns the name of the zip of a module in the directory of a proxy, with slashes.
func (m Module) Zip(version string) (string, error) {
	escaped, err := module.EscapePath(m.Path)
	return path.Join(escaped, "@v", version+".zip"), err
}

// Unzip returns the files in a zip of a module, by their names in the module. They have together at
// most what the go command accepts, modzip.MaxZipFile bytes.
func (m Module) Unzip(data []byte, version string) (map[string][]byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	left := uint64(modzip.MaxZipFile)
	for _, f := range archive.File {
		if f.UncompressedSize64 > left {
			return nil, fmt.Errorf("the files of %s %s have more than %d bytes, which the go command does not accept", m.Path, version, modzip.MaxZipFile)
		}
		left -= f.UncompressedSize64
		name, ok := strings.CutPrefix(f.Name, m.Path+"@"+version+"/")
		if !ok {
			return nil, fmt.Errorf("the zip of %s %s has the file %s", m.Path, version, f.Name)
		}
		text, err := fs.ReadFile(archive, f.Name)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}

// sum returns the checksums of a module of a tree.
func (m Module) sum(ctx context.Context, clone repository.Repository, tree, version string) (s Sum, err error) {
	var archive bytes.Buffer
	if err := m.zip(ctx, clone, tree, version, &archive); err != nil {
		return s, err
	}
	files, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		return s, err
	}
	var names []string
	for _, f := range files.File {
		names = append(names, f.Name)
	}
	if s.Module, err = dirhash.Hash1(names, func(name string) (io.ReadCloser, error) { return files.Open(name) }); err != nil {
		return s, err
	}
	goMod, err := clone.Output(ctx, "cat-file", "blob", tree+":"+path.Join(m.Dir, "go.mod"))
	if err != nil {
		return s, err
	}
	s.GoMod, err = dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(goMod)), nil })
	return s, err
}

// zip writes the zip of a module of a commit or tree. Modules inside of it are left out.
func (m Module) zip(ctx context.Context, clone repository.Repository, tree, version string, to io.Writer) error {
	// These are the settings with which the go command reads a repository.
	data, err := clone.Output(ctx, "-c", "core.autocrlf=input", "-c", "core.eol=lf", "archive", "--format=zip", tree, m.Dir)
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	var files []modzip.File
	licensed := false
	for _, f := range archive.File {
		name := f.Name
		if m.Dir != "." {
			name = strings.TrimPrefix(name, m.Dir+"/")
		}
		if name == "" || strings.HasSuffix(name, "/") {
			continue
		}
		licensed = licensed || name == license
		files = append(files, archived{name, f})
	}
	if !licensed {
		text, err := clone.Output(ctx, "cat-file", "blob", tree+":"+license)
		if err != nil {
			return err
		}
		files = append(files, copied(text))
	}
	return modzip.Create(to, module.Version{Path: m.Path, Version: version}, files)
}

// archived is a file of an archive of git.
type archived struct {
	name string
	*zip.File
}

func (a archived) Path() string                 { return a.name }
func (a archived) Lstat() (fs.FileInfo, error)  { return a.FileInfo(), nil }
func (a archived) Open() (io.ReadCloser, error) { return a.File.Open() }

// copied is the license of the repository.
type copied []byte

func (c copied) Path() string                 { return license }
func (c copied) Lstat() (fs.FileInfo, error)  { return licenseInfo(len(c)), nil }
func (c copied) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c)), nil }

// licenseInfo describes the license by its size.
type licenseInfo int64

func (licenseInfo) Name() string       { return license }
func (i licenseInfo) Size() int64      { return int64(i) }
func (licenseInfo) Mode() fs.FileMode  { return 0o644 }
func (licenseInfo) ModTime() time.Time { return time.Time{} }
func (licenseInfo) IsDir() bool        { return false }
func (licenseInfo) Sys() any           { return nil }
