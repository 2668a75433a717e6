package sim

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestPipe: a write does not wait for a reader, bytes that were written can be read after the end,
// and then both ends report the end.
func TestPipe(t *testing.T) {
	a, b := newPipe()
	for range 1000 {
		if n, err := a.Write(make([]byte, 1000)); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(b)
	if len(all) != 1_000_000 || err != nil {
		t.Errorf("%d bytes, %v", len(all), err)
	}
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"write to a closed end":   {second(b.Write([]byte{1})), net.ErrClosed},
		"write at the closed end": {second(a.Write([]byte{1})), net.ErrClosed},
		"read at the closed end":  {second(a.Read(make([]byte, 1))), net.ErrClosed},
		"a deadline":              {errors.Join(a.SetDeadline(time.Time{}), b.SetReadDeadline(time.Time{}), b.SetWriteDeadline(time.Time{})), os.ErrNoDeadline},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
}

func second(_ int, err error) error { return err }

// TestReaderIsWoken: a write wakes a reader, and so does the end.
func TestReaderIsWoken(t *testing.T) {
	a, b := newPipe()
	got := make(chan error)
	go func() {
		_, err := b.Read(make([]byte, 1))
		got <- err
		_, err = b.Read(make([]byte, 1))
		got <- err
	}()
	if _, err := a.Write([]byte{1}); err != nil || <-got != nil {
		t.Error("the reader got nothing")
	}
	if err := a.Close(); err != nil || !errors.Is(<-got, io.EOF) {
		t.Error("the reader did not hear of the end")
	}
}

// TestSetsAreShared: the same text gives the same set, and bad text is an error each time.
func TestSetsAreShared(t *testing.T) {
	parse := interned()
	for range 2 * mostSets {
		if set, err := parse("0-3,8"); err != nil || set.String() != "0-3,8" {
			t.Fatal(set, err)
		}
		if _, err := parse("x"); err == nil {
			t.Fatal("no error")
		}
	}
}
