package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// place is a directory that is watched for changes.
type place struct {
	dir   string // with all links resolved
	info  fs.FileInfo
	every bool     // whether changes of all names count
	names []string // otherwise only changes of these names count
}

func (p place) equal(q place) bool {
	return p.dir == q.dir && p.every == q.every && slices.Equal(p.names, q.names) && os.SameFile(p.info, q.info)
}

// placesOf returns the directories whose events show changes of the paths. These are the paths that
// are directories, and the parent of each path, in which a file is replaced by renaming and a
// directory is removed and created again.
func placesOf(paths []string) []place {
	var places []place
	add := func(dir, name string) {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return // it does not exist; the look reports the error
		}
		info, err := os.Stat(resolved)
		if err != nil || !info.IsDir() {
			return
		}
		i := slices.IndexFunc(places, func(p place) bool { return p.dir == resolved })
		if i < 0 {
			i = len(places)
			places = append(places, place{dir: resolved, info: info})
		}
		if name == "" {
			places[i].every = true
			return
		}
		places[i].names = append(places[i].names, name)
	}
	for _, path := range paths {
		add(filepath.Dir(path), filepath.Base(path))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			add(path, "")
		}
	}
	return places
}

// notifier starts to watch places. The channel has an element if something changed since it was
// last read. stop ends the watch and waits for its end. With an error, some places may still be
// watched.
type notifier func(places []place) (changes <-chan struct{}, stop func(), err error)

// watch watches the places of paths, and follows them when they change.
type watch struct {
	begin   notifier
	changes <-chan struct{}
	err     error

	stop   func()
	places []place
}

// follow makes sure that the right places are watched. A change after it returns causes an event.
func (w *watch) follow(paths []string) {
	places := placesOf(paths)
	if w.stop != nil && w.err == nil && slices.EqualFunc(places, w.places, place.equal) {
		return
	}
	w.end()
	w.places = places
	w.changes, w.stop, w.err = w.begin(places)
}

func (w *watch) end() {
	if w.stop != nil {
		w.stop()
	}
	w.changes, w.stop = nil, nil
}

// notify is the notifier that uses the operating system's events.
func notify(places []place) (<-chan struct{}, func(), error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}, err
	}
	var errs []error
	for _, p := range places {
		if err := w.Add(p.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: cannot be watched: %w", p.dir, err))
		}
	}
	changes, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		pass(w, places, changes)
	}()
	return changes, func() {
		_ = w.Close() // only events without a receiver are lost
		<-done
	}, errors.Join(errs...)
}

// pass forwards events until the watcher is closed. An error counts as an event, because the system
// lost some.
func pass(w *fsnotify.Watcher, places []place, changes chan<- struct{}) {
	for {
		select {
		case event, open := <-w.Events:
			if !open {
				return
			}
			if !concerned(places, event.Name) {
				continue
			}
		case _, open := <-w.Errors:
			if !open {
				return
			}
		}
		select {
		case changes <- struct{}{}:
		default: // a look is due already
		}
	}
}

// concerned reports whether an event at the path counts. It counts if it concerns a watched
// directory itself, a watched name, or a name such as "..data", which a mounted volume replaces
// when it has new files.
func concerned(places []place, path string) bool {
	dir, name := filepath.Dir(path), filepath.Base(path)
	for _, p := range places {
		if p.dir == path || p.dir == dir && (p.every || strings.HasPrefix(name, "..") || slices.Contains(p.names, name)) {
			return true
		}
	}
	return false
}
