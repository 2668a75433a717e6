package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// cyclonedxVersion is the version of the format. Scanners reject one that is newer than themselves,
// and nothing here needs a newer one.
const cyclonedxVersion = cyclonedx.SpecVersion1_6

// cyclonedxOf returns the bill of materials of a binary as CycloneDX, for tools that do not read
// SPDX. It has the same modules as sbomOf, and no random serial number: the same binary gives the
// same bytes.
func cyclonedxOf(b binary) ([]byte, error) {
	sum := sha256.Sum256(b.program)
	main := component(&linked{Path: b.info.Main.Path, Version: b.version, license: ownLicense})
	main.Type = cyclonedx.ComponentTypeApplication
	main.Name = b.name
	main.Description = b.description
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Properties = &[]cyclonedx.Property{{Name: "git:commit", Value: b.revision}, {Name: "go:platform", Value: b.platform.String()}}
	var components []cyclonedx.Component
	var references []string
	all, err := modules(b)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		c := component(m)
		components = append(components, c)
		references = append(references, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	var out bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedxVersion)
	return out.Bytes(), err
}

func component(m *linked) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: m.packageURL(), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: m.packageURL(),
		Licenses: &cyclonedx.Licenses{licenseOf(m)},
	}
}

// licenseOf returns a license by its identifier, and several as an expression. CycloneDX has one of
// the two.
func licenseOf(m *linked) cyclonedx.LicenseChoice {
	if strings.Contains(m.license, " ") {
		return cyclonedx.LicenseChoice{Expression: m.license}
	}
	return cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: m.license}}
}
