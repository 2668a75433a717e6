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

// maxDamaged is how many damaged files are kept. One is an accident; if there are so many
// somebody has to look.
const maxDamaged = 99

//go:generate go tool stringer -type=Source -linecomment -output=enum_string.go

// Source is where the bytes of a Loaded come from.
type Source int

const (
	// Nothing: there is no file, nor a previous one. The agent is new here.
	Nothing Source = iota // nothing
	// Current is the file itself.
	Current // current
	// Previous is the generation before, since the file itself is damaged or missing. The last
	// change is lost.
	Previous // previous
)

// Loaded is what Open found.
type Loaded struct {
	// Data is what was written; nil for Nothing. It is the caller's.
	Data   []byte
	Source Source
	// Path is the file that Data was read from, or where the first Write will put it.
	Path string
	// Reason is why the file itself could not be used; nil unless Source is Previous. It wraps
	// fs.ErrNotExist if it is missing, otherwise ErrDamaged.
	Reason error
	// KeptAs is the name that the first Write will give the damaged file; until then it stays
	// where it is. Empty if there is none.
	KeptAs string
}

// String is a line for the log.
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

// load reads the file, or the previous one, and settles what happens to the file at the next
// Write.
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

// read returns the bytes of a whole file, or bad, the reason why there are none that could
// be used: an error that wraps fs.ErrNotExist or ErrDamaged. The error is for what must not be
// passed over.
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

// freeName finds a name for the damaged file that nothing has.
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
