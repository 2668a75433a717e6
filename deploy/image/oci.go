package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// built is an index with one image for each binary, and their bills of materials.
type built struct {
	index v1.ImageIndex
	sboms []materials // one for each binary, in the same order
}

// assemble returns the index of the binaries. Its result depends only on them, not on the clock or
// the environment.
func assemble(binaries []binary) (built, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var sboms []materials
	var images, statements []mutate.IndexAddendum
	for _, b := range binaries {
		img, err := imageOf(b)
		if err != nil {
			return built{}, err
		}
		sbom, err := materialsOf(b)
		if err != nil {
			return built{}, err
		}
		images = append(images, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &b.platform}})
		statement, err := statementOf(img, b, sbom.spdx)
		if err != nil {
			return built{}, err
		}
		statements = append(statements, statement)
		sboms = append(sboms, sbom)
	}
	index = mutate.AppendManifests(index, append(images, statements...)...)
	annotated := mutate.Annotations(index, labels(binaries[0])).(v1.ImageIndex) //nolint:errcheck // an index gives an index
	return built{index: annotated, sboms: sboms}, nil
}

// labels returns the labels of an image, which are the same on every platform.
func labels(b binary) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       b.name,
		"org.opencontainers.image.description": b.description,
		"org.opencontainers.image.licenses":    ownLicense,
		"org.opencontainers.image.source":      "https://" + strings.TrimSuffix(b.info.Main.Path, "/"+b.module),
		"org.opencontainers.image.version":     b.version,
		"org.opencontainers.image.revision":    b.revision,
		"org.opencontainers.image.created":     b.time.Format(time.RFC3339),
	}
}

// imageOf returns an image that has only the binary and the licenses of what it links: no shell, no
// package, no user database.
func imageOf(b binary) (v1.Image, error) {
	layer, err := layerOf(b)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: b.platform.Architecture,
		OS:           b.platform.OS,
		Created:      v1.Time{Time: b.time},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       b.user,
			Entrypoint: []string{"/" + b.name},
			Cmd:        []string{"--help"},
			Labels:     labels(b),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "deploy/image", Comment: "the binary and its licenses, without a base image"},
	})
}

// licensesIn returns the name of the file in the image that has the licenses of what a command links.
func licensesIn(c command) string { return "licenses/" + path.Base(c.main) + ".txt" }

func layerOf(b binary) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, m := range []member{{b.name, 0o755, b.program}, {"licenses/", 0o755, nil}, {licensesIn(b.command), 0o644, b.texts}} {
		if err := m.write(w, b.time); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// statementOf adds a bill of materials to the index as BuildKit does: as a manifest for the
// platform "unknown" that names the image's digest. Runtimes ignore it, and it is copied with the
// index.
func statementOf(img v1.Image, b binary, sbom []byte) (mutate.IndexAddendum, error) {
	of, err := partial.Descriptor(img)
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	statement, err := inToto(of.Digest, b, sbom)
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	unknown := v1.Platform{OS: "unknown", Architecture: "unknown"}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{Architecture: unknown.Architecture, OS: unknown.OS, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	attached, err := mutate.Append(base, mutate.Addendum{
		Layer:       static.NewLayer(statement, inTotoType),
		Annotations: map[string]string{"in-toto.io/predicate-type": spdxPredicate},
	})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	return mutate.IndexAddendum{Add: attached, Descriptor: v1.Descriptor{
		Platform: &unknown,
		Annotations: map[string]string{
			"vnd.docker.reference.type":   "attestation-manifest",
			"vnd.docker.reference.digest": of.Digest.String(),
		},
	}}, nil
}
