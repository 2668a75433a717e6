// Package bounded reads files and answers from other programs with a limit on their size, so that
// large ones do not exhaust the memory of the process.
package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrTooLarge is wrapped by errors about data with more bytes than the limit.
var ErrTooLarge = errors.New("too large")

// Read reads everything from a reader, up to most bytes. If there are more, it returns the first
// most bytes and an error that wraps ErrTooLarge and begins with what, e.g. "pod.yaml" or "the
// answer".
func Read(what string, from io.Reader, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err == nil && len(data) > most {
		return data[:most], fmt.Errorf("%s is %w: it has more than %s, the most that is read", what, ErrTooLarge, request.RoundedBytes(int64(most)))
	}
	return data, err
}

// Begin reads up to most bytes from the beginning, to detect the format. It also returns a reader
// of all bytes, including the first ones.
func Begin(from io.Reader, most int) (first []byte, all io.Reader, err error) {
	first, err = io.ReadAll(io.LimitReader(from, int64(most)))
	return first, io.MultiReader(bytes.NewReader(first), from), err
}

// Unpacked returns an error if data is compressed with gzip, which parsers would report as strange
// characters.
func Unpacked(what string, data []byte) error {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return fmt.Errorf("%s is compressed with gzip: unpack it first, or read it from \"gunzip -c\" through -", what)
	}
	return nil
}
