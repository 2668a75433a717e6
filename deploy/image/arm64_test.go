package main

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestARM64 checks that the programs compile for arm64, as far as the types tell. It reads the
// source of everything that they link, which takes seconds where compiling takes minutes.
func TestARM64(t *testing.T) {
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
		Dir:  "../..",
		Env:  append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0"),
	}
	found, err := packages.Load(config, "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	packages.Visit(found, nil, func(p *packages.Package) {
		n++
		for _, err := range p.Errors {
			t.Error(err)
		}
	})
	if n < 500 {
		t.Errorf("%d packages, expected all of two programs", n)
	}
}
