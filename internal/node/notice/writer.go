package notice

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Retry is the time after which a failed write is repeated.
const Retry = 5 * time.Second

// Files stores one file for each container of a pod. store.Shown implements it. Its methods may
// wait, and are called by one goroutine at a time.
type Files interface {
	// Dir returns the directory of a file. It does not wait.
	Dir(uid, container string) string
	// Write replaces a file atomically. It creates missing directories.
	Write(uid, container string, data []byte) error
	// Read returns a file. The error wraps fs.ErrNotExist if there is none.
	Read(uid, container string) ([]byte, error)
	// List returns the containers that have a directory, by pod.
	List() (map[string][]string, error)
	// Remove removes the files of a pod.
	Remove(uid string) error
}

// Config is the writer's environment.
type Config struct {
	Files Files
	// After is time.After.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
	// Observer is notified of the files. If nil, there is no notification.
	Observer Observer
}

// Observer is notified of the files, by several goroutines. Its methods must not wait.
type Observer interface {
	// Wrote reports an attempt to write a file.
	Wrote(err error)
	// Missed reports a container that asked for a notice and starts without one.
	Missed()
}

type silent struct{}

func (silent) Wrote(error) {}
func (silent) Missed()     {}

// Writer writes the files. It is safe for use by several goroutines. Only Open and Run may wait.
type Writer struct {
	config Config
	wake   chan struct{} // buffered; has an element if there is work

	mu sync.Mutex // guards the following fields; not locked while a file is written
	// listed is true once the files of an earlier process are known. Until then it is not known
	// which containers have a file, so early has the settings that were recorded. there has the
	// pods of the last Keep, and is nil before the first.
	listed bool
	early  map[key]Setting
	there  map[string]bool
	files  map[key]*file
	// pending has the changes that were announced and have not ended, also those of containers that
	// start later.
	pending map[key]*Pending
	// gone has the pods whose files are to be removed.
	gone map[string]bool
	// trouble maps each operation that failed to the error that was logged last.
	trouble map[string]string
}

type key struct{ uid, container string }

// file is the state of one file.
type file struct {
	want Notice // without a revision
	has  Notice // If the revision is 0, there is no file that can be read.
	// opened is true if the container was created since the start. due is true if want is to be
	// written.
	opened, due bool
	// waiting has the channels that are closed when the file is up to date.
	waiting []chan struct{}
}

// New returns a writer. Run does its work.
func New(c Config) *Writer {
	if c.Observer == nil {
		c.Observer = silent{}
	}
	return &Writer{
		config: c, wake: make(chan struct{}, 1), early: map[key]Setting{}, files: map[key]*file{}, pending: map[key]*Pending{}, gone: map[string]bool{}, trouble: map[string]string{},
	}
}

// Open writes the notice of a container that asks for one, with its setting, and returns its
// directory. It waits at most until ctx ends. It returns an empty string if the container does not
// ask for a notice, or if the file is not written by then.
func (w *Writer) Open(ctx context.Context, c Container, has Setting) string {
	if !Asks(c.Annotations, c.Name) {
		return ""
	}
	log := w.config.Log.With("pod", c.Namespace+"/"+c.Pod, "uid", c.UID, "container", c.Name)
	err := check(c.UID, c.Name)
	if slices.ContainsFunc(c.Mounts, func(at string) bool { return path.Clean(at) == MountPoint }) {
		err = errors.New("it has a mount of its own at " + MountPoint)
	}
	if err != nil {
		w.config.Observer.Missed()
		log.ErrorContext(ctx, "a container gets no notice", "error", err)
		return ""
	}
	w.mu.Lock()
	delete(w.gone, c.UID)
	k := key{c.UID, c.Name}
	f := w.file(k)
	f.want = Notice{APIVersion: Version, Kind: kind, Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Container: c.Name, Pending: w.pending[k]}
	f.want.set(has)
	written := make(chan struct{})
	f.opened, f.due, f.waiting = true, true, append(f.waiting, written)
	w.mu.Unlock()
	w.look()
	select {
	case <-written:
		return w.config.Files.Dir(c.UID, c.Name)
	case <-ctx.Done():
		w.config.Observer.Missed()
		log.WarnContext(ctx, "the notice of a container is not written in time: it starts without one", "error", context.Cause(ctx))
		return ""
	}
}

