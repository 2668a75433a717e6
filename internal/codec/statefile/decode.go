package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/node"
)

const (
	adviceDamaged = "put a good copy in its place, or move it away to start without assignments"
	adviceForeign = "name another file"
	adviceNewer   = "use the Paddock that wrote it, or a newer one"
)

// Decode parses a file. name is used in errors. It returns either a file or an error that wraps
// ErrDamaged, ErrForeign or ErrNewer and describes what to do. Encoding the returned file yields
// the same bytes. Decode does not check whether the grants are valid on a machine; node.Restore
// does.
func Decode(name string, data []byte) (*File, error) {
	f, err := decode(data)
	if err == nil {
		return f, nil
	}
	advice := adviceDamaged
	switch {
	case errors.Is(err, ErrForeign):
		advice = adviceForeign
	case errors.Is(err, ErrNewer):
		advice = adviceNewer
	}
	return nil, fmt.Errorf("state file %s is %w: %s", name, err, advice)
}

func decode(data []byte) (*File, error) {
	if err := identify(data[:min(len(data), MaxSize)]); err != nil && (len(data) <= MaxSize || errors.Is(err, ErrNewer)) {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: it has more than %d bytes, the most that a state has", ErrDamaged, MaxSize)
	}
	if err := verify(data); err != nil {
		return nil, err
	}
	f, err := read(data)
	if err != nil {
		return nil, err
	}
	if err := compare(f, data); err != nil {
		return nil, err
	}
	return f, nil
}

// read reads the members of a file.
func read(data []byte) (*File, error) {
	var c content
	if err := fileFields.Read(data, &c); err != nil {
		return nil, grantform.KindOf(err)
	}
	f := &c.File
	if f.Generation > node.MaxGeneration {
		return nil, fmt.Errorf("%w: it has revision %d, and the last one is %d", ErrDamaged, f.Generation, uint64(node.MaxGeneration))
	}
	for i, g := range f.Grants {
		grantform.Complete(g)
		switch {
		case i > 0 && f.Grants[i-1].Pod.UID >= g.Pod.UID:
			return nil, fmt.Errorf("%w: pod %s with UID %q follows UID %q", ErrDamaged, g.Pod.ID(), g.Pod.UID, f.Grants[i-1].Pod.UID)
		case g.Resized > f.Generation:
			return nil, fmt.Errorf("%w: pod %s was resized in revision %d, in a state of revision %d", ErrDamaged, g.Pod.ID(), g.Resized, f.Generation)
		case g.Sequence > f.Generation:
			return nil, fmt.Errorf("%w: pod %s was admitted as number %d, in a state of revision %d", ErrDamaged, g.Pod.ID(), g.Sequence, f.Generation)
		}
	}
	return f, nil
}

// identify checks the first bytes, which are the same in all versions, and returns an error if this
// program cannot read the file.
func identify(data []byte) error {
	rest, ours := bytes.CutPrefix(data, []byte(magic))
	if !ours {
		return stranger(data)
	}
	digits, _, found := bytes.Cut(rest[:min(len(rest), 20)], []byte(","))
	version, err := strconv.Atoi(string(digits))
	switch {
	case !found || err != nil || version < 1:
		return fmt.Errorf("%w: it is cut off, or its version was changed", ErrDamaged)
	case version > Version:
		return fmt.Errorf("%w: it has version %d, this one reads up to version %d", ErrNewer, version, Version)
	}
	return nil
}

// stranger returns the error for a file that does not begin like a state file.
func stranger(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	if bytes.HasPrefix([]byte(magic), data) {
		return fmt.Errorf("%w: it is cut off after %d bytes", ErrDamaged, len(data))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return fmt.Errorf("%w: it is no JSON object", ErrForeign)
	}
	for _, known := range []struct{ member, whose string }{
		{"defaultCpuSet", "the kubelet's CPU Manager state, cpu_manager_state"},
		{"machineState", "the kubelet's Memory Manager state, memory_manager_state"},
		{"Data", "the kubelet's device checkpoint, kubelet_internal_checkpoint"},
	} {
		if _, has := members[known.member]; has {
			return fmt.Errorf("%w: it is %s", ErrForeign, known.whose)
		}
	}
	if string(members["format"]) == `"paddock-state"` {
		return fmt.Errorf("%w: another program has formatted it", ErrDamaged)
	}
	return fmt.Errorf("%w: it is some other JSON", ErrForeign)
}

// verify compares the checksum in the last line with the checksum of the bytes before it.
func verify(data []byte) error {
	at := len(data) - checksumLine
	if at < 0 || !bytes.HasPrefix(data[at:], []byte(checksumBefore)) || !bytes.HasSuffix(data, []byte(checksumAfter)) {
		return fmt.Errorf("%w: it does not end with its checksum: it is cut off after %d bytes, or something was added", ErrDamaged, len(data))
	}
	stored := data[at+len(checksumBefore) : len(data)-len(checksumAfter)]
	sum := sha256.Sum256(data[:at])
	if found := hex.EncodeToString(sum[:]); found != string(stored) {
		return fmt.Errorf("%w: its checksum is %s, its bytes have %s: it was changed after it was written", ErrDamaged, stored, found)
	}
	return nil
}

// compare encodes the file again and compares the bytes. This proves that the order, the form and
// the range of everything in the file are valid.
func compare(f *File, data []byte) error {
	again, err := encode(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if bytes.Equal(again, data) {
		return nil
	}
	same := 0
	for same < min(len(again), len(data)) && again[same] == data[same] {
		same++
	}
	line := 1 + bytes.Count(data[:same], []byte("\n"))
	return fmt.Errorf("%w: it is not written as Paddock writes it: in line %d it has %s where %s is expected",
		ErrDamaged, line, excerpt(data, same), excerpt(again, same))
}

// excerpt quotes the bytes around a position.
func excerpt(data []byte, at int) string {
	const before, after = 12, 24
	return fmt.Sprintf("%#q", data[max(0, at-before):min(len(data), at+after)])
}
