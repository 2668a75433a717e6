package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// cyclonedxOf returns the bill of materials of a binary as CycloneDX, for tools that do not read
// SPDX. It has the same modules as sbomOf, and no random serial number: the same binary gives the
// same bytes.
func cyclonedxOf(b binary) ([]byte, error) {
	sum := sha256.Sum256(b.program)
	main := component(&debug.Module{Path: b.info.Main.Path, Version: b.version})
	main.Type = cyclonedx.ComponentTypeApplication
	main.Name = b.name
	main.Description = b.description
	main.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Properties = &[]cyclonedx.Property{{Name: "git:commit", Value: b.revision}, {Name: "go:platform", Value: b.platform.String()}}
	var components []cyclonedx.Component
	var references []string
	for _, m := range modules(b) {
		c := component(m)
		components = append(components, c)
		references = append(references, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

func component(m *debug.Module) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: packageURL(m), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: packageURL(m),
	}
}

// packageURL returns the package URL of a module (https://github.com/package-url/purl-spec).
func packageURL(m *debug.Module) string {
	return "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
}

// modules returns the standard library and every module that is linked into a binary, with the
// version that was compiled. The modules of this repository have the version of the binary.
func modules(b binary) []*debug.Module {
	all := []*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(b.info.GoVersion, "go")}}
	for _, m := range b.info.Deps {
		if m.Replace != nil && m.Replace.Version == "(devel)" { // The module is a directory of this repository.
			m = &debug.Module{Path: m.Path, Version: b.version}
		}
		for m.Replace != nil {
			m = m.Replace
		}
		all = append(all, m)
	}
	return all
}
