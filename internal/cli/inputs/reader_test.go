package inputs_test

import (
	"io"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cli/inputs"
)

func TestFileIsBounded(t *testing.T) {
	r := inputs.Reader{Stdin: io.LimitReader(zeros{}, inputs.MaxFile+10)}
	if data, err := r.File("-"); data != nil || err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("got %d bytes and %v", len(data), err)
	}
	if _, err := (inputs.Reader{}).File("-"); err == nil || !strings.Contains(err.Error(), "name a file") {
		t.Errorf("without standard input: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
