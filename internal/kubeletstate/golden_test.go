package kubeletstate_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/paddock-project/paddock/internal/kubeletstate"
)

// eachLine calls f with every line of a gzipped file of testdata/golden.
func eachLine(t *testing.T, name string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(filepath.Join("../../testdata/golden", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		f(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// checkpoints finds the texts of state files wherever they are in a result.
func checkpoints(value any, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
			if text, ok := v[name].(string); ok {
				found[text] = true
			}
		}
		for _, inner := range v {
			checkpoints(inner, found)
		}
	case []any:
		for _, inner := range v {
			checkpoints(inner, found)
		}
	}
}

// TestGoldenCheckpoints: what the reference wrote is read, holds, and is written with the same
// bytes again; and in every version that has a place for it, it says the same.
func TestGoldenCheckpoints(t *testing.T) {
	texts := map[string]bool{}
	for _, name := range []string{"seed-examples.jsonl.gz", "dev.jsonl.gz"} {
		eachLine(t, name, func(line []byte) {
			var c struct {
				Result any `json:"result"`
			}
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			checkpoints(c.Result, texts)
		})
	}
	equal := 0
	for text := range texts {
		f, err := kubeletstate.Recognise([]byte(text))
		if err != nil || !f.Holds() || f.Checksum.Unchecked || len(f.Unknown) > 0 {
			t.Errorf("%v, %v: %.300s", f, err, text)
			continue
		}
		if again, err := f.Encode(f.Version); err != nil || string(again) != text {
			t.Errorf("written back as\n%s (%v), was\n%s", again, err, text)
			continue
		}
		checkVersions(t, f)
		equal++
	}
	if equal == 0 || equal < len(texts) {
		t.Errorf("%d of %d texts", equal, len(texts))
	}
	t.Logf("%d of %d different texts are written back with the same bytes", equal, len(texts))
}

// checkVersions writes f in every version that has a place for it, and reads that.
func checkVersions(t *testing.T, f *kubeletstate.File) {
	t.Helper()
	newest := f.Manager.PoolsSince() + 1
	for v := newest - 2; v <= newest; v++ {
		pools := (f.CPU != nil && len(f.CPU.Pools) > 0) || (f.Memory != nil && len(f.Memory.Pools) > 0)
		data, err := f.Encode(v)
		if v < f.Manager.PoolsSince() && pools {
			if err == nil {
				t.Fatalf("%s was written without its pools: %s", v, data)
			}
		} else if err != nil {
			t.Fatal(err)
		} else if g, err := kubeletstate.Recognise(data); err != nil || g.Version != v || !g.Holds() || !reflect.DeepEqual(f.CPU, g.CPU) || !reflect.DeepEqual(f.Memory, g.Memory) {
			t.Fatalf("%v: %s reads back as %+v", err, data, g)
		}
	}
}
