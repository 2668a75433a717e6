package apiversions

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Surface returns the exported declarations of the Go files in a directory. It maps the name of
// each, such as "type Policy" or "type Policy, field Moves", to its text. It leaves out tests and
// generated files.
func Surface(dir string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &surface{set: token.NewFileSet(), found: map[string]string{}}
	for _, name := range names {
		if base := filepath.Base(name); strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_generated.") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			s.declaration(d)
		}
	}
	return s.found, nil
}

type surface struct {
	set   *token.FileSet
	found map[string]string
}

// text formats a node on one line.
func (s *surface) text(node any) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, s.set, node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func (s *surface) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return
		}
		name := "func " + d.Name.Name
		if d.Recv != nil {
			name = "method " + s.text(d.Recv.List[0].Type) + "." + d.Name.Name
		}
		s.found[name] = s.text(d.Type)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			s.spec(d.Tok, spec)
		}
	}
}

func (s *surface) spec(kind token.Token, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for i, name := range spec.Names {
			if !name.IsExported() {
				continue
			}
			text := ""
			if i < len(spec.Values) {
				text = s.text(spec.Values[i])
			}
			s.found[kind.String()+" "+name.Name] = text
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		name := "type " + spec.Name.Name
		body, is := spec.Type.(*ast.StructType)
		if !is {
			s.found[name] = s.text(spec.Type)
			return
		}
		s.found[name] = "struct"
		for _, f := range body.Fields.List {
			s.field(name, f)
		}
	}
}

func (s *surface) field(of string, f *ast.Field) {
	text := s.text(f.Type)
	if f.Tag != nil {
		text += " " + f.Tag.Value
	}
	if len(f.Names) == 0 {
		s.found[of+", field "+s.text(f.Type)] = text
	}
	for _, name := range f.Names {
		if name.IsExported() {
			s.found[of+", field "+name.Name] = text
		}
	}
}

// Format writes a surface with one declaration on each line.
func Format(surface map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(surface)) {
		fmt.Fprintf(&out, "%s: %s\n", name, surface[name])
	}
	return out.String()
}

// Parse reads what Format wrote.
func Parse(text string) (map[string]string, error) {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, what, is := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !is {
			return nil, fmt.Errorf("%q: expected NAME: TEXT", line)
		}
		found[name] = what
	}
	return found, nil
}

// Broken lists what a surface no longer has of an earlier one. The list is empty if programs that
// compile with the earlier surface compile with this one, and if each can read what the other one
// writes.
func Broken(was, is map[string]string) []string {
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		switch now, there := is[name]; {
		case !there:
			broken = append(broken, name+" is missing")
		case now != was[name]:
			broken = append(broken, fmt.Sprintf("%s was %s, and is %s", name, was[name], now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		of, _, field := strings.Cut(name, ", field ")
		_, known := was[name]
		if _, old := was[of]; field && old && !known && !strings.Contains(is[name], ",omit") {
			broken = append(broken, name+" is new and not optional: give it omitempty or omitzero")
		}
	}
	return broken
}
