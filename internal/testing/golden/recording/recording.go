// Package recording reads the files of testdata/golden in tests. They have one JSON value per line
// and are compressed with gzip.
package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"iter"
	"os"
	"testing"
)

// maxLine is the maximum length of a line in bytes. A scenario with its machine has about 100 KiB.
const maxLine = 64 << 20

// Lines returns the lines of a file. A line is valid until the next iteration. An error fails the
// test.
func Lines(t testing.TB, path string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		t.Helper()
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		lines := bufio.NewScanner(unzipped)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if !yield(lines.Bytes()) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// Values returns the values of a file. Each value is a new variable.
func Values[T any](t testing.TB, path string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.Helper()
		for line := range Lines(t, path) {
			v := new(T)
			if err := json.Unmarshal(line, v); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if !yield(v) {
				return
			}
		}
	}
}
