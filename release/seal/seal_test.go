package seal

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	image  = "registry.example/paddock"
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// sealed returns a folder that is signed, and its key.
func sealed(t *testing.T) (string, *ecdsa.PrivateKey) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "v0.1.0")
	for name, text := range map[string]string{"bin/paddock": "program", "chart/paddock-0.1.0.tgz": "chart", "images/paddock.tar": archive(t)} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	if err := WriteSums(dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "secret", "key.pem")
	if _, err := NewKey(name); err != nil {
		t.Fatal(err)
	}
	key, err := ReadKey(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := Seal(t.Context(), dir, key, built()); err != nil {
		t.Fatal(err)
	}
	return dir, key
}

func built() Build {
	return Build{
		Version: "v0.1.0", Registry: "registry.example", Commit: "0123456789012345678901234567890123456789", GoVersion: "go1.26.8",
		Builder: "https://builder.example", Images: map[string]string{image: digest},
	}
}

func archive(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range map[string]string{"index.json": `{"manifests": [{"digest": "` + digest + `"}]}`, "oci-layout": "{}"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVerify checks that a sealed folder is verified, that the provenance has what it was given, and
// that the same key seals it to the same bytes.
func TestVerify(t *testing.T) {
	dir, key := sealed(t)
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Verify(t.Context(), &key.PublicKey, built().Images)
	if err != nil {
		t.Fatal(err)
	}
	want := built()
	if got.Version != want.Version || got.Registry != want.Registry || got.Commit != want.Commit || got.GoVersion != want.GoVersion || got.Builder != want.Builder {
		t.Errorf("the provenance has %+v, want %+v", got, want)
	}
	again, err := f.sealed(t.Context(), key, built())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range again {
		if have, err := f.Read(name); err != nil || !bytes.Equal(have, data) {
			t.Errorf("%s is another one the second time: %v", name, err)
		}
	}
	found, err := Digest(strings.NewReader(archive(t)))
	if err != nil || found != digest {
		t.Errorf("the digest is %s (%v), want %s", found, err, digest)
	}
}

// TestTampering changes bytes of every file of a folder, the last ones among them: base64 has bits
// there that mean nothing. Each change is noticed, and the error names the file.
func TestTampering(t *testing.T) {
	dir, key := sealed(t)
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range f.Names() {
		data, err := f.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			if i%7 != 0 && i < len(data)-16 {
				continue
			}
			changed := bytes.Clone(data)
			changed[i] ^= 1
			_, err := f.With(name, changed).Verify(t.Context(), &key.PublicKey, built().Images)
			if err == nil {
				t.Fatalf("byte %d of %s was changed from %q, and nothing noticed", i, name, data[i])
			}
			if !strings.Contains(err.Error(), name) && name != SumsName {
				t.Fatalf("byte %d of %s was changed: the error does not name it: %v", i, name, err)
			}
		}
	}
}

// TestKey checks the files of a key, and that a key which others can read, or which can be committed,
// neither is made nor signs.
func TestKey(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "key.pem")
	public, err := NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(PublicName(name))
	if err != nil || filepath.Base(PublicName(name)) != "key.pub" {
		t.Fatalf("%s: %v", PublicName(name), err)
	}
	parsed, err := ParsePublic("key.pub", text)
	if err != nil || !parsed.Equal(public) {
		t.Errorf("another public key: %v", err)
	}
	block, _ := pem.Decode(text)
	if sum, err := Fingerprint(public); err != nil || sum != fmt.Sprintf("%x", sha256.Sum256(block.Bytes)) {
		t.Errorf("fingerprint %s, %v", sum, err)
	}
	fails := func(what, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKey(name)
		fails("readable", fmt.Sprintf("has mode %04o, so others can use it", mode), err)
	}
	clone, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(clone, "go.mod"), []byte("module "+module+"\n"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(clone, link); err != nil {
		t.Fatal(err)
	}
	for _, within := range []string{filepath.Join(clone, "key2.pem"), filepath.Join(clone, "bin", "new", "key.pem"), filepath.Join(link, "key.pem")} {
		_, err := NewKey(within)
		fails(within, " is in the working tree "+clone+", from where it can be committed", err)
		if _, err := os.Stat(within); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was made: %v", within, err)
		}
	}
	if err := errors.Join(os.Chmod(name, 0o600), os.Rename(name, filepath.Join(clone, "key.pem"))); err != nil {
		t.Fatal(err)
	}
	_, err = ReadKey(filepath.Join(clone, "key.pem"))
	fails("moved", "from where it can be committed", err)
	_, err = NewKey(name)
	fails("beside a public key", "key.pub exists: once a key is lost, nothing more can be signed with it", err)
}

// TestOthers checks what else can be wrong: files that are added or missing, another key, another
// image, and a folder without signatures.
func TestOthers(t *testing.T) {
	dir, key := sealed(t)
	other := filepath.Join(t.TempDir(), "other.pem")
	if _, err := NewKey(other); err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(other); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a key was replaced: %v", err)
	}
	stranger, err := ReadKey(other)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, key *ecdsa.PublicKey, images map[string]string) {
		t.Helper()
		f, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Verify(t.Context(), key, images); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	check("signatures/SHA256SUMS.sig: the signature is not by this key", &stranger.PublicKey, built().Images)
	check("signatures/cosign.pub is not the public key that you trust", &stranger.PublicKey, built().Images)
	moved := map[string]string{image: strings.Replace(digest, "0", "f", 1)}
	check("signatures/paddock.payload.json is not the payload of the image", &key.PublicKey, moved)
	write(t, filepath.Join(dir, "bin", "more"), []byte("x"))
	check("bin/more is not in SHA256SUMS: it was added", &key.PublicKey, built().Images)
	if err := os.Remove(filepath.Join(dir, "bin", "paddock")); err != nil {
		t.Fatal(err)
	}
	check("bin/paddock is in SHA256SUMS, and not in the folder", &key.PublicKey, built().Images)
	if err := os.RemoveAll(filepath.Join(dir, "signatures")); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.PublicKey(); err == nil || !strings.Contains(err.Error(), "the folder is not signed") {
		t.Errorf("%v", err)
	}
}

// TestHostile checks folders that are made to fool or to exhaust who reads them. A link to a folder is
// none of these.
func TestHostile(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(name string) error
		want string
	}{
		{SumsName, func(name string) error { return os.Truncate(name, longest+1) }, "SHA256SUMS has 16777217 bytes: that of a release has at most 16777216"},
		{"signatures/SHA256SUMS.sig", func(name string) error { return os.Truncate(name, longest+1) }, "signatures/SHA256SUMS.sig has 16777217 bytes"},
		{SumsName, func(name string) error {
			return os.WriteFile(name, []byte(strings.Repeat("0", 64)+"  a\x1b[2J\n"), 0o600)
		}, `SHA256SUMS has the line "0000`},
		{"bin/link", func(name string) error { return os.Symlink("/dev/zero", name) }, `"bin/link": a release has only regular files`},
		{"bin/a\nb", func(name string) error { return os.WriteFile(name, nil, 0o600) }, `"bin/a\nb": a release has only regular files, without control characters in their names`},
		{".", func(string) error { return nil }, ""},
	} {
		dir, key := sealed(t)
		if err := c.make(filepath.Join(dir, filepath.FromSlash(c.name))); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		f, err := Open(link)
		if err == nil {
			err = errors.Join(f.CheckSums(), f.Trust(&key.PublicKey))
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %s", c.name, err, c.want)
		}
	}
}
