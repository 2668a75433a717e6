package kernelfiles

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// mostBytes is the largest file that is read as a whole, in bytes. The list of the tasks of a
// resctrl group is the largest one.
const mostBytes = 8 << 20

// FS is where the files are.
type FS struct {
	// Root is the directory that has proc and sys: "/" on a node, or where a debugging container
	// has the root of its host.
	Root string
	// Mount is where cgroups are mounted. If it is empty, it is sys/fs/cgroup below Root.
	Mount string
}

func (f FS) path(name string) string { return filepath.Join(cmp.Or(f.Root, "/"), name) }

// CgroupRoot returns where cgroups are mounted.
func (f FS) CgroupRoot() string { return cmp.Or(f.Mount, f.path("sys/fs/cgroup")) }

// errEmpty is the error for a file of the kernel that is never empty.
var errEmpty = errors.New("it is empty: the container in which this runs does not show it; run on the host, or with procMount: Unmasked or privileged: true")

// readInto reads a file into a buffer, which it enlarges, and returns it. Files of /proc are read
// for every task, so it does without os.File.
func readInto(buffer []byte, name string) ([]byte, error) {
	fd, err := open(name)
	if err != nil {
		return buffer[:0], &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer syscall.Close(fd)
	buffer = buffer[:0]
	for len(buffer) < mostBytes {
		if cap(buffer)-len(buffer) < 512 {
			buffer = slices.Grow(buffer, max(2048, len(buffer)))
		}
		n, err := syscall.Read(fd, buffer[len(buffer):cap(buffer)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return buffer[:0], &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return buffer, nil
		default:
			buffer = buffer[:len(buffer)+n]
		}
	}
	return buffer, nil
}

func open(name string) (fd int, err error) {
	for {
		if fd, err = syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); !errors.Is(err, syscall.EINTR) {
			return fd, err
		}
	}
}

// text returns the content of a file without the white space around it.
func text(name string) (string, error) {
	data, err := readInto(nil, name)
	return strings.TrimSpace(string(data)), err
}

// list reads a list of CPUs ("0-3,8"). The kernel writes "(null)" for a list that was never set.
func list(name string) (cpuset.Set, error) {
	words, err := text(name)
	if err != nil || words == "" || words == "(null)" {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(words)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

// mask reads a mask of CPUs in groups of 32 bits ("00000000,0000000f").
func mask(name string) (cpuset.Set, error) {
	words, err := text(name)
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := parseMask(words)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

func parseMask(words string) (cpuset.Set, error) {
	if words == "" {
		return cpuset.Set{}, errEmpty
	}
	return quiet.ParseMask(words)
}

// notes collects what could not be read.
type notes struct{ list []noise.NotSeen }

// add adds an entry, unless it is there already.
func (n *notes) add(what, why string) {
	entry := noise.NotSeen{What: what, Why: why}
	if !slices.Contains(n.list, entry) {
		n.list = append(n.list, entry)
	}
}

// missing adds what an error means for somebody who does not know the file. absent is why the file
// may be missing.
func (n *notes) missing(what string, err error, absent string) {
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		n.add(what, absent)
	case errors.Is(err, fs.ErrPermission):
		n.add(what, why(err)+": run as root")
	default:
		n.add(what, why(err))
	}
}

// why returns an error without the call that failed.
func why(err error) string {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Path + ": " + of.Err.Error()
	}
	return err.Error()
}
