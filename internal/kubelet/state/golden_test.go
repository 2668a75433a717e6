package state_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// checkpoints collects the texts of state files anywhere in a result.
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

// TestGoldenCheckpoints reads what the reference wrote. It must be valid and be encoded to the same
// bytes. In every version that has a place for it, the content must be the same.
func TestGoldenCheckpoints(t *testing.T) {
	texts := map[string]bool{}
	for _, name := range []string{"seed-examples.jsonl.gz", "dev.jsonl.gz"} {
		for line := range recording.Lines(t, filepath.Join("../../../testdata/golden", name)) {
			var c struct {
				Result any `json:"result"`
			}
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			checkpoints(c.Result, texts)
		}
	}
	equal := 0
	for text := range texts {
		f, err := kubeletstate.Recognise([]byte(text))
		if err != nil || !f.Valid() || f.Checksum.Unchecked || len(f.Unknown) > 0 {
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

// checkVersions encodes f in every version that has a place for it, and reads the result.
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
		} else if g, err := kubeletstate.Recognise(data); err != nil || g.Version != v || !g.Valid() || !reflect.DeepEqual(f.CPU, g.CPU) || !reflect.DeepEqual(f.Memory, g.Memory) {
			t.Fatalf("%v: %s reads back as %+v", err, data, g)
		}
	}
}
