package store

import "io"

// FS is what the store needs of a file system. Names are paths as the operating system has
// them. Errors wrap what io/fs and syscall have for them: fs.ErrExist, fs.ErrNotExist,
// syscall.ENOSPC and so on. OS is the real one; package crashfs has one that loses power.
type FS interface {
	// MkdirAll makes the directory and those above it that are missing. They are durable when it
	// returns.
	MkdirAll(dir string) error
	// Lock makes the file if it is missing and locks it and its directory until Close, or until the
	// process ends. It never waits: it returns an error that wraps ErrLocked, and names by whom.
	Lock(name string) (Lock, error)
	// Open opens a regular file for reading. It follows no symbolic link, and returns an error
	// that wraps ErrNotRegular for everything that is there and no regular file.
	Open(name string) (io.ReadCloser, error)
	// Create makes a file for its owner alone. It is an error that wraps fs.ErrExist if
	// anything has that name.
	Create(name string) (File, error)
	// Link gives a file a second name. It is an error that wraps fs.ErrExist if that is taken.
	Link(name, second string) error
	// Rename gives a file another name and takes that name away from whatever had it, in one
	// step. If both are names of the same file it does nothing. When it fails it has done nothing.
	Rename(from, to string) error
	// Remove takes a name away.
	Remove(name string) error
	// SyncDir makes the names in a directory durable, as they are now.
	SyncDir(dir string) error
}

// Lock is a locked file and its directory. It is safe for use by several goroutines.
type Lock interface {
	// Hold proves that the lock still excludes others: that the file and the directory that are
	// locked are the ones that have these names. If somebody removed or replaced one of them Hold
	// makes the file if it is missing and locks what has the name now. It never waits: it
	// returns an error that wraps ErrLocked when another process has it, and one that wraps
	// fs.ErrClosed after Close.
	Hold() error
	io.Closer
}

// File is a new file.
type File interface {
	io.Writer
	// Sync makes the content durable, but not the name.
	Sync() error
	io.Closer
}
