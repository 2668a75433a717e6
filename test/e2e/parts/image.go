package parts

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// writeImage writes an OCI archive of one image with these files. containerd imports the image
// under the name reference.
func writeImage(name, reference string, files []tarFile, entrypoint ...string) error {
	var layer bytes.Buffer
	if err := writeTar(&layer, files); err != nil {
		return err
	}
	type object map[string]any
	var archive []tarFile
	blob := func(mediaType string, data []byte) object {
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		archive = append(archive, tarFile{name: "blobs/sha256/" + digest, data: data})
		return object{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(data)}
	}
	encode := func(o object) []byte {
		data, encodeErr := json.Marshal(o)
		if encodeErr != nil {
			panic(encodeErr) // strings and numbers
		}
		return data
	}
	config := object{}
	if len(entrypoint) > 0 {
		config["Entrypoint"] = entrypoint
	}
	layerBlob := blob("application/vnd.oci.image.layer.v1.tar", layer.Bytes())
	configBlob := blob("application/vnd.oci.image.config.v1+json", encode(object{
		"architecture": "amd64", "os": "linux", "config": config,
		"rootfs": object{"type": "layers", "diff_ids": []any{layerBlob["digest"]}},
	}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", encode(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configBlob, "layers": []object{layerBlob},
	}))
	_, tag, _ := strings.Cut(reference, ":")
	manifest["annotations"] = object{"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag}
	archive = append(archive,
		tarFile{name: "oci-layout", data: encode(object{"imageLayoutVersion": "1.0.0"})},
		tarFile{name: "index.json", data: encode(object{"schemaVersion": 2, "manifests": []object{manifest}})})
	var out bytes.Buffer
	if err := writeTar(&out, archive); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// writeProgram writes an image of one static binary, which is its entry point.
func writeProgram(name, reference, program, binary string) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	return writeImage(name, reference, []tarFile{{name: program, data: data}}, "/"+program)
}

// writeBusybox writes an image of this machine's busybox.
func (m *maker) writeBusybox(ctx context.Context, name string) error {
	data, err := os.ReadFile(shell)
	if err != nil {
		return err
	}
	applets, err := m.applets(ctx)
	if err != nil {
		return err
	}
	files := []tarFile{{name: shell[1:], data: data}}
	for _, applet := range applets {
		files = append(files, tarFile{name: "bin/" + applet, link: shell})
	}
	return writeImage(name, wire.Busybox, files)
}

// tarFile is a program. If link is set, it is a symbolic link to that path.
type tarFile struct {
	name string
	data []byte
	link string
}

func writeTar(out *bytes.Buffer, files []tarFile) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}
