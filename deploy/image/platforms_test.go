package main

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherPlatforms checks that the programs compile for arm64, and the client for macOS, as far as
// the types tell. It reads the source of everything that they link, which takes seconds where
// compiling takes minutes.
func TestOtherPlatforms(t *testing.T) {
	for _, c := range []struct {
		platform, programs string
		env                []string
	}{
		{"linux/arm64", "./cmd/...", []string{"GOOS=linux", "GOARCH=arm64"}},
		{"darwin/arm64", "./cmd/paddock", []string{"GOOS=darwin", "GOARCH=arm64"}},
	} {
		t.Run(c.platform, func(t *testing.T) {
			config := &packages.Config{
				Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
				Dir:  "../..",
				Env:  append(append(os.Environ(), c.env...), "CGO_ENABLED=0"),
			}
			found, err := packages.Load(config, c.programs)
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
				t.Errorf("%d packages, expected all of a program", n)
			}
		})
	}
}
