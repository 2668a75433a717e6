package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// deviceSamples returns files that the packages of Kubernetes 1.36.3 wrote.
func deviceSamples(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/devices/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v: %v", names, err)
	}
	samples := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		samples[filepath.Base(name)] = bytes.TrimSpace(data)
	}
	return samples
}

// TestDeviceSamples checks that the checksums of the reference are valid, and that encoding a file
// yields the same bytes.
func TestDeviceSamples(t *testing.T) {
	for name, data := range deviceSamples(t) {
		f, err := kubeletstate.RecogniseDevices(data)
		if err != nil || !f.Checksum.Valid() {
			t.Errorf("%s: %v, %+v", name, err, f)
			continue
		}
		if again, err := f.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s is written as %s, %v", name, again, err)
		}
	}
}

func TestDevicesAreRead(t *testing.T) {
	samples := deviceSamples(t)
	f, err := kubeletstate.RecogniseDevices(samples["claims.json"])
	if err != nil {
		t.Fatal(err)
	}
	const share = "5a0e8f2c-1b7d-4c7e-9d4e-0d8b7a6c5e4f"
	want := []kubeletstate.Claim{
		{"f3b1c9d2-8e47-4a6b-b1f0-2d5c7e9a1b34", "train-gpu", "default", []string{"6a1f"}, []kubeletstate.ClaimDevice{
			{"gpu.example.com", "node7", "gpu-0", "", []string{"gpu"}, []string{"gpu.example.com/gpu=gpu-0"}},
			{"gpu.example.com", "node7", "gpu-1", share, []string{"gpu"}, []string{"gpu.example.com/gpu=gpu-1"}},
		}},
		{"0c2d4e6f-1a3b-4c5d-8e7f-9a0b1c2d3e4f", "shared-nic", "net", []string{"6a1f", "9c2e"}, nil},
	}
	if f.Manager != kubeletstate.DRAManager || !reflect.DeepEqual(f.Claims, want) {
		t.Errorf("%v: %+v", f.Manager, f.Claims)
	}
	if f, err = kubeletstate.RecogniseDevices(samples["plugins.json"]); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Manager, f.Pods(), f.Entries[0].NUMANodes(), f.Entries[1].NUMANodes()); got !=
		"Device Manager [6a1f 9c2e] map[gpu0:[0] gpu2:[1] gpu3:[1]] map[fuse7:[]]" {
		t.Error(got)
	}
}

// TestDamagedDevices checks that an incomplete text leads to an error or a wrong checksum.
func TestDamagedDevices(t *testing.T) {
	for name, data := range deviceSamples(t) {
		for cut := range len(data) {
			if f, err := kubeletstate.RecogniseDevices(data[:cut]); err == nil {
				t.Errorf("%s, cut off after %d bytes, is read: %+v", name, cut, f)
			}
		}
		for _, change := range []struct{ old, now string }{
			{`Checksum":`, `Checksum":1`}, {"gpu0", "gpu1"}, {"6a1f", "6a1e"}, {"train-gpu", "train-gpx"}, {`\"gpu-0\"`, `\"gpu-7\"`}, {`"0":`, `"1":`},
		} {
			now := strings.Replace(string(data), change.old, change.now, 1)
			if f, err := kubeletstate.RecogniseDevices([]byte(now)); now != string(data) && err == nil && f.Checksum.Valid() {
				t.Errorf("%s with %s in place of %s is whole", name, change.now, change.old)
			}
		}
	}
	for text, want := range map[string]struct {
		kind error
		text string
	}{
		"":                        {kubeletstate.ErrDamaged, "it is empty"},
		"\n":                      {kubeletstate.ErrDamaged, "it is empty"},
		"[]":                      {kubeletstate.ErrForeign, `not a file of the kubelet about devices (kubelet_internal_checkpoint or dra_manager_state): it has no field "Data"`},
		`{"policyName":"static"}`: {kubeletstate.ErrForeign, `no field "Data"`},
		`{"policyName":"static","defaultCpuSet":"","checksum":1,"data":"{}","dataChecksum":1}`: {kubeletstate.ErrForeign, `no field "Data"`},
		`{"Data":`:                                  {kubeletstate.ErrDamaged, "cut off after 8 bytes"},
		`{"Data":"{","Checksum":1}`:                 {kubeletstate.ErrDamaged, `its field "Data"`},
		`{"Data":3,"Checksum":1}`:                   {kubeletstate.ErrDamaged, "Data: it is a number, expected an object"},
		`{"Data":"{}","Checksum":-1}`:               {kubeletstate.ErrDamaged, "Checksum: it is -1, expected a whole number, 0 or more"},
		`{"Data":"{}","Checksum":5e99}`:             {kubeletstate.ErrDamaged, "Checksum: it is 5e99, expected a whole number of at most 32 bits"},
		strings.Repeat(" ", kubeletstate.MaxSize+1): {kubeletstate.ErrForeign, "at most"},
	} {
		_, err := kubeletstate.RecogniseDevices([]byte(text))
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%.40q: %v, want %q", text, err, want.text)
		}
	}
}

// FuzzRecogniseDevices checks that the result is either an error or a value, without a panic, and
// that a value is unchanged after encoding and reading it again.
func FuzzRecogniseDevices(f *testing.F) {
	for _, data := range deviceSamples(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := kubeletstate.RecogniseDevices(data)
		if (err == nil) != (file != nil) {
			t.Fatalf("%v and %v", file, err)
		}
		if err != nil {
			if !errors.Is(err, kubeletstate.ErrDamaged) && !errors.Is(err, kubeletstate.ErrForeign) {
				t.Fatalf("%v wraps nothing that is known", err)
			}
			return
		}
		text, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := kubeletstate.RecogniseDevices(text)
		if err != nil || !again.Checksum.Valid() || !reflect.DeepEqual(again.Pods(), file.Pods()) {
			t.Fatalf("%s, made of %q, reads back as %+v, %v", text, data, again, err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(twice, text) {
			t.Fatalf("%s is written again as %s, %v", text, twice, err)
		}
	})
}
