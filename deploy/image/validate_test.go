package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// TestBillOfMaterials checks both bills of materials of the smallest program: every module has a
// license, and both documents keep the rules of their formats.
func TestBillOfMaterials(t *testing.T) {
	name := filepath.Join(t.TempDir(), "paddock-quiet")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", name, "./"+quiet.main)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := binary{
		command: quiet, platform: v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH},
		version: "v0.1.0", revision: "0123456789abcdef0123456789abcdef01234567", time: time.Unix(1, 0).UTC(), licenses: map[string]string{},
	}
	var err error
	if b.info, err = buildinfo.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	found, err := b.command.licenses(t.Context(), "../..", b.platform)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		b.licenses[m.Path] = m.Expression()
	}
	m, err := materialsOf(b)
	if err != nil {
		t.Fatal(err)
	}
	spdx, cyclonedx := validSPDX(t, m.spdx), validCycloneDX(t, m.cyclonedx)
	if !slices.Equal(spdx, cyclonedx) || len(spdx) < 10 {
		t.Errorf("SPDX has the modules\n%q\nand CycloneDX\n%q", spdx, cyclonedx)
	}
	for path, want := range map[string]string{"stdlib": "BSD-3-Clause", "sigs.k8s.io/yaml": "Apache-2.0 AND BSD-3-Clause AND MIT", root + "/internal/core": ownLicense} {
		if !slices.ContainsFunc(spdx, func(m string) bool { return strings.HasPrefix(m, path+"@") && strings.HasSuffix(m, " "+want) }) {
			t.Errorf("%s does not have the license %s: %q", path, want, spdx)
		}
	}
	if err := matchesSchema(bytes.Replace(m.cyclonedx, []byte(`"id": "BSD-3-Clause"`), []byte(`"id": "BSD"`), 1), "1.6"); err == nil {
		t.Error("the schema has a license BSD")
	}
	delete(b.licenses, "google.golang.org/grpc")
	if _, err := materialsOf(b); err == nil || !strings.Contains(err.Error(), "links google.golang.org/grpc v") {
		t.Errorf("a module without a license: %v", err)
	}
}

// identifiers returns the identifiers of licenses of SPDX, from the schema beside that of CycloneDX.
var identifiers = sync.OnceValues(func() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(schemaDir(), "spdx.schema.json"))
	if err != nil {
		return nil, err
	}
	var schema struct{ Enum []string }
	err = json.Unmarshal(text, &schema)
	return schema.Enum, err
})

// schemaDir is where the module of CycloneDX has the schemas of the format.
var schemaDir = sync.OnceValue(func() string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output() //nolint:noctx // it ends by itself
	if err != nil {
		panic(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "schema")
})

// checkExpression checks an expression of licenses as the bills of materials have them.
func checkExpression(expression string) error {
	known, err := identifiers()
	if err != nil {
		return err
	}
	for id := range strings.SplitSeq(expression, " AND ") {
		if !slices.Contains(known, id) {
			return fmt.Errorf("%q in %q is not an identifier of SPDX", id, expression)
		}
	}
	return nil
}

var (
	elementID = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	purl      = regexp.MustCompile(`^pkg:golang/[^@\s+]+@[^@\s+]+$`)
)

// validSPDX checks a document against the rules of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/)
// for the fields that it has, and returns each module with its version and its license.
func validSPDX(t *testing.T, text []byte) (modules []string) {
	t.Helper()
	document, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	if document.SPDXVersion != "SPDX-2.3" || document.DataLicense != "CC0-1.0" || document.SPDXIdentifier != "DOCUMENT" || document.DocumentName == "" ||
		!strings.HasPrefix(document.DocumentNamespace, "https://") || strings.Contains(document.DocumentNamespace, "#") || len(document.CreationInfo.Creators) == 0 {
		t.Errorf("the document is %+v", document)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", document.CreationInfo.Created); err != nil {
		t.Errorf("created: %v", err)
	}
	ids := map[string]bool{}
	for i, p := range document.Packages {
		id := string(p.PackageSPDXIdentifier)
		if !elementID.MatchString(id) || ids[id] {
			t.Errorf("package %s has the identifier %q", p.PackageName, id)
		}
		ids[id] = true
		checkPackage(t, p)
		if i > 0 {
			modules = append(modules, p.PackageName+"@"+p.PackageVersion+" "+p.PackageLicenseConcluded)
		}
	}
	if described := document.Relationships[0]; described.Relationship != "DESCRIBES" || len(document.Relationships) != len(document.Packages) {
		t.Errorf("%d packages, %d relationships, the first is %+v", len(document.Packages), len(document.Relationships), described)
	}
	return modules
}

func checkPackage(t *testing.T, p *v2_3.Package) {
	t.Helper()
	if p.PackageName == "" || p.PackageVersion == "" || p.PackageDownloadLocation == "" || p.PackageCopyrightText == "" {
		t.Errorf("a field is missing: %+v", p)
	}
	// The files of a package are not listed, so it has no code over them.
	if p.FilesAnalyzed || p.PackageVerificationCode != nil && p.PackageVerificationCode.Value != "" {
		t.Errorf("%s: its files are analyzed: %+v", p.PackageName, p.PackageVerificationCode)
	}
	if err := checkExpression(p.PackageLicenseConcluded); err != nil || p.PackageLicenseDeclared != p.PackageLicenseConcluded {
		t.Errorf("%s has the license %q, declared %q: %v", p.PackageName, p.PackageLicenseConcluded, p.PackageLicenseDeclared, err)
	}
	for _, r := range p.PackageExternalReferences {
		if r.Category != "PACKAGE-MANAGER" || r.RefType != "purl" || !purl.MatchString(r.Locator) {
			t.Errorf("%s has the reference %+v", p.PackageName, r)
		}
	}
}

// validCycloneDX checks a document against the schema of its version, and returns each module with
// its version and its license.
func validCycloneDX(t *testing.T, text []byte) (modules []string) {
	t.Helper()
	var document struct {
		SpecVersion string
		Metadata    struct{ Component listed }
		Components  []listed
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if err := matchesSchema(text, document.SpecVersion); err != nil {
		t.Error(err)
	}
	for _, c := range document.Components {
		modules = append(modules, c.Name+"@"+c.Version+" "+c.license(t))
	}
	if got := document.Metadata.Component.license(t); got != ownLicense {
		t.Errorf("the program has the license %s", got)
	}
	return modules
}

// matchesSchema checks a document against the schema of a version of CycloneDX.
func matchesSchema(text []byte, version string) error {
	compiler := jsonschema.NewCompiler()
	const at = "http://cyclonedx.org/schema/"
	bom := "bom-" + version + ".schema.json"
	for name, file := range map[string]string{bom: bom, "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		text, err := os.ReadFile(filepath.Join(schemaDir(), file))
		if err != nil {
			return err
		}
		part, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err := errors.Join(err, compiler.AddResource(at+name, part)); err != nil {
			return err
		}
	}
	schema, err := compiler.Compile(at + bom)
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

type listed struct {
	Name, Version string
	Licenses      []struct {
		License    struct{ ID string }
		Expression string
	}
}

// license returns the license of a component.
func (c listed) license(t *testing.T) string {
	t.Helper()
	if len(c.Licenses) != 1 {
		t.Errorf("%s has %d licenses", c.Name, len(c.Licenses))
		return ""
	}
	license := c.Licenses[0].License.ID + c.Licenses[0].Expression
	if err := checkExpression(license); err != nil {
		t.Errorf("%s: %v", c.Name, err)
	}
	return license
}
