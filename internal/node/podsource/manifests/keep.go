package manifests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// root is one of the paths, with the result of the last look.
type root struct {
	path  string
	kind  kind
	err   error // the error of the path at the last look
	files []*manifest
	odd   []string
}

// manifest is one file: its present error, and its last good version.
type manifest struct {
	path string
	sum  [sha256.Size]byte // the digest of the content that was parsed last; zero if it could not be read
	err  error
	// good is true if there was a good version. pods and notes are those of the last good version.
	good  bool
	pods  []podspec.Source
	notes []string
}

// absorb stores the result of a look.
func (r *root) absorb(g glance, gates podspec.Gates) {
	r.kind, r.err = g.kind, g.err
	if g.err != nil && !g.gone {
		return // The files are not known.
	}
	files := make([]*manifest, len(g.found))
	for i, f := range g.found {
		before := &manifest{path: f.path}
		if at := slices.IndexFunc(r.files, func(m *manifest) bool { return m.path == f.path }); at >= 0 {
			before = r.files[at]
		}
		files[i] = before.update(f, gates)
	}
	r.files, r.odd = files, g.odd
}

// update returns the file with its present content. It does not change m.
func (m *manifest) update(f found, gates podspec.Gates) *manifest {
	if f.err == nil && m.sum == f.sum {
		return m
	}
	next := *m
	next.sum, next.err = f.sum, f.err
	if f.err != nil {
		return &next
	}
	pods, notes, err := parse(f, gates)
	next.err = err
	if err == nil {
		next.good, next.pods, next.notes = true, pods, notes
	}
	return &next
}

// parse returns the pods of a file, defaulted and valid.
func parse(f found, gates podspec.Gates) ([]podspec.Source, []string, error) {
	read, notes, err := podspec.Read(f.path, f.data)
	if err != nil {
		return nil, nil, err
	}
	var lines []string
	for _, n := range notes {
		lines = append(lines, n.String())
	}
	var pods []podspec.Source
	var errs []error
	for _, s := range read {
		if podspec.Ended(s.Pod) {
			lines = append(lines, fmt.Sprintf("%s: ignored, because its phase is %s", s.Origin, s.Pod.Status.Phase))
			continue
		}
		s.Pod = podspec.Default(s.Pod, gates)
		var err error
		if invalid := podspec.Validate(s.Pod, gates).ToAggregate(); invalid != nil {
			err = invalid
		} else {
			_, err = podspec.Request(s.Pod, gates)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Origin, err))
		}
		pods = append(pods, s)
	}
	if len(errs) > 0 {
		return nil, nil, few(errs)
	}
	return pods, lines, nil
}

// few joins errors. A thousand replicas of one controller may all have the same error.
func few(errs []error) error {
	const most = 5
	if more := len(errs) - most; more > 0 {
		return fmt.Errorf("%w\nand %d more pods", errors.Join(errs[:most]...), more)
	}
	return errors.Join(errs...)
}

// collect returns the set of all roots.
func collect(roots []*root, unwatched error) Set {
	var set Set
	c := census{uids: map[string]podspec.Origin{}, names: map[string]podspec.Origin{}}
	for _, r := range roots {
		if r.err != nil {
			set.Broken = append(set.Broken, problem(r.path, r.err, r.kept()))
			set.Partial = set.Partial || r.kind == unknown || r.kind == directory && r.files == nil
		}
		for _, m := range r.files {
			if m.err != nil {
				set.Broken = append(set.Broken, problem(m.path, m.err, len(m.pods)))
			}
			set.Partial = set.Partial || !m.good
			if err := c.admit(&set, m.pods); err != nil {
				set.Broken = append(set.Broken, Problem{File: m.path, Err: err})
			}
			set.Notes = append(set.Notes, m.notes...)
		}
		set.Notes = append(set.Notes, r.odd...)
	}
	if unwatched != nil {
		set.Notes = append(set.Notes, fmt.Sprintf("changes may be noticed late: %s", strings.ReplaceAll(unwatched.Error(), "\n", "; ")))
	}
	return set
}

// kept returns the number of pods that the path keeps while it cannot be read.
func (r *root) kept() int {
	n := 0
	for _, m := range r.files {
		n += len(m.pods)
	}
	return n
}
