package store

import "io"

// FS is the part of a file system that the store needs. Names are paths of the operating system.
// Errors wrap the errors of io/fs and syscall: fs.ErrExist, fs.ErrNotExist, syscall.ENOSPC and so
// on. OS returns the real file system. Package crashfs has one that simulates power failures.
type FS interface {
	// MkdirAll creates the directory and its missing parents. They are durable when it returns.
	MkdirAll(dir string) error
	// Lock creates the file if it is missing, and locks it and its directory until Close or until
	// the process ends. It never waits. If another process has the lock, it returns an error that
	// wraps ErrLocked and names that process.
	Lock(name string) (Lock, error)
	// Open opens a regular file for reading. It does not follow symbolic links. If the name refers
	// to anything but a regular file, it returns an error that wraps ErrNotRegular.
	Open(name string) (io.ReadCloser, error)
	// Create creates a file that only its owner can access. It returns an error that wraps
	// fs.ErrExist if the name exists.
	Create(name string) (File, error)
	// Link gives a file a second name. It returns an error that wraps fs.ErrExist if that name
	// exists.
	Link(name, second string) error
	// Rename renames a file, and atomically replaces any file that has the new name. If both names
	// refer to the same file, it does nothing. If it fails, it has changed nothing.
	Rename(from, to string) error
	// Remove removes a name.
	Remove(name string) error
	// SyncDir makes the present names in a directory durable.
	SyncDir(dir string) error
}

// Lock is a locked file and its directory. It is safe for concurrent use.
type Lock interface {
	// Hold verifies that the lock still excludes other processes: the file and the directory that
	// are locked are still the ones with these names. If one of them was removed or replaced, Hold
	// creates the file if it is missing and locks what has the name now. It never waits. It returns
	// an error that wraps ErrLocked if another process has the lock, and one that wraps
	// fs.ErrClosed after Close.
	Hold() error
	io.Closer
}

// File is a newly created file.
type File interface {
	io.Writer
	// Sync makes the content durable, but not the name.
	Sync() error
	io.Closer
}
