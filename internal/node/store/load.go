package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/paddock-project/paddock/internal/base/bounded"
)

const (
	suffixPrevious = ".previous"
	suffixNew      = ".new"
	suffixOld      = ".old"
	suffixDamaged  = ".damaged-"
	suffixLock     = ".lock"
)

// maxDamaged is the maximum number of damaged files that are kept. One is an accident. If there are
// this many, a person has to look.
const maxDamaged = 99

//go:generate go tool stringer -type=Source -linecomment -output=enum_string.go

// Source describes where the bytes of a Loaded come from.
type Source int

const (
	// Nothing means that neither the file nor a previous one exists. The agent is new on this node.
	Nothing Source = iota // nothing
	// Current is the file itself.
	Current // current
	// Previous is the previous generation, because the file itself is damaged or missing. The last
	// change is lost.
	Previous // previous
)

// Loaded describes what Open found.
type Loaded struct {
	// Data is the content that was read. It is nil if Source is Nothing. The caller owns it.
	Data   []byte
	Source Source
	// Path is the file from which Data was read, or to which the first Write will go.
	Path string
	// Reason is why the file itself could not be used. It is nil unless Source is Previous. It
	// wraps fs.ErrNotExist if the file is missing, and ErrDamaged otherwise.
	Reason error
	// KeptAs is the name that the first Write will give the damaged file. Until then the file stays
	// where it is. Empty means that there is no damaged file.
	KeptAs string
}

// String returns a line for the log.
func (l Loaded) String() string {
	switch {
	case l.Source == Nothing:
		return fmt.Sprintf("neither the state file %s nor %s%s exists: starting without pods", l.Path, l.Path, suffixPrevious)
	case l.Source == Current:
		return "state read from " + l.Path
	case l.KeptAs == "":
		return fmt.Sprintf("previous state read from %s: %v; the last change of the state is lost", l.Path, l.Reason)
	}
	return fmt.Sprintf("previous state read from %s: %v; the last change of the state is lost; the next write keeps the damaged file as %s",
		l.Path, l.Reason, l.KeptAs)
}

// load reads the file, or the previous one, and decides what the next Write does with the present
// file.
func (s *Store) load(validate func([]byte) error) (Loaded, error) {
	if err := s.fsys.SyncDir(filepath.Dir(s.path)); err != nil {
		return Loaded{}, s.error("sync directory "+filepath.Dir(s.path), err)
	}
	data, bad, err := s.read(s.path, validate)
	switch {
	case err != nil:
		return Loaded{}, err
	case bad == nil:
		s.keep = keepAsPrevious
		return Loaded{Data: data, Source: Current, Path: s.path}, nil
	}
	previous := s.path + suffixPrevious
	data, badToo, err := s.read(previous, validate)
	switch {
	case err != nil:
		return Loaded{}, err
	case errors.Is(bad, fs.ErrNotExist) && errors.Is(badToo, fs.ErrNotExist):
		return Loaded{Source: Nothing, Path: s.path}, nil
	case badToo != nil:
		return Loaded{}, s.error("open", fmt.Errorf("%w: %w, and %w", ErrDamaged, bad, badToo))
	}
	loaded := Loaded{Data: data, Source: Previous, Path: previous, Reason: bad}
	if errors.Is(bad, fs.ErrNotExist) {
		return loaded, nil
	}
	s.keep = keepAsDamaged
	if s.keptAs, err = s.freeName(); err != nil {
		return Loaded{}, err
	}
	loaded.KeptAs = s.keptAs
	return loaded, nil
}

// read returns the bytes of a whole file. If the file is missing or damaged, it returns the reason
// as bad, which wraps fs.ErrNotExist or ErrDamaged. It returns err for failures after which the
// previous file must not be used.
func (s *Store) read(name string, validate func([]byte) error) (data []byte, bad, err error) {
	f, err := s.fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %w", name, fs.ErrNotExist), nil
	}
	if err != nil {
		return nil, nil, s.error("open "+name, err)
	}
	data, err = bounded.Read("it", f, s.limit)
	if closing := f.Close(); err == nil {
		err = closing
	}
	tooLarge := errors.Is(err, bounded.ErrTooLarge)
	if err != nil && !tooLarge {
		return nil, nil, s.error("read "+name, err)
	}
	invalid := validate(data)
	if errors.Is(invalid, ErrForeign) {
		return nil, nil, s.error("read "+name, invalid)
	}
	if tooLarge {
		return nil, fmt.Errorf("%s is %w: %w", name, ErrDamaged, err), nil
	}
	if invalid != nil {
		return nil, fmt.Errorf("%s is %w: %w", name, ErrDamaged, invalid), nil
	}
	return data, nil, nil
}

// freeName returns an unused name for the damaged file.
func (s *Store) freeName() (string, error) {
	for n := 1; n <= maxDamaged; n++ {
		name := s.path + suffixDamaged + strconv.Itoa(n)
		f, err := s.fsys.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err == nil {
			_ = f.Close() // nothing was read
		}
	}
	return "", s.error("open", fmt.Errorf("the file is damaged, and %w: %s%s1 to %d", errManyDamaged, s.path, suffixDamaged, maxDamaged))
}
