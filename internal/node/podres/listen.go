package podres

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Modes of the files that Listen creates.
const (
	directoryMode fs.FileMode = 0o750
	socketMode    fs.FileMode = 0o660
)

const (
	// maxPath is the maximum length of the path of a socket in bytes: sun_path of unix(7), less the
	// terminating NUL.
	maxPath = 107
	// suffixLength is the length of the suffix of a temporary name, including its dot.
	suffixLength = 5
	// probeTime limits how long a listening process may take to accept a connection.
	probeTime = time.Second
)

// ErrInUse is wrapped by errors of Listen if another process listens on the socket.
var ErrInUse = errors.New("another process listens there already")

// Listen listens on the unix socket at path, with mode 0660. If the directory does not exist,
// Listen creates it with mode 0750. An existing directory is not changed. The socket is created
// under a temporary name and renamed, so that no client finds it before it is ready. Listen
// replaces a socket that a process left behind when it ended. It does not replace a socket on which
// a process listens (ErrInUse), or any other file. Errors name the path.
//
// Close removes the socket, unless another one has replaced it. If two processes start at the same
// time, both succeed and clients find the later one. Use a lock to prevent that.
func Listen(path string) (net.Listener, error) {
	if err := checkPath(path, maxPath-suffixLength); err != nil {
		return nil, err
	}
	if err := makeDirectory(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	p, err := Prepare(path, socketMode)
	if err != nil {
		return nil, err
	}
	return p.Listen()
}

// Prepared is a socket that exists under a temporary name, so that everything that can fail has
// been tried. No client finds it yet.
type Prepared struct {
	listener  *listener
	temporary string
}

// Prepare makes a socket as Listen does, with another mode and in a directory that exists. A
// program that has much to do before it can answer prepares the socket first, so that a path that
// is not usable is noticed at once. Call Listen or Close afterwards.
func Prepare(path string, mode fs.FileMode) (*Prepared, error) {
	if err := checkPath(path, maxPath-suffixLength); err != nil {
		return nil, err
	}
	if dir := filepath.Dir(path); !exists(dir) {
		return nil, fmt.Errorf("socket %s: the directory %s does not exist: create it or choose another path", path, dir)
	}
	if err := checkVacant(path); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	p, err := bind(path, mode)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return p, nil
}

// Listen gives the socket its name. It checks the path again, because another process may have
// begun to listen there. If it fails, nothing is left of the socket.
func (p *Prepared) Listen() (net.Listener, error) {
	err := checkVacant(p.listener.path)
	if err == nil {
		err = os.Rename(p.temporary, p.listener.path) //nolint:forbidigo // A socket has no data that must be durable.
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", p.listener.path, errors.Join(err, p.Close()))
	}
	p.temporary = ""
	return p.listener, nil
}

// Close removes the socket if it has only its temporary name. Otherwise it does nothing: the
// listener has a Close of its own.
func (p *Prepared) Close() error {
	if p.temporary == "" {
		return nil
	}
	temporary := p.temporary
	p.temporary = ""
	return errors.Join(p.listener.UnixListener.Close(), os.Remove(temporary))
}

func checkPath(path string, limit int) error {
	switch {
	case path == "":
		return errors.New("the path of the socket is empty")
	case strings.HasPrefix(path, "@") || strings.ContainsRune(path, 0):
		return fmt.Errorf("socket %q: expected the path of a file", path)
	case len(path) > limit:
		return fmt.Errorf("socket %s: the path has %d bytes, at most %d are possible: choose a shorter one", path, len(path), limit)
	}
	return nil
}

// makeDirectory creates dir and its missing parents. The mode of dir does not depend on the umask.
func makeDirectory(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, directoryMode); {
	case errors.Is(err, fs.ErrExist):
		return nil // If it is not a directory, bind returns an error.
	case err != nil:
		return err
	}
	return os.Chmod(dir, directoryMode)
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return !errors.Is(err, fs.ErrNotExist) // Bind returns other errors.
}

// checkVacant returns the reason why path cannot be used. It returns nil if there is no file, or a
// socket on which no process listens.
func checkVacant(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("the path has a file that is not a socket (%s): remove it or choose another path", info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, probeTime)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%w: end it or choose another path", ErrInUse)
	case errors.Is(err, syscall.EAGAIN): // Its queue of connections is full.
		return fmt.Errorf("%w, and is busy: end it or choose another path", ErrInUse)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("it is not known whether another process listens there: %w", err)
}

// bind makes the socket under a temporary name.
func bind(path string, mode fs.FileMode) (*Prepared, error) {
	temporary := path + "." + rand.Text()[:suffixLength-1]
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	var file fs.FileInfo
	err = os.Chmod(temporary, mode)
	if err == nil {
		file, err = os.Lstat(temporary)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(temporary))
	}
	return &Prepared{&listener{UnixListener: l, path: path, file: file}, temporary}, nil
}

// listener is a listener together with the file of its socket.
type listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// Addr returns the path that clients use.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close stops listening, and removes the socket if it is still the file of this listener.
func (l *listener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(l.file, now) {
		if err := os.Remove(l.path); err != nil {
			return errors.Join(err, l.UnixListener.Close())
		}
	}
	return l.UnixListener.Close()
}