// file returns the file of a container, and adds it if it is not known. The caller has locked mu.
func (w *Writer) file(k key) *file {
	f := w.files[k]
	if f == nil {
		f = &file{}
		w.files[k] = f
	}
	return f
}

// Changed records the verified setting of a container. A pending change with these CPUs and NUMA
// nodes has then ended.
func (w *Writer) Changed(uid, container string, has Setting) {
	k := key{uid, container}
	var now Notice
	now.set(has)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pending[k]; p != nil && p.CPUs == now.CPUs && p.Mems == now.Mems {
		delete(w.pending, k)
	}
	if f := w.files[k]; f != nil {
		f.want.set(has)
		f.want.Pending = w.pending[k]
		w.note(f)
	} else if !w.listed {
		w.early[k] = has
	}
}

// Pending announces a change of a container.
func (w *Writer) Pending(uid, container string, next Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := key{uid, container}
	p := &Pending{CPUs: next.CPUs.String(), Mems: next.Mems.List(), Deadline: next.Deadline.UTC()}
	w.pending[k] = p
	if f := w.files[k]; f != nil {
		f.want.Pending = p
		w.note(f)
	}
}

// Settled records that no change of a pod is pending any more, whether it was made or given up.
func (w *Writer) Settled(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.pending, func(k key, _ *Pending) bool { return k.uid == uid })
	for k, f := range w.files {
		if k.uid == uid && f.want.Pending != nil {
			f.want.Pending = nil
			w.note(f)
		}
	}
}

// note marks a file for writing if it is not up to date. The caller has locked mu.
func (w *Writer) note(f *file) {
	if f.has.Revision == 0 || !same(f.want, f.has) {
		f.due = true
		w.look()
	}
}

// Keep records the UIDs of the pods that exist. The files of all others are removed. The caller
// must not change the map afterwards.
func (w *Writer) Keep(pods map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.listed {
		w.there = pods
	}
	maps.DeleteFunc(w.early, func(k key, _ Setting) bool { return !pods[k.uid] })
	maps.DeleteFunc(w.pending, func(k key, _ *Pending) bool { return !pods[k.uid] })
	for k := range w.files {
		if !pods[k.uid] {
			w.drop(k)
		}
	}
	if len(w.gone) > 0 {
		w.look()
	}
}

// Containers returns the number of containers that have a notice.
func (w *Writer) Containers() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.files {
		if f.has.Revision > 0 {
			n++
		}
	}
	return n
}

// drop removes a file from those that are known, and marks the files of its pod for removal. The
// caller has locked mu.
func (w *Writer) drop(k key) {
	delete(w.files, k)
	w.gone[k.uid] = true
}

// look wakes the writer.
func (w *Writer) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes the files until ctx ends, and returns its cause.
func (w *Writer) Run(ctx context.Context) error {
	for {
		var again <-chan time.Time
		if !w.work(ctx) {
			again = w.config.After(Retry)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.wake:
		case <-again:
		}
	}
}

