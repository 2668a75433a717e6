package program

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cli/stateview"
)

// schema is the part of a JSON schema that describes Go types.
type schema struct {
	Type       string
	Const      string
	Required   []string
	Properties map[string]*schema
	Items      *schema
}

// TestUpgradeHasItsSchema checks that the published schema has the fields of the document, with
// their types, and that fields that can be absent are not required.
func TestUpgradeHasItsSchema(t *testing.T) {
	data, err := os.ReadFile("../../docs/schemas/upgrade-check.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.Properties["apiVersion"].Const != v1alpha1.GroupVersion.String() || s.Properties["kind"].Const != stateview.KindUpgradeCheck {
		t.Errorf("apiVersion %q and kind %q are not those of the document", s.Properties["apiVersion"].Const, s.Properties["kind"].Const)
	}
	compareSchema(t, "", &s, reflect.TypeFor[stateview.Upgrade]())
	if s.Properties["pods"].Items.Properties["why"].Items.Properties["id"] == nil {
		t.Error("the schema ends before the reasons of pods")
	}
}

func compareSchema(t *testing.T, path string, s *schema, of reflect.Type) {
	t.Helper()
	if s == nil {
		t.Errorf("%s is not in the schema", path)
		return
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Uint64: "integer", reflect.Slice: "array", reflect.Struct: "object",
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if s.Const == "" && s.Type != kinds[of.Kind()] {
		t.Errorf("%s is %q in the schema and a %s here", path, s.Type, of.Kind())
	}
	if of.Kind() == reflect.Slice {
		compareSchema(t, path+"[]", s.Items, of.Elem())
	}
	if of.Kind() != reflect.Struct {
		return
	}
	fields := 0
	for f := range of.Fields() {
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		fields++
		compareSchema(t, path+"."+name, s.Properties[name], f.Type)
		if optional := tagged && options == "omitempty"; optional == slices.Contains(s.Required, name) {
			t.Errorf("%s.%s: required is %t in the schema", path, name, !optional)
		}
	}
	if fields != len(s.Properties) {
		t.Errorf("%s has %d fields and %d in the schema", path, fields, len(s.Properties))
	}
}
