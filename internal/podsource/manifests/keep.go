package manifests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/podspec"
)

// root is one of the paths that are looked at, and what is known of it.
type root struct {
	path  string
	kind  kind
	err   error // what was wrong with the path at the last look
	files []*manifest
	odd   []string
}

// manifest is one file: what is wrong with it now, and its last good version.
type manifest struct {
	path string
	sum  [sha256.Size]byte // of the content that was judged last; of nothing if it could not be read
	err  error
	// good tells that there was a good version, which has these pods and notes.
	good  bool
	pods  []podspec.Source
	notes []string
}

// absorb makes a look the state of things.
func (r *root) absorb(g glance, gates podspec.Gates) {
	r.kind, r.err = g.kind, g.err
	if g.err != nil && !g.gone {
		return // nothing is known of the files
	}
	files := make([]*manifest, len(g.found))
	for i, f := range g.found {
		files[i] = r.file(f.path).judge(f, gates)
	}
	r.files, r.odd = files, g.odd
}

// file is what is known of a file of that name.
func (r *root) file(path string) *manifest {
	i := slices.IndexFunc(r.files, func(m *manifest) bool { return m.path == path })
	if i < 0 {
		return &manifest{path: path}
	}
	return r.files[i]
}

// judge returns the file as it is now.
func (m *manifest) judge(f found, gates podspec.Gates) *manifest {
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

// parse makes admissible pods of a file.
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
		if phase := s.Pod.Status.Phase; phase == v1.PodSucceeded || phase == v1.PodFailed {
			lines = append(lines, fmt.Sprintf("%s: passed over, its phase is %s", s.Origin, phase))
			continue
		}
		if s.Pod, err = admissible(s.Pod, gates); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Origin, err))
		}
		pods = append(pods, s)
	}
	if len(errs) > 0 {
		return nil, nil, few(errs)
	}
	return pods, lines, nil
}

// admissible returns the pod with its defaults, or what is wrong with it.
func admissible(pod *v1.Pod, gates podspec.Gates) (*v1.Pod, error) {
	pod = podspec.Default(pod, gates)
	if err := podspec.Validate(pod, gates).ToAggregate(); err != nil {
		return nil, err
	}
	_, err := podspec.Request(pod, gates)
	return pod, err
}

// few joins errors. The thousand replicas of one controller have all the same.
func few(errs []error) error {
	const most = 5
	if more := len(errs) - most; more > 0 {
		return fmt.Errorf("%w\nand %d pods more", errors.Join(errs[:most]...), more)
	}
	return errors.Join(errs...)
}

// collect makes the set of what is known.
func collect(roots []*root, unwatched error) Set {
	var set Set
	c := newCensus()
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
		set.Notes = append(set.Notes, fmt.Sprintf("changes may be seen late: %s", strings.ReplaceAll(unwatched.Error(), "\n", "; ")))
	}
	return set
}

// kept is how many pods the path has while it cannot be looked at.
func (r *root) kept() int {
	n := 0
	for _, m := range r.files {
		n += len(m.pods)
	}
	return n
}
