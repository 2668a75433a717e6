// Package arch tests the rules of this repository: which package may import which, which packages
// may print, how large a file may be, which words users read, and that every rule that is named is
// defined in docs/rules. It has tests only.
//
// A failure names the file, the violation, the rule, and where the code belongs. The path of a new
// package determines its floor. A new package of the core also needs a row in rooms_test.go. An
// exception to a limit is a line in exceptions_test.go with its reason.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/paddock-project/paddock"

// goFile is one Go file of this module. Its path is relative to the root of the repository and has
// slashes.
type goFile struct {
	path    string
	test    bool
	text    string
	set     *token.FileSet
	syntax  *ast.File
	imports []string
}

// dir returns the directory of the package, e.g. "internal/core/cpu" or "cmd/paddock".
func (f *goFile) dir() string { return path.Dir(f.path) }

// generated reports whether the file is generated, as the go command defines it.
func (f *goFile) generated() bool { return ast.IsGenerated(f.syntax) }

// textFile is one text file.
type textFile struct {
	path string
	text string
}

type tree struct {
	goFiles []*goFile
	texts   []textFile
}

// repository returns the tree that contains this package. It is read once for all tests.
var repository = sync.OnceValues(func() (tree, error) { return readTree("../..") })

func load(t *testing.T) tree {
	t.Helper()
	tr, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// nested are the modules of the Go API, relative to the root of the repository. The rules for the
// main module apply to them too.
var nested = []string{"api", "internal/core", "predict"}

// readTree reads every text and Go file under root. It skips directories that git ignores. A
// directory with its own go.mod is another module, of which only the text is read, unless it is one
// of nested.
func readTree(root string) (tree, error) {
	var tr tree
	otherModules := []string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			return enterDir(name, rel, &otherModules)
		}
		if !d.Type().IsRegular() || !isText(rel) {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		tr.texts = append(tr.texts, textFile{rel, string(b)})
		foreign := slices.ContainsFunc(otherModules, func(m string) bool { return strings.HasPrefix(rel, m+"/") })
		if foreign || !strings.HasSuffix(rel, ".go") || inTestdata(rel) {
			return nil
		}
		f, err := parse(rel, string(b))
		tr.goFiles = append(tr.goFiles, f)
		return err
	})
	return tr, err
}

func enterDir(name, rel string, otherModules *[]string) error {
	switch rel {
	case ".":
		return nil
	case ".git", "bin", ".tools", ".idea", ".vscode", "site/node_modules", "site/pages", "site/.vitepress/cache":
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && !slices.Contains(nested, rel) {
		*otherModules = append(*otherModules, rel)
	}
	return nil
}

func parse(rel, text string) (*goFile, error) {
	f := &goFile{path: rel, test: strings.HasSuffix(rel, "_test.go"), text: text, set: token.NewFileSet()}
	var err error
	f.syntax, err = parser.ParseFile(f.set, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, spec := range f.syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		f.imports = append(f.imports, name)
	}
	return f, nil
}

func isText(rel string) bool {
	switch path.Ext(rel) {
	case ".go", ".md", ".mod", ".yaml", ".yml", ".txt", ".sh", ".toml", ".html", ".css", ".js", ".args":
		return true
	case ".json":
		return !inTestdata(rel)
	}
	return slices.Contains([]string{"Makefile", "Dockerfile", "NOTICE", ".ci/run", ".gitignore", ".gitattributes", ".editorconfig"}, rel) ||
		path.Base(rel) == "Dockerfile"
}

func inTestdata(rel string) bool {
	return strings.HasPrefix(rel, "testdata/") || strings.Contains(rel, "/testdata/")
}
