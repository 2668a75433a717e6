package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// splitName splits the name of an image into the name without the tag, and the tag.
func splitName(name string) (repository, tag string, err error) {
	i := strings.LastIndex(name, ":")
	if i < 0 || strings.Contains(name[i:], "/") || !strings.Contains(name[:max(i, 0)], "/") || strings.ContainsAny(name, "@ ") || i+1 == len(name) {
		return "", "", fmt.Errorf("-name: %q: expected REGISTRY/REPOSITORY:TAG, such as %s", name, agent.localName())
	}
	return name[:i], name[i+1:], nil
}

// writeArchive writes an OCI layout with one entry, the index, as a tar file. dir is a directory
// for the layout.
func writeArchive(output, dir, name string, index v1.ImageIndex) error {
	_, tag, err := splitName(name)
	if err != nil {
		return err
	}
	made, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd, Docker and Podman read the whole name; others read the tag.
	names := map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	if err := made.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	// Write the archive beside its name and rename it, so that an interrupted build leaves no
	// partial archive under the name.
	partial := output + ".partial"
	if err := pack(partial, dir); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, output)
}

// pack writes the files of dir in the order of their names, without attributes that differ between
// machines.
func pack(output, dir string) error {
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return member{name, 0o644, data}.write(w, time.Unix(0, 0))
	})
	return errors.Join(err, w.Close(), file.Close())
}

// member is a file of an archive, or a directory, whose name ends in a slash.
type member struct {
	name string
	mode int64
	data []byte
}

// write writes a member that belongs to root and has the time at.
func (m member) write(w *tar.Writer, at time.Time) error {
	header := tar.Header{Name: m.name, Mode: m.mode, Size: int64(len(m.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if strings.HasSuffix(m.name, "/") {
		header.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(m.data)
	return err
}
