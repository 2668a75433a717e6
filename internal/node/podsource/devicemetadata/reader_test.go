package devicemetadata

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const content = `{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1beta1","requests":[{"name":"REQUEST","devices":[
	{"driver":"gpu.example.com","pool":"p","name":"DEVICE","attributes":{"resource.kubernetes.io/numaNode":{"int":1}}}]}]}`

// kubeletDir creates a kubelet's directory with the files of a claim. Keys are relative to the
// directory of the driver.
func kubeletDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, "plugins", "gpu.example.com", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func metadataOf(request, device string) string {
	return strings.NewReplacer("REQUEST", request, "DEVICE", device).Replace(content)
}

func TestClaim(t *testing.T) {
	dir := kubeletDir(t, map[string]string{
		"dra-device-metadata/ns_train/gpu/metadata.json": metadataOf("gpu", "gpu0"), "dra-device-metadata/ns_train/nic/metadata.json": metadataOf("nic/fast", "nic0"),
		"dra-device-metadata/ns_other/gpu/metadata.json": metadataOf("gpu", "gpu7"), "dra-device-metadata/ns_half/gpu/other.json": "",
		"dra-device-metadata/ns_file": "", "dra-device-metadata/ns_empty/gpu/metadata.json": "",
	})
	r := New(dir, nil)
	for _, c := range []struct{ driver, claim, want string }{
		{"gpu.example.com", "train", "[{gpu.example.com p gpu0 gpu {1}} {gpu.example.com p nic0 nic/fast {1}}] <nil>"},
		{"gpu.example.com", "none", "[] <nil>"},
		{"gpu.example.com", "half", "[] <nil>"},
		{"other.example.com", "train", "[] <nil>"},
		{"gpu.example.com", "file", "not a directory"},
		{"gpu.example.com", "empty", "ns_empty/gpu/metadata.json: it is not a file with the metadata of devices"},
		{"..", "train", `".." is not a name`},
		{"gpu.example.com", "../ns_train", "is not a name"},
		{"", "train", "is not a name"},
	} {
		devices, err := r.Claim(t.Context(), c.driver, "ns", c.claim)
		if got := fmt.Sprint(devices, err); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.driver, c.claim, got, c.want)
		}
	}
	if devices, err := New(filepath.Join(dir, "none"), nil).Claim(t.Context(), "a", "b", "c"); devices != nil || err != nil {
		t.Errorf("without a directory: %v, %v", devices, err)
	}
}

// TestHostileFiles: links that lead out of the directory, pipes, devices, large files and many
// requests are errors. The other files of the claim are read all the same.
func TestHostileFiles(t *testing.T) {
	outside := kubeletDir(t, map[string]string{"metadata.json": metadataOf("gpu", "stolen")})
	secret := filepath.Join(outside, "plugins", "gpu.example.com", "metadata.json")
	for name, c := range map[string]struct {
		want string
		make func(path string) error
	}{
		"a link to a file":   {"escapes", func(path string) error { return os.Symlink(secret, path) }},
		"a relative link":    {"escapes", func(path string) error { return os.Symlink("../../../../../../../../../../../../.."+secret, path) }},
		"a pipe":             {"not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		"a directory":        {"not a regular file", func(path string) error { return os.Mkdir(path, 0o755) }},
		"a large file":       {"too large", func(path string) error { return os.WriteFile(path, make([]byte, claims.MaxMetadata+1), 0o644) }},
		"a link to itself":   {"too many levels", func(path string) error { return os.Symlink("metadata.json", path) }},
		"text":               {"metadata of devices", func(path string) error { return os.WriteFile(path, []byte("numaNode: 1"), 0o644) }},
		"another kind":       {"metadata of devices", func(path string) error { return os.WriteFile(path, []byte(`{"kind":"Pod","apiVersion":"v1"}`), 0o644) }},
		"a link to a device": {"escapes", func(path string) error { return os.Symlink("/dev/zero", path) }},
	} {
		dir := kubeletDir(t, map[string]string{"dra-device-metadata/ns_c/good/metadata.json": metadataOf("good", "gpu0"), "dra-device-metadata/ns_c/bad/x": ""})
		if err := c.make(filepath.Join(dir, "plugins/gpu.example.com/dra-device-metadata/ns_c/bad/metadata.json")); err != nil {
			t.Fatal(err)
		}
		devices, err := New(dir, nil).Claim(t.Context(), "gpu.example.com", "ns", "c")
		if err == nil || !strings.Contains(err.Error(), c.want) || fmt.Sprint(devices) != "[{gpu.example.com p gpu0 good {1}}]" {
			t.Errorf("%s: %v, %v, want %s", name, devices, err, c.want)
		}
	}
	many := map[string]string{}
	for i := range maxRequests + 1 {
		many[fmt.Sprintf("dra-device-metadata/ns_c/r%d/metadata.json", i)] = ""
	}
	if _, err := New(kubeletDir(t, many), nil).Claim(t.Context(), "gpu.example.com", "ns", "c"); err == nil || !strings.Contains(err.Error(), "more than 256 requests") {
		t.Error(err)
	}
}

// TestBusy: a call ends with its context. While too many reads have not ended, further calls fail.
func TestBusy(t *testing.T) {
	r := New(t.TempDir(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Claim(ctx, "a", "b", "c"); err != nil && !strings.Contains(err.Error(), "context canceled") {
		t.Error(err)
	}
	for range maxReads {
		r.reads <- struct{}{}
	}
	if _, err := r.Claim(t.Context(), "a", "b", "c"); err == nil || !strings.Contains(err.Error(), "have not ended") {
		t.Error(err)
	}
}
