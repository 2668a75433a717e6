package parts

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// writeImage writes an OCI archive of one static binary.
func writeImage(name, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, []tarFile{{"pause", program}}); err != nil {
		return err
	}
	type object map[string]any
	var archive []tarFile
	blob := func(mediaType string, data []byte) object {
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		archive = append(archive, tarFile{"blobs/sha256/" + digest, data})
		return object{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(data)}
	}
	encode := func(o object) []byte {
		data, encodeErr := json.Marshal(o)
		if encodeErr != nil {
			panic(encodeErr) // strings and numbers
		}
		return data
	}
	layerBlob := blob("application/vnd.oci.image.layer.v1.tar", layer.Bytes())
	config := blob("application/vnd.oci.image.config.v1+json", encode(object{
		"architecture": "amd64", "os": "linux", "config": object{"Entrypoint": []string{"/pause"}},
		"rootfs": object{"type": "layers", "diff_ids": []any{layerBlob["digest"]}},
	}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", encode(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []object{layerBlob},
	}))
	manifest["annotations"] = object{"io.containerd.image.name": wire.Image, "org.opencontainers.image.ref.name": "1"}
	archive = append(archive,
		tarFile{"oci-layout", encode(object{"imageLayoutVersion": "1.0.0"})},
		tarFile{"index.json", encode(object{"schemaVersion": 2, "manifests": []object{manifest}})})
	var out bytes.Buffer
	if err := writeTar(&out, archive); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

type tarFile struct {
	name string
	data []byte
}

func writeTar(out *bytes.Buffer, files []tarFile) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}
