package state_test

import (
	"errors"
	"testing"

	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// FuzzRecognise checks that the result is either an error or a value, and that a value is unchanged
// after encoding and recognising it again. No kubelet may panic, or read a file that is not
// recognised.
func FuzzRecognise(f *testing.F) {
	for _, e := range examples {
		f.Add([]byte(e.text))
	}
	f.Add([]byte(`{"policyName":"Static","machineState":{"0":null,"1":{"memoryMap":{"memory":null}}},"entries":{"a":null,"b":{"c":null}},"podEntries":{"a":{"memoryBlocks":null}}}`))
	f.Add([]byte(`{"defaultCpuSet":"","entries":null,"podEntries":null,"data":"{}","DATA":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := kubeletstate.Recognise(data)
		for _, m := range []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager} {
			_ = kubeletstate.Readers(m, data)
		}
		if (err == nil) != (file != nil) {
			t.Fatalf("%v and %v", file, err)
		}
		if err != nil {
			if !errors.Is(err, kubeletstate.ErrDamaged) && !errors.Is(err, kubeletstate.ErrForeign) {
				t.Fatalf("%v wraps nothing that is known", err)
			}
			return
		}
		text, err := file.Encode(file.Version)
		if errors.Is(err, kubeletstate.ErrNoPlace) {
			return // the version was recognised by its checksum, but the file has fields of another version
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := kubeletstate.Recognise(text)
		if err != nil || again.Version != file.Version || !again.Valid() {
			t.Fatalf("%s, made of %q, reads back as %+v, %v", text, data, again, err)
		}
		if twice, err := again.Encode(again.Version); err != nil || string(twice) != string(text) {
			t.Fatalf("%s is written again as %s, %v", text, twice, err)
		}
	})
}
