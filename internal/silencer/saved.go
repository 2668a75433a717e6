package silencer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path"

	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/store"
)

const (
	savedVersion = 1
	// mostSaved is the largest state, in bytes. A record has about 200 bytes.
	mostSaved = 8 << 20
)

// saved is the state that survives the process.
type saved struct {
	Version int `json:"version"`
	// Boot is the boot id of the kernel whose files were changed.
	Boot string `json:"boot"`
	// Sources are the sockets that have shown containers.
	Sources []string      `json:"sources,omitempty"`
	Files   quiet.Records `json:"files"`
}

// encode returns the text of the file: the JSON, and a line with its checksum.
func (s *saved) encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(data, "\n%08x\n", crc32.ChecksumIEEE(data)), nil
}

// decode reads the text of the file. The error wraps store.ErrForeign if a newer program wrote it.
func decode(text []byte) (saved, error) {
	var s saved
	data, sum, found := bytes.Cut(text, []byte("\n"))
	if want := fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(data)); !found || string(sum) != want {
		return s, errors.New("its checksum is not that of its content")
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, err
	}
	if s.Version != savedVersion {
		return s, fmt.Errorf("%w: version %d, and this program knows %d", store.ErrForeign, s.Version, savedVersion)
	}
	for name := range s.Files {
		if quiet.KindOf(name) == "" || path.Clean(name) != name {
			return s, fmt.Errorf("it has a record of %q, which paddock quiet never writes", name)
		}
	}
	if s.Files == nil {
		s.Files = quiet.Records{}
	}
	return s, nil
}

// openState opens the state file and reads it.
func openState(fsys store.FS, path string) (*store.Store, saved, error) {
	s, loaded, err := store.Open(fsys, path, mostSaved, func(text []byte) error {
		_, err := decode(text)
		return err
	})
	if err != nil {
		return nil, saved{}, stateError(path, err)
	}
	if loaded.Source == store.Nothing {
		return s, saved{Version: savedVersion, Files: quiet.Records{}}, nil
	}
	content, err := decode(loaded.Data)
	return s, content, err
}

// stateError replaces the advice of package store, which is about the state of an agent.
func stateError(path string, err error) error {
	of := (*store.Error)(nil)
	if !errors.As(err, &of) {
		return err
	}
	advice := ""
	switch {
	case errors.Is(err, store.ErrLocked):
		advice = ": paddock quiet runs on this node: end it first"
	case errors.Is(err, store.ErrDamaged):
		advice = ": it has what the kernel's files contained before, which is lost: move " + path + "* away, and restart the machine, which gives every file the kernel's own value"
	case errors.Is(err, store.ErrForeign):
		advice = ": use the version of paddock that wrote it"
	}
	return fmt.Errorf("state %s: %s: %w%s", path, of.Op, of.Err, advice)
}
