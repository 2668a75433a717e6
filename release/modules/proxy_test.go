package modules

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"strings"
	"testing"
)

// TestUnzip checks zips that are not those of a module: none makes the reader panic, or read more than
// the go command would.
func TestUnzip(t *testing.T) {
	const root = "example.org/m@v0.1.0/"
	text := []byte("text")
	for _, c := range []struct {
		name string
		size uint64
		want string
	}{
		{root + "a", 4, ""},
		{root + "a", 1 << 62, "the files of example.org/m v0.1.0 have more than 524288000 bytes"},
		{root + "a", 3, "zip: "},
		{root + "a", 5, "unexpected EOF"},
		{root + "../../a", 4, "../../a"},
		{root + "/a", 4, "//a"},
		{"a", 4, "the zip of example.org/m v0.1.0 has the file a"},
	} {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		f, err := w.CreateRaw(&zip.FileHeader{Name: c.name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(text), CompressedSize64: uint64(len(text)), UncompressedSize64: c.size})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := Module{Path: "example.org/m"}.Unzip(out.Bytes(), "v0.1.0")
		if c.want == "" && (err != nil || string(files["a"]) != "text") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %d bytes: %q, %v, want %s", c.name, c.size, files, err, c.want)
		}
	}
	if _, err := (Module{Path: "example.org/m"}).Unzip(text, "v0.1.0"); err == nil {
		t.Error("text is a zip")
	}
}
