package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var (
	// nodes are the platforms of the images.
	nodes = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
	// desks are the platforms on which kubectl runs.
	desks = slices.Concat(nodes, []v1.Platform{{OS: "darwin", Architecture: "amd64"}, {OS: "darwin", Architecture: "arm64"}})
)

// pluginArchive is the archive of the kubectl plugin for one platform.
type pluginArchive struct {
	v1.Platform
	Name, SHA256 string
}

// writeKrew writes an archive for each platform of desks to dir, and the manifest with their
// checksums. It returns the programs in the archives.
func writeKrew(ctx context.Context, repository, work, dir string) ([]binary, error) {
	binaries, err := build(ctx, desk, repository, work, desks)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(work, "source", "LICENSE"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	version := binaries[0].version
	var archives []pluginArchive
	for _, b := range binaries {
		packed, err := packPlugin(b, license)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(packed)
		// Some servers treat "+" in a URL as a space.
		name := strings.ReplaceAll(fmt.Sprintf("kubectl-paddock_%s_%s_%s.tar.gz", version, b.platform.OS, b.platform.Architecture), "+", "-")
		archives = append(archives, pluginArchive{b.platform, name, hex.EncodeToString(sum[:])})
		if err := os.WriteFile(filepath.Join(dir, name), packed, 0o644); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(filepath.Join(work, "source", "deploy", "krew", "paddock.yaml"))
	if err != nil {
		return nil, err
	}
	manifest, err := template.New("paddock.yaml").Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	if err := manifest.Execute(&filled, map[string]any{"Version": version, "Archives": archives}); err != nil {
		return nil, err
	}
	return binaries, os.WriteFile(filepath.Join(dir, "paddock.yaml"), filled.Bytes(), 0o644)
}

func packPlugin(b binary, license []byte) ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, m := range []member{{"kubectl-paddock", 0o755, b.program}, {"LICENSE", 0o644, license}, {"licenses.txt", 0o644, b.texts}} {
		if err := m.write(w, b.time); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressed.Close())
	return packed.Bytes(), err
}
