package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	inTotoType    = "application/vnd.in-toto+json"
	spdxPredicate = "https://spdx.dev/Document"
	// unasserted is SPDX's value for properties that were not determined.
	unasserted = "NOASSERTION"
)

// sbomOf returns the bill of materials of a binary as SPDX: the standard library and every module
// that is linked, with its version and its license.
func sbomOf(b binary) ([]byte, error) {
	sum := sha256.Sum256(b.program)
	digest := hex.EncodeToString(sum[:])
	main := library(&linked{Path: b.info.Main.Path, Version: b.version, license: ownLicense}, b.name)
	main.PrimaryPackagePurpose = "APPLICATION"
	main.PackageFileName = "/" + b.name
	main.PackageSourceInfo = "git commit " + b.revision
	main.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
	document := &v2_3.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      b.name + " " + b.version + " " + b.platform.String(),
		DocumentNamespace: "https://" + b.info.Main.Path + "/sbom/" + digest,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "paddock-deploy-image"}},
			Created:  b.time.Format(time.RFC3339),
		},
		Packages:      []*v2_3.Package{main},
		Relationships: []*v2_3.Relationship{related("DOCUMENT", "DESCRIBES", main.PackageSPDXIdentifier)},
	}
	all, err := modules(b)
	if err != nil {
		return nil, err
	}
	for i, m := range all {
		p := library(m, fmt.Sprintf("module-%d", i))
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, related(main.PackageSPDXIdentifier, "CONTAINS", p.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	err = spdxjson.Write(document, &out, spdxjson.Indent("  "))
	return out.Bytes(), err
}

func library(m *linked, id string) *v2_3.Package {
	p := &v2_3.Package{
		PackageName:             m.Path,
		PackageSPDXIdentifier:   common.ElementID("Package-" + id),
		PackageVersion:          m.Version,
		PackageDownloadLocation: unasserted,
		PackageLicenseConcluded: m.license,
		PackageLicenseDeclared:  m.license,
		PackageCopyrightText:    unasserted,
		PrimaryPackagePurpose:   "LIBRARY",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: "PACKAGE-MANAGER", RefType: "purl", Locator: m.packageURL(),
		}},
	}
	if m.sum != "" {
		p.PackageSourceInfo = "go.sum " + m.sum
	}
	return p
}

func related(a common.ElementID, how string, b common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: common.MakeDocElementID("", string(a)), RefB: common.MakeDocElementID("", string(b)), Relationship: how}
}

// inToto returns the statement that a bill of materials belongs to the image with a digest.
func inToto(of v1.Hash, b binary, sbom []byte) ([]byte, error) {
	type subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	return json.Marshal(struct {
		Type          string          `json:"_type"`
		PredicateType string          `json:"predicateType"`
		Subject       []subject       `json:"subject"`
		Predicate     json.RawMessage `json:"predicate"`
	}{
		Type:          "https://in-toto.io/Statement/v0.1",
		PredicateType: spdxPredicate,
		Subject:       []subject{{Name: b.name + " " + b.version, Digest: map[string]string{of.Algorithm: of.Hex}}},
		Predicate:     sbom,
	})
}