// work does the work that is due, and reports whether all of it succeeded.
func (w *Writer) work(ctx context.Context) bool {
	ok := w.list(ctx)
	w.mu.Lock()
	gone := slices.Sorted(maps.Keys(w.gone))
	w.mu.Unlock()
	for _, uid := range gone {
		w.mu.Lock()
		still := w.gone[uid]
		w.mu.Unlock()
		if !still {
			continue // The pod came back.
		}
		err := w.config.Files.Remove(uid)
		ok = w.report(ctx, uid, "the notices of a pod that is gone are not removed", err) && ok
		if err == nil {
			w.forget(uid)
		}
	}
	w.mu.Lock()
	var due []key
	for k, f := range w.files {
		if f.due {
			due = append(due, k)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(due, func(a, b key) int {
		return cmp.Or(strings.Compare(a.uid, b.uid), strings.Compare(a.container, b.container))
	})
	for _, k := range due {
		ok = w.write(ctx, k) && ok
	}
	return ok
}

// forget records that the files of a pod were removed. If the pod came back meanwhile, they are
// written again.
func (w *Writer) forget(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.gone, uid)
	for k, f := range w.files {
		if k.uid == uid {
			f.has, f.due = Notice{}, true
		}
	}
}

// list finds the files of an earlier process, once. A name that is not a UID or not a container
// name is not the agent's. The directory of its pod is removed unless it also has a file with a
// valid name.
func (w *Writer) list(ctx context.Context) bool {
	if w.listed { // Only this goroutine sets it.
		return true
	}
	all, err := w.config.Files.List()
	if !w.report(ctx, "", "the notices of an earlier process are not read", err) {
		return false
	}
	found := map[key]Notice{}
	foreign := map[string]bool{}
	for uid, containers := range all {
		foreign[uid] = len(containers) == 0
		for _, container := range containers {
			if check(uid, container) != nil {
				foreign[uid] = true
				continue
			}
			data, err := w.config.Files.Read(uid, container)
			var n Notice
			if err == nil {
				n, err = decode(data, uid, container)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.config.Log.WarnContext(ctx, "a notice is not usable and is written again", "uid", uid, "container", container, "error", err)
			}
			found[key{uid, container}] = n
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, n := range found {
		f := w.file(k)
		f.has = n
		if !f.opened && n.Revision > 0 {
			f.want = n
			// The pending change of the earlier process has ended, unless it was announced again.
			f.want.Pending = w.pending[k]
			f.due = !same(f.want, f.has)
		}
		if early, there := w.early[k]; there && !f.opened && n.Revision > 0 {
			f.want.set(early)
			f.due = f.due || !same(f.want, f.has)
		}
		if w.there != nil && !w.there[k.uid] && !f.opened {
			w.drop(k)
		}
	}
	for uid, is := range foreign {
		if is && !slices.ContainsFunc(slices.Collect(maps.Keys(w.files)), func(k key) bool { return k.uid == uid }) {
			w.gone[uid] = true
		}
	}
	w.listed, w.early, w.there = true, nil, nil
	return true
}

// write writes the wanted content of a file, with the next revision.
func (w *Writer) write(ctx context.Context, k key) bool {
	w.mu.Lock()
	f := w.files[k]
	if f == nil || !f.due {
		w.mu.Unlock()
		return true
	}
	f.due = false
	next := f.want
	next.Revision = f.has.Revision
	changed := f.has.Revision == 0 || !same(next, f.has)
	if changed {
		next.Revision++
	}
	waited := len(f.waiting) > 0
	w.mu.Unlock()
	// The file may have changed back. For a container that is being created it is written in any
	// case, because it may be lost.
	if !changed && !waited {
		return true
	}
	// This fails only if the year of the deadline does not have four digits.
	data, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = w.config.Files.Write(k.uid, k.container, append(data, '\n'))
	}
	w.config.Observer.Wrote(err)
	if !w.report(ctx, k.uid+"/"+k.container, "the notice of a container cannot be written; the agent tries again", err) {
		w.mu.Lock()
		f.due = true
		w.mu.Unlock()
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f.has = next
	if !f.due { // Nothing was recorded meanwhile.
		for _, written := range f.waiting {
			close(written)
		}
		f.waiting = nil
	}
	return true
}

// report logs an error once, until it is followed by another one or by none. It reports whether
// there is no error.
func (w *Writer) report(ctx context.Context, of, what string, err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && w.trouble[of] != text { // Only the writing goroutine uses it.
		w.config.Log.ErrorContext(ctx, what, "of", of, "error", err)
	}
	if text == "" {
		delete(w.trouble, of)
	} else {
		w.trouble[of] = text
	}
	return err == nil
}
