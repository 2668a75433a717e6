package manifests

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/podspec"
)

// Options are how manifests are read and when. After is needed; the rest has defaults.
type Options struct {
	Gates podspec.Gates
	// After is time.After.
	After func(time.Duration) <-chan time.Time
	// Rescan is how long it takes at most until a change is seen of which no event tells: in a
	// network file system, or behind a link. Default: DefaultRescan.
	Rescan time.Duration
	// Settle is how long the files must stay the same until a change is believed. Default:
	// DefaultSettle.
	Settle time.Duration
}

// The default times.
const (
	DefaultRescan = 20 * time.Second
	DefaultSettle = 100 * time.Millisecond
)

// mostLooks bounds the waiting for files that never stay the same.
const mostLooks = 20

// Source reads manifests again and again. One goroutine may run it.
type Source struct {
	options Options
	paths   []string
	roots   []*root
	notify  notifier
}

// New is a source of the pods of files and directories. None of them needs to be there yet.
func New(paths []string, options Options) *Source {
	if options.Rescan == 0 {
		options.Rescan = DefaultRescan
	}
	if options.Settle == 0 {
		options.Settle = DefaultSettle
	}
	s := &Source{options: options, notify: notify}
	for _, path := range paths {
		if path = filepath.Clean(path); !slices.Contains(s.paths, path) {
			s.paths = append(s.paths, path)
			s.roots = append(s.roots, &root{path: path})
		}
	}
	return s
}

// Run delivers the set of pods at once, and again whenever it changed, one call after the
// other, until ctx ends. It returns the cause of that. A source that is run again remembers the
// good versions of its files.
func (s *Source) Run(ctx context.Context, deliver func(Set)) error {
	w := watch{begin: s.notify}
	defer w.end()
	seen := s.look(&w)
	for ctx.Err() == nil {
		s.absorb(seen)
		deliver(collect(s.roots, seen.unwatched))
		seen = s.change(ctx, &w, seen)
	}
	return context.Cause(ctx)
}

// change waits until the files stay different from what was seen.
func (s *Source) change(ctx context.Context, w *watch, seen sight) sight {
	known := seen.digest()
	for {
		select {
		case <-ctx.Done():
			return seen
		case <-w.changes:
		case <-s.options.After(s.options.Rescan):
		}
		if now := s.settle(ctx, w, known); now.digest() != known {
			return now
		}
	}
}

// settle looks until two looks see the same, or what is known.
func (s *Source) settle(ctx context.Context, w *watch, known [32]byte) sight {
	now := s.look(w)
	for range mostLooks {
		digest := now.digest()
		if digest == known {
			break
		}
		select {
		case <-ctx.Done():
			return now
		case <-s.options.After(s.options.Settle):
		}
		if now = s.look(w); now.digest() == digest {
			break
		}
	}
	return now
}

// look sees everything once. A file that two paths lead to by one name is the first one's.
func (s *Source) look(w *watch) sight {
	w.follow(s.paths) // before reading, so that no change falls between
	seen := sight{unwatched: w.err}
	had := map[string]bool{}
	for _, r := range s.roots {
		g := look(r.path, r.kind)
		g.found = slices.DeleteFunc(g.found, func(f found) bool {
			again := had[f.path]
			had[f.path] = true
			return again
		})
		seen.glances = append(seen.glances, g)
	}
	return seen
}

func (s *Source) absorb(seen sight) {
	for i, r := range s.roots {
		r.absorb(seen.glances[i], s.options.Gates)
	}
}
