package devicemetadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/codec/claims"
)

// DefaultDir is the default of the kubelet's directory.
const DefaultDir = "/var/lib/kubelet"

const (
	// maxRequests limits the requests of one claim. The API allows 32.
	maxRequests = 256
	// maxReads limits the claims that are read at a time. It is more than the number of pods that
	// start at a time.
	maxReads = 16

	directory = "dra-device-metadata"
	file      = "metadata.json"
)

var errBusy = fmt.Errorf("%d reads of metadata files have not ended: the file system does not answer", maxReads)

// Reader reads the files of one kubelet. It is safe for use by several goroutines.
type Reader struct {
	plugins string
	pci     claims.PCI
	reads   chan struct{}
}

// New returns a reader of the files below the kubelet's directory. pci has the meaning that it has
// in claims.ReadMetadata.
func New(kubeletDir string, pci claims.PCI) *Reader {
	return &Reader{plugins: filepath.Join(kubeletDir, "plugins"), pci: pci, reads: make(chan struct{}, maxReads)}
}

// Claim returns the devices of a claim that the files of one driver describe. It returns none if
// there are no files. The error names the file. The devices of other files are returned together
// with the error.
func (r *Reader) Claim(ctx context.Context, driver, namespace, claim string) ([]claims.Described, error) {
	type answer struct {
		devices []claims.Described
		err     error
	}
	select {
	case r.reads <- struct{}{}:
	default:
		return nil, errBusy
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-r.reads }()
		devices, err := r.read(driver, namespace, claim)
		answers <- answer{devices, err}
	}()
	select {
	case a := <-answers:
		return a.devices, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the metadata files of driver %q: %w", driver, context.Cause(ctx))
	}
}

func (r *Reader) read(driver, namespace, claim string) (devices []claims.Described, err error) {
	for _, name := range []string{driver, namespace, claim} {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return nil, fmt.Errorf("%.50q is not a name of a driver, a namespace or a claim", name)
		}
	}
	root, err := os.OpenRoot(r.plugins)
	if err != nil {
		return nil, known(err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	requests, err := requests(root, filepath.Join(driver, directory, namespace+"_"+claim))
	for _, path := range requests {
		data, problem := read(root, path)
		if problem == nil {
			var described []claims.Described
			described, problem = claims.ReadMetadata(data, r.pci)
			devices = append(devices, described...)
		}
		if problem = known(problem); problem != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", filepath.Join(r.plugins, path), problem))
		}
	}
	return devices, err
}

// known returns nil if the error is that a file does not exist, and the error otherwise.
func known(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// requests returns the paths of the metadata files of a claim.
func requests(root *os.Root, dir string) (files []string, err error) {
	d, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, known(err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	entries, err := d.ReadDir(maxRequests + 1)
	if len(entries) > maxRequests {
		return nil, fmt.Errorf("%s has more than %d requests", d.Name(), maxRequests)
	}
	for _, e := range entries {
		files = append(files, filepath.Join(dir, e.Name(), file))
	}
	slices.Sort(files)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return files, err
}

// read reads a regular file. It opens a path without blocking, because opening a pipe would wait
// for its writer, and reads nothing from a pipe or a device.
func read(root *os.Root, path string) (data []byte, err error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	return bounded.Read("it", f, claims.MaxMetadata)
}
