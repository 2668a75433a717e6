package recording_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// TestRead checks that lines are read in order, and only as many as are requested.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.jsonl.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	if _, err := packed.Write([]byte("{\"n\":1}\n{\"n\":2}\n{\"n\":3}")); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	type value struct{ N int }
	var all []int
	for v := range recording.Values[value](t, path) {
		all = append(all, v.N)
	}
	if !slices.Equal(all, []int{1, 2, 3}) {
		t.Errorf("read are %v", all)
	}
	for line := range recording.Lines(t, path) {
		if string(line) != `{"n":1}` {
			t.Errorf("the first line is %s", line)
		}
		break
	}
}
