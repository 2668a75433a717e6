// Package bounded reads files and answers that others wrote, so that the largest of them does not
// take the memory of the process.
package bounded

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrTooLarge is wrapped by the error about what has more bytes than are read.
var ErrTooLarge = errors.New("too large")

// Read reads everything, at most so many bytes. If there are more it returns the first of them and
// an error that wraps ErrTooLarge and begins with what was read: "pod.yaml", "the answer".
func Read(what string, from io.Reader, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err == nil && len(data) > most {
		return data[:most], fmt.Errorf("%s is %w: it has more than %s, the most that is read", what, ErrTooLarge, request.RoundedBytes(int64(most)))
	}
	return data, err
}

// Begin reads the first bytes, at most so many, to see what they are, and returns a reader of
// everything, from the first byte on.
func Begin(from io.Reader, most int) (first []byte, all io.Reader, err error) {
	first, err = io.ReadAll(io.LimitReader(from, int64(most)))
	return first, io.MultiReader(bytes.NewReader(first), from), err
}

// Unpacked is an error about bytes that are compressed with gzip, which parsers would report as
// strange characters.
func Unpacked(what string, data []byte) error {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return fmt.Errorf("%s is compressed with gzip: unpack it first, or read it from \"gunzip -c\" through -", what)
	}
	return nil
}
