package bounded

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{"": "", "1234": "1234", "12345": "1234"} {
		data, err := Read("it", strings.NewReader(text), 4)
		if string(data) != want || errors.Is(err, ErrTooLarge) != (text != want) || err != nil && !strings.Contains(err.Error(), "it is too large: it has more than 4 B") {
			t.Errorf("of %q it read %q, error %v", text, data, err)
		}
	}
	if _, err := Read("it", iotest.ErrReader(io.ErrClosedPipe), 4); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want the reader's", err)
	}
}

// TestBegin checks that the bytes that Begin reads are also in the returned reader.
func TestBegin(t *testing.T) {
	for text, want := range map[string]string{"": "", "1234": "1234", "12345": "1234"} {
		first, all, err := Begin(strings.NewReader(text), 4)
		whole, wrong := io.ReadAll(all)
		if string(first) != want || string(whole) != text || err != nil || wrong != nil {
			t.Errorf("of %q it read %q, then %q: %v, %v", text, first, whole, err, wrong)
		}
	}
}
