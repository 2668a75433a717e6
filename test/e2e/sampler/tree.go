package sampler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tree finds the cgroups of containers when they are created. Reading all directories takes longer
// than the time between two looks, so inotify reports new ones.
type tree struct {
	root string
	fd   int
	// watched has the directories in which containers appear, by watch descriptor.
	watched map[int]string
	// known has the existing cgroups of containers that were found.
	known map[string]bool
	// rest has those that were found and have not been returned yet.
	rest []string
}

func openTree(root string) (*tree, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	t := &tree{root: root, fd: fd, watched: map[int]string{}, known: map[string]bool{}}
	if err := t.enter(root); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tree) close() error { return unix.Close(t.fd) }

// enter starts to watch a directory, and then reads it, so that no entry is missed.
func (t *tree) enter(dir string) error {
	watch, err := unix.InotifyAddWatch(t.fd, dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR)
	if gone(err) && dir != t.root {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch of %s: %w", dir, err)
	}
	t.watched[watch] = dir
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, entry := range entries {
		if entry.Type() == fs.ModeDir {
			if err := t.found(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// found handles a directory: the cgroup of a container, or a directory in which such cgroups
// appear.
func (t *tree) found(dir string) error {
	if !isContainer(filepath.Base(dir)) {
		return t.enter(dir)
	}
	if !t.known[dir] {
		t.known[dir] = true
		t.rest = append(t.rest, dir)
	}
	return nil
}

// appeared returns the cgroups of containers that appeared since the last call.
func (t *tree) appeared() ([]string, error) {
	var buffer [64 * (unix.SizeofInotifyEvent + unix.NAME_MAX + 1)]byte
	for {
		n, err := unix.Read(t.fd, buffer[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("inotify: %w", err)
		}
		for events := buffer[:n]; len(events) >= unix.SizeofInotifyEvent; {
			length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
			if err := t.event(events[:length]); err != nil {
				return nil, err
			}
			events = events[length:]
		}
	}
	list := t.rest
	t.rest = nil
	return list, nil
}

// event handles one event. Its layout is that of struct inotify_event, inotify(7).
func (t *tree) event(e []byte) error {
	watch, mask := int(int32(binary.NativeEndian.Uint32(e))), binary.NativeEndian.Uint32(e[4:])
	name := unix.ByteSliceToString(e[unix.SizeofInotifyEvent:])
	dir := t.watched[watch]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0: // Events were lost.
		return t.enter(t.root)
	case mask&unix.IN_IGNORED != 0:
		delete(t.watched, watch)
	case dir == "" || name == "" || mask&unix.IN_ISDIR == 0:
	case mask&unix.IN_DELETE != 0:
		delete(t.known, filepath.Join(dir, name))
	default:
		return t.found(filepath.Join(dir, name))
	}
	return nil
}
