// Package archive writes and reads the compressed tar archives of a release. The bytes of an archive
// depend only on its files and on their time.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string
	Data []byte
}

// Pack returns an archive of files, in the order of their names. All have the time at.
func Pack(files []File, at time.Time) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := tar.Header{Name: f.Name, Mode: 0o644, Size: int64(len(f.Data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressed.Close())
	return out.Bytes(), err
}

// Member returns a file of an archive.
func Member(packed []byte, name string) ([]byte, error) {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the archive has no %s", name)
		}
		if err != nil {
			return nil, err
		}
		if header.Name == name {
			return io.ReadAll(r)
		}
	}
}
