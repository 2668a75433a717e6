package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/node/store"
)

func flip(data []byte, bit int) []byte {
	data = bytes.Clone(data)
	data[bit/8] ^= 1 << (bit % 8)
	return data
}

func TestEveryFlippedBitIsSurvived(t *testing.T) {
	size := 8 * len(seal(2, 20))
	for bit := range size {
		f := kept(t)
		damaged := flip(seal(2, 20), bit)
		f.Put(path, damaged)
		for range 2 { // opening changes nothing, so it can be repeated
			s, loaded := mustOpen(t, f, path)
			if loaded.Source != store.Previous || !bytes.Equal(loaded.Data, seal(1, 20)) ||
				!errors.Is(loaded.Reason, store.ErrDamaged) || loaded.KeptAs != path+".damaged-1" {
				t.Fatalf("bit %d: found %v", bit, loaded)
			}
			mustClose(t, s)
			wantFile(t, f, path, damaged)
		}
		s, _ := mustOpen(t, f, path)
		mustWrite(t, s, seal(3, 20))
		wantFile(t, f, path, seal(3, 20))
		wantFile(t, f, path+".previous", seal(1, 20))
		wantFile(t, f, path+".damaged-1", damaged)
		mustWrite(t, s, seal(4, 20))
		wantFile(t, f, path+".previous", seal(3, 20))
		wantNames(t, f, "state", "state.damaged-1", "state.lock", "state.previous")
	}
}

func TestEveryTruncationIsSurvived(t *testing.T) {
	for size := range len(seal(2, 20)) {
		f := kept(t)
		f.Put(path, seal(2, 20)[:size])
		if _, loaded := mustOpen(t, f, path); loaded.Source != store.Previous || !bytes.Equal(loaded.Data, seal(1, 20)) {
			t.Errorf("%d bytes left: found %v", size, loaded)
		}
	}
}

// TestWhatOpenFinds checks what Open reports for each combination of the file and the previous one.
func TestWhatOpenFinds(t *testing.T) {
	whole1, whole2, broken := seal(1, 20), seal(2, 20), []byte("broken")
	foreign := []byte("version 9")
	cases := []struct {
		current, previous []byte // nil for missing
		want              store.Source
		err               error
		text              string // a part of the log line or the error
	}{
		{nil, nil, store.Nothing, nil, "neither the state file /var/lib/paddock/state nor /var/lib/paddock/state.previous exists: starting without pods"},
		{whole2, nil, store.Current, nil, "state read from /var/lib/paddock/state"},
		{whole2, whole1, store.Current, nil, "state read from /var/lib/paddock/state"},
		{whole2, broken, store.Current, nil, "state read from"},
		{whole2, foreign, store.Current, nil, "state read from"},
		{nil, whole1, store.Previous, nil, "previous state read from /var/lib/paddock/state.previous: /var/lib/paddock/state is missing: file does not exist; the last change of the state is lost"},
		{broken, whole1, store.Previous, nil, "/var/lib/paddock/state is damaged: 6 bytes are too few; the last change of the state is lost; the next write keeps the damaged file as /var/lib/paddock/state.damaged-1"},
		{make([]byte, limit+1), whole1, store.Previous, nil, "is damaged: it is too large: it has more than 1 MiB"},
		{[]byte{}, whole1, store.Previous, nil, "0 bytes"},
		{broken, nil, 0, store.ErrDamaged, "state is damaged: 6 bytes are too few, and /var/lib/paddock/state.previous is missing: file does not exist; nothing was changed; replace it with an intact copy"},
		{broken, broken, 0, store.ErrDamaged, "move /var/lib/paddock/state* to another directory and start with an empty state"},
		{nil, broken, 0, store.ErrDamaged, "state is missing: file does not exist, and /var/lib/paddock/state.previous is damaged"},
		{foreign, whole1, 0, store.ErrForeign, "version 9 is too new: intact, but not usable by this program; nothing was changed; start the version of the agent that wrote it," +
			" or convert it with that version (paddock state convert --to kubelet-1.37 --save DIR /var/lib/paddock/state)"},
		{broken, foreign, 0, store.ErrForeign, "read /var/lib/paddock/state.previous: version 9"},
	}
	validate := func(data []byte) error {
		if bytes.Equal(data, foreign) {
			return fmt.Errorf("version 9 is too new: %w", store.ErrForeign)
		}
		return whole(data)
	}
	for i, c := range cases {
		f := kept(t)
		f.Delete(path)
		f.Delete(path + ".previous")
		if c.current != nil {
			f.Put(path, c.current)
		}
		if c.previous != nil {
			f.Put(path+".previous", c.previous)
		}
		s, loaded, err := store.Open(f, path, limit, validate)
		text := loaded.String()
		if err != nil {
			text = err.Error()
		} else {
			mustClose(t, s)
		}
		if !errors.Is(err, c.err) || (err != nil) != (c.err != nil) || loaded.Source != c.want || !strings.Contains(text, c.text) {
			t.Errorf("case %d: %v from %v, error %v, text %q", i, loaded.Data, loaded.Source, err, text)
		}
		if c.current != nil {
			wantFile(t, f, path, c.current)
		}
		if c.previous != nil {
			wantFile(t, f, path+".previous", c.previous)
		}
	}
}

// If the file is missing, there is nothing to keep: the previous file remains the previous file.
func TestWriteAfterTheFileWasMissing(t *testing.T) {
	f := kept(t)
	f.Delete(path)
	s, loaded := mustOpen(t, f, path)
	if !errors.Is(loaded.Reason, fs.ErrNotExist) || loaded.KeptAs != "" {
		t.Errorf("found %v", loaded)
	}
	mustWrite(t, s, seal(3, 9))
	wantFile(t, f, path, seal(3, 9))
	wantFile(t, f, path+".previous", seal(1, 20))
	wantNames(t, f, "state", "state.lock", "state.previous")
}

func TestDamagedFilesAreCounted(t *testing.T) {
	f := kept(t)
	for n := 1; n <= 99; n++ {
		f.Put(path, fmt.Appendf(nil, "broken %d", n))
		s, loaded := mustOpen(t, f, path)
		mustWrite(t, s, loaded.Data)
		mustWrite(t, s, loaded.Data)
		mustClose(t, s)
	}
	wantFile(t, f, path+".damaged-99", []byte("broken 99"))
	f.Put(path, []byte("broken 100"))
	_, _, err := store.Open(f, path, limit, whole)
	if err == nil || !strings.Contains(err.Error(), "/var/lib/paddock/state.damaged-1 to 99; nothing was changed; find out") {
		t.Errorf("the hundredth: %v", err)
	}
	wantFile(t, f, path, []byte("broken 100"))
}
