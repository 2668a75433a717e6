package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

const (
	// SumsName is the file with the checksums.
	SumsName = "SHA256SUMS"
	// signatures is the directory of what Seal writes.
	signatures = "signatures"
	// longest is how many bytes SHA256SUMS or a file of signatures may have. They are read before anything
	// shows who wrote them. Those of a release have some kB.
	longest = 16 << 20
)

// Folder is the folder of a release, of which the checksums are computed once.
type Folder struct {
	dir   string
	names []string
	sums  map[string]string
	// changed has the content of files that differ from those in dir.
	changed map[string][]byte
}

// Open reads the names and the checksums of all files of a folder. dir can be a link, but nothing in it.
func Open(dir string) (*Folder, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, sums: map[string]string{}}
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if !e.Type().IsRegular() || strings.ContainsFunc(relative, unicode.IsControl) {
			return fmt.Errorf("%q: a release has only regular files, without control characters in their names", relative)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if seals(relative) && info.Size() > longest {
			return fmt.Errorf("%s has %d bytes: that of a release has at most %d", relative, info.Size(), longest)
		}
		f.names = append(f.names, relative)
		f.sums[relative], err = sumOf(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(f.names)
	return f, nil
}

func sumOf(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Dir returns the directory.
func (f *Folder) Dir() string { return f.dir }

// Names returns the names of all files, with slashes, in order.
func (f *Folder) Names() []string { return f.names }

// Sum returns the SHA-256 of a file in hexadecimal. It is empty if there is no such file.
func (f *Folder) Sum(name string) string { return f.sums[name] }

// Size returns the size of a file in bytes.
func (f *Folder) Size(name string) (int64, error) {
	info, err := os.Stat(filepath.Join(f.dir, filepath.FromSlash(name)))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Read returns the content of a file.
func (f *Folder) Read(name string) ([]byte, error) {
	if data, ok := f.changed[name]; ok {
		return data, nil
	}
	return os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(name)))
}

// With returns a folder in which one file has another content. Nothing is written.
func (f *Folder) With(name string, data []byte) *Folder {
	sum := sha256.Sum256(data)
	g := &Folder{dir: f.dir, names: f.names, sums: maps.Clone(f.sums), changed: map[string][]byte{name: data}}
	g.sums[name] = hex.EncodeToString(sum[:])
	return g
}

// seals is whether a file is SHA256SUMS or a signature.
func seals(name string) bool { return name == SumsName || strings.HasPrefix(name, signatures+"/") }

// artefacts returns the names of the files that SHA256SUMS has: all but itself and the signatures.
func (f *Folder) artefacts() []string { return slices.DeleteFunc(slices.Clone(f.names), seals) }

// sumsText returns the content of SHA256SUMS, as sha256sum reads it.
func (f *Folder) sumsText() []byte {
	var text bytes.Buffer
	for _, name := range f.artefacts() {
		fmt.Fprintf(&text, "%s  %s\n", f.sums[name], name)
	}
	return text.Bytes()
}

// CheckSums checks that every file has the checksum in SHA256SUMS, and that no file is missing or
// added. The error names every file that differs.
func (f *Folder) CheckSums() error {
	text, err := f.Read(SumsName)
	if err != nil {
		return err
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || strings.ContainsFunc(name, unicode.IsControl) {
			return fmt.Errorf("%s has the line %q: expected a checksum, two spaces, and the name of a file", SumsName, line)
		}
		listed[name] = sum
	}
	var differ []error
	for _, name := range f.artefacts() {
		switch want, ok := listed[name]; {
		case !ok:
			differ = append(differ, fmt.Errorf("%s is not in %s: it was added after the release was made", name, SumsName))
		case want != f.sums[name]:
			differ = append(differ, fmt.Errorf("%s has SHA-256 %s, and %s has %s: it was changed after the release was made", name, f.sums[name], SumsName, want))
		}
		delete(listed, name)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		differ = append(differ, fmt.Errorf("%s is in %s, and not in the folder", name, SumsName))
	}
	return errors.Join(differ...)
}
