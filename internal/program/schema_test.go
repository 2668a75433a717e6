package program

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/docs/rules"
	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/silencer"
	"github.com/paddock-project/paddock/internal/ui/view"
)

var rewrite = flag.Bool("rewrite", false, "write the published schemas from the types of the documents")

// documents are the documents that commands print with -o json.
var documents = []struct {
	command string
	kind    console.Kind
	of      reflect.Type
}{
	{"plan", console.Plan, reflect.TypeFor[view.Plan]()},
	{"explain", console.Explanation, reflect.TypeFor[view.Explanation]()},
	{"report", console.Report, reflect.TypeFor[view.Report]()},
	{"trust", console.Trust, reflect.TypeFor[view.Trust]()},
	{"map", console.Map, reflect.TypeFor[mapped]()},
	{"defragment", console.Defragmentation, reflect.TypeFor[view.Defragmentation]()},
	{"check-config", console.ConfigurationCheck, reflect.TypeFor[checked]()},
	{"upgrade-check", console.UpgradeCheck, reflect.TypeFor[stateview.Upgrade]()},
	{"state show", console.StateList, reflect.TypeFor[[]*stateview.State]()},
	{"state verify", console.StateCheck, reflect.TypeFor[stateview.Verified]()},
	{"state diff", console.StateDifference, reflect.TypeFor[stateview.Diff]()},
	{"verify", console.NodeCheck, reflect.TypeFor[agent.Verified]()},
	{"noise", console.NodeNoise, reflect.TypeFor[noise.Report]()},
	{"quiet status", console.QuietStatus, reflect.TypeFor[silencer.Status]()},
	{"fleet", console.Fleet, reflect.TypeFor[view.Fleet]()},
	{"fleet size", console.FleetSizes, reflect.TypeFor[[]view.Fleet]()},
	{"fleet try", console.FleetTrials, reflect.TypeFor[[]view.Trial]()},
	{"fleet largest", console.FleetLargest, reflect.TypeFor[view.FleetLargest]()},
	{"fleet rejections", console.FleetRejections, reflect.TypeFor[view.FleetRejections]()},
	{"rule", console.RuleList, reflect.TypeFor[[]rules.Rule]()},
	{"version", console.Version, reflect.TypeFor[build.Edition]()},
}

// TestSchemas checks that the published schemas are those of the documents, and that there are no
// others. The descriptions are the comments of the fields, with the names that the fields have in a
// document.
func TestSchemas(t *testing.T) {
	published, err := filepath.Glob("../../docs/schemas/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		path := "../../docs/schemas/" + strings.ReplaceAll(d.command, " ", "-") + ".json"
		published = slices.DeleteFunc(published, func(name string) bool { return name == path })
		want := schemaOf(t, d.command, d.kind, d.of)
		if *rewrite {
			if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // The file is published.
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not the schema of the document (error %v): run go test ./internal/program -run TestSchemas -rewrite, and read the difference", path, err)
		}
	}
	if len(published) > 0 {
		t.Errorf("%v are the schemas of no document", published)
	}
}

// schemaOf returns the schema of what a command prints.
func schemaOf(t *testing.T, command string, kind console.Kind, of reflect.Type) []byte {
	t.Helper()
	d := document{comments: map[string]map[string]string{}}
	object := fields{{"type", "object"}, {"required", []string{"items"}}, {"properties", fields{}}}
	if of.Kind() == reflect.Slice {
		object[2].value = fields{{"items", d.schema(t, of, "")}}
	} else {
		object = d.object(t, of)
	}
	required, is := object[1].value.([]string)
	properties, are := object[2].value.(fields)
	if !is || !are {
		t.Fatalf("the schema of %s is no object", of)
	}
	object[1].value = append([]string{"apiVersion", "kind"}, required...)
	object[2].value = append(fields{{"apiVersion", fields{{"const", v1alpha1.GroupVersion.String()}}}, {"kind", fields{{"const", kind}}}}, properties...)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(append(fields{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "paddock " + command + " -o json"}}, object...)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fields is a JSON object with its members in order.
type fields []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (f fields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, x := range f {
		if i > 0 {
			out.WriteByte(',')
		}
		for k, part := range []any{x.name, x.value} {
			if k > 0 {
				out.WriteByte(':')
			}
			encoder := json.NewEncoder(&out)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(part); err != nil {
				return nil, err
			}
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// document makes a schema. comments maps "package path.type" to the comments of the fields.
type document struct{ comments map[string]map[string]string }

// schema returns the schema of a value of a type, with a description.
func (d document) schema(t *testing.T, of reflect.Type, description string) fields {
	t.Helper()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var s fields
	text := reflect.TypeFor[encoding.TextMarshaler]()
	switch kind := of.Kind(); {
	case of.Implements(text) || reflect.PointerTo(of).Implements(text) || kind == reflect.String:
		s = fields{{"type", "string"}}
	case kind == reflect.Bool:
		s = fields{{"type", "boolean"}}
	case kind >= reflect.Int && kind <= reflect.Uint64:
		s = fields{{"type", "integer"}}
	case kind == reflect.Float64:
		s = fields{{"type", "number"}}
	case kind == reflect.Slice:
		s = fields{{"type", "array"}, {"items", d.schema(t, of.Elem(), "")}}
	case kind == reflect.Map:
		s = fields{{"type", "object"}, {"additionalProperties", d.schema(t, of.Elem(), "")}}
	case kind == reflect.Struct:
		s = d.object(t, of)
	default:
		t.Fatalf("%s has no schema", of)
	}
	if description == "" {
		return s
	}
	return append(fields{s[0], {"description", description}}, s[1:]...)
}

// object returns the schema of a struct. Fields of embedded structs are its own.
func (d document) object(t *testing.T, of reflect.Type) fields {
	t.Helper()
	required := []string{}
	properties := fields{}
	var add func(of reflect.Type)
	add = func(of reflect.Type) {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		comments := d.of(t, of)
		for f := range of.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				add(f.Type)
				continue
			case name == "" || name == "-":
				continue
			case !strings.Contains(options, "omit"):
				required = append(required, name)
			}
			properties = append(properties, field{name, d.schema(t, f.Type, inDocument(of, comments[f.Name]))})
		}
	}
	add(of)
	return fields{{"type", "object"}, {"required", required}, {"properties", properties}}
}

var word = regexp.MustCompile(`\b[A-Z][A-Za-z]*\b`)

// inDocument returns the comment of a field with the names that fields have in a document.
func inDocument(of reflect.Type, comment string) string {
	text := word.ReplaceAllStringFunc(comment, func(name string) string {
		f, is := of.FieldByName(name)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); is && tag != "" {
			return tag
		}
		return name
	})
	return strings.TrimSpace(strings.NewReplacer("\n", " ", " is nil ", " is absent ", "If nil,", "If absent,").Replace(text))
}

// of returns the comments of the fields of a type of this module.
func (d document) of(t *testing.T, of reflect.Type) map[string]string {
	t.Helper()
	key := of.PkgPath() + "." + of.Name()
	if known, is := d.comments[key]; is {
		return known
	}
	found := map[string]string{}
	d.comments[key] = found
	_, dir, _ := strings.Cut(of.PkgPath(), "paddock-project/paddock/")
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of %s: %v", of.PkgPath(), err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is || spec.Name.Name != of.Name() {
				return true
			}
			if s, is := spec.Type.(*ast.StructType); is {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						found[name.Name] = f.Doc.Text() + f.Comment.Text()
					}
				}
			}
			return false
		})
	}
	return found
}
