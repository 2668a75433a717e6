package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

var (
	// ErrUncertain means that the file may contain the new bytes although the write failed. They
	// are in place under the file's name, but after a power failure either the new or the old bytes
	// may be found. A Write that succeeds ends this.
	ErrUncertain = errors.New("a power failure could leave either the old or the new file until a write succeeds")
	// ErrLocked means that another process has the store open.
	ErrLocked = errors.New("locked")
	// ErrDamaged means that the bytes read differ from the bytes written.
	ErrDamaged = errors.New("damaged")
	// ErrForeign is returned by the function passed to Open for bytes that are whole, but of a
	// version or for a purpose that this program does not know. An older generation must not
	// replace them.
	ErrForeign = errors.New("intact, but not usable by this program")
	// ErrNotRegular means that a name refers to a directory, a symbolic link or a device.
	ErrNotRegular = errors.New("not a regular file")

	errManyDamaged = errors.New("all names for copies of damaged files are in use")
	errTooLarge    = errors.New("too large")
)

// Error describes what could not be done with the file, and what a person can do about it.
type Error struct {
	// Path is the file that the store keeps.
	Path string
	// Op is the step that failed and the file on which it failed, e.g. "sync
	// /var/lib/paddock/state.new".
	Op string
	// Advice describes what to do. It is empty if there is no advice.
	Advice string
	// Err is the reason.
	Err error
}

func (e *Error) Error() string {
	text := "state file " + e.Path + ": " + e.Op + ": " + e.Err.Error()
	if e.Advice == "" {
		return text
	}
	return text + "; " + e.Advice
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

func newError(path, op string, err error) *Error {
	err = cause(err)
	return &Error{Path: path, Op: op, Advice: advice(path, err), Err: err}
}

// cause removes the wrapper that package os puts around an error. Op already has the operation and
// the names.
func cause(err error) error {
	switch e := err.(type) { //nolint:errorlint // only the outermost is taken off
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// advice returns what to do about an error of Open or Write, or "" if there is no advice.
func advice(path string, err error) string {
	dir := filepath.Dir(path)
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(ErrLocked):
		return "only one agent can run on a node: stop the other one"
	case is(ErrForeign):
		return "nothing was changed; start the version of the agent that wrote it, or convert it with that version (paddock state convert --to" +
			" kubelet-1.37 --save DIR " + path + ") and the result with this version (paddock state convert --to paddock" +
			" --save " + path + ")"
	case is(ErrDamaged):
		return "nothing was changed; replace it with an intact copy, or, if the pods of this node may lose their CPUs" +
			" and memory (a drained node), move " + path + "* to another directory and start with an empty state"
	case is(errManyDamaged):
		return "nothing was changed; find out what damages the files, and move the copies to another directory"
	case is(ErrNotRegular):
		return "nothing was changed; give the path of a regular file that can be renamed, not of a link or a mount point"
	case is(errTooLarge):
		return ""
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return "free some space on the file system of " + dir
	case is(syscall.EROFS):
		return "make the file system of " + dir + " writable; if it was writable before, see the kernel log for the reason"
	case is(syscall.EPERM):
		return "let the user of this process read and write " + dir + ", and keep the file on a file system that has hard links, such as ext4 or xfs"
	case is(fs.ErrPermission):
		return "let the user of this process read and write " + dir + " and the files in it"
	case is(syscall.EIO):
		return "the disk fails: see the kernel log"
	case is(errors.ErrUnsupported, syscall.EINVAL):
		return "keep the file on a local file system that has hard links and can sync directories, such as ext4 or xfs"
	}
	return ""
}

func isExist(err error) bool { return errors.Is(err, fs.ErrExist) }
