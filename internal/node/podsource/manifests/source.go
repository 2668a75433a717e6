package manifests

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Options configure a source. After is required. The other fields have defaults.
type Options struct {
	Gates podspec.Gates
	// After is time.After.
	After func(time.Duration) <-chan time.Time
	// Rescan is the longest time until a change without an event is noticed, e.g. in a network file
	// system or behind a link. If zero, it is DefaultRescan.
	Rescan time.Duration
	// Settle is how long the files must stay the same before a change is accepted. If zero, it is
	// DefaultSettle.
	Settle time.Duration
}

// These are the default times.
const (
	DefaultRescan = 20 * time.Second
	DefaultSettle = 100 * time.Millisecond
)

// mostLooks limits the number of looks at files that never stay the same.
const mostLooks = 20

// Source reads manifests repeatedly. Only one goroutine may run it.
type Source struct {
	options Options
	paths   []string
	roots   []*root
	notify  notifier
}

// New returns a source of the pods of files and directories. They need not exist yet.
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

// Run delivers the set of pods at once, and again after each change, one call after the other,
// until ctx ends. It returns the cause of ctx. A source that is run again keeps the good versions
// of its files.
func (s *Source) Run(ctx context.Context, deliver func(Set)) error {
	w := watch{begin: s.notify}
	defer w.end()
	seen := s.look(&w)
	for ctx.Err() == nil {
		for i, r := range s.roots {
			r.absorb(seen.glances[i], s.options.Gates)
		}
		deliver(collect(s.roots, seen.unwatched))
		seen = s.change(ctx, &w, seen)
	}
	return context.Cause(ctx)
}

// change waits until the files differ from the last look and have stopped changing.
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

// settle repeats looks until two are equal, or one equals what is known, at most mostLooks times.
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

// look reads all paths once. A file that two paths reach by the same name belongs to the first
// path.
func (s *Source) look(w *watch) sight {
	w.follow(s.paths) // before reading, so that no change is missed
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
