package archive

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestPack checks that an archive is the same in whichever order its files are given, and that they
// are read again.
func TestPack(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	a, b := File{"a", []byte("one")}, File{"b/c", []byte("two")}
	packed, err := Pack([]File{a, b}, at)
	if err != nil {
		t.Fatal(err)
	}
	given := []File{b, a}
	if again, err := Pack(given, at); err != nil || !bytes.Equal(again, packed) || given[0].Name != "b/c" {
		t.Errorf("another order gives another archive, or changes what is given: %v", err)
	}
	if later, err := Pack(given, at.Add(time.Hour)); err != nil || bytes.Equal(later, packed) {
		t.Errorf("the archive has no time: %v", err)
	}
	for _, f := range given {
		if data, err := Member(packed, f.Name); err != nil || !bytes.Equal(data, f.Data) {
			t.Errorf("%s has %q, want %q: %v", f.Name, data, f.Data, err)
		}
	}
	if _, err := Member(packed, "b"); err == nil || !strings.Contains(err.Error(), "the archive has no b") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Member([]byte("text"), "a"); err == nil {
		t.Error("text is an archive")
	}
}
