package apiversions_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/testing/apiversions"
)

// TestBroken checks which changes of a Go API are reported.
func TestBroken(t *testing.T) {
	was := map[string]string{
		"const A": `"a"`, "func F": "func(int) error", "type S": "struct", "type S, field X": "string `json:\"x\"`",
		"type S, field Y": "int32 `json:\"y,omitempty\"`",
	}
	for _, c := range []struct{ name, text, want string }{
		{"type S, field Z", "string `json:\"z,omitempty\"`", ""},
		{"type S, field Z", "Other `json:\"z,omitzero\"`", ""},
		{"type T", "struct", ""},
		{"const B", `"b"`, ""},
		{"type S, field Z", "string `json:\"z\"`", "type S, field Z is new and not optional: give it omitempty or omitzero"},
		{"type S, field X", "string `json:\"ex\"`", "type S, field X was string `json:\"x\"`, and is string `json:\"ex\"`"},
		{"type S, field Y", "int64 `json:\"y,omitempty\"`", "type S, field Y was int32 `json:\"y,omitempty\"`, and is int64 `json:\"y,omitempty\"`"},
		{"const A", "", "const A is missing"},
		{"func F", "func(int)", "func F was func(int) error, and is func(int)"},
	} {
		is := maps.Clone(was)
		is[c.name] = c.text
		if c.text == "" {
			delete(is, c.name)
		}
		if got := strings.Join(apiversions.Broken(was, is), "\n"); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

const small = `kind: CustomResourceDefinition
spec:
  group: example.org
  scope: Cluster
  names: {kind: Thing, plural: things, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Age, type: date, jsonPath: .age}]
    schema:
      openAPIV3Schema:
        type: object
        required: [a]
        properties:
          a: {type: string, enum: [k, m], description: a word}
          list: {type: array, items: {type: object, properties: {size: {type: integer, minimum: 0}}}}
          map: {type: object, additionalProperties: {type: string}}
`

// TestNarrowed checks which changes of a definition are reported.
func TestNarrowed(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"description: a word", "description: another word", ""},
		{"properties: {size:", "properties: {m: {type: string}, size:", ""},
		{"additionalPrinterColumns: [", "additionalPrinterColumns: [{name: More, type: string, jsonPath: .a}, ", ""},
		{"enum: [k, m]", "enum: [k]", "v1.a enum was [k m], and is [k]"},
		{"enum: [k, m]", "enum: [k, m, z]", "v1.a enum was [k m], and is [k m z]"},
		{"required: [a]", "required: [a, list]", "v1 required was [a], and is [a list]"},
		{"minimum: 0", "minimum: 1", "v1.list.items.size minimum was 0, and is 1"},
		{"size: {type: integer", "size: {type: string", "v1.list.items.size type was integer, and is string"},
		{"          map:", "          other:", "v1.map is missing"},
		{"additionalProperties: {type: string}", "additionalProperties: {type: integer}", "v1.map.additionalProperties type was string, and is integer"},
		{"[{name: Age, type: date, jsonPath: .age}]", "[]", "v1.additionalPrinterColumns: map[jsonPath:.age name:Age type:date] is missing"},
		{"served: true", "served: false", "the version v1 is not served"},
		{"plural: things", "plural: them", "spec.names.plural was things, and is them"},
		{"scope: Cluster", "scope: Namespaced", "spec.scope was Cluster, and is Namespaced"},
		{"maximum", "", ""},
		{"type: array, items", "type: array, maxItems: 3, items", "v1.list maxItems was <nil>, and is 3"},
	} {
		is := parsed(t, []byte(strings.Replace(small, c.old, c.new, 1)))
		if got := strings.Join(apiversions.Narrowed(parsed(t, []byte(small)), is), "\n"); got != c.want {
			t.Errorf("%s instead of %s: %q, want %q", c.new, c.old, got, c.want)
		}
	}
}

// TestDiffering checks that versions with different schemas are reported, and a webhook.
func TestDiffering(t *testing.T) {
	next, err := parsed(t, []byte(small)).Next("v2", "v2")
	if err != nil {
		t.Fatal(err)
	}
	if d := apiversions.Differing(next); len(d) != 0 {
		t.Errorf("the next version differs: %q", d)
	}
	if served, err := next.Served(map[string]any{"kind": "Thing", "a": "k", "unknown": true}, "v2"); err != nil || len(served) != 4 || served["apiVersion"] != "example.org/v2" {
		t.Errorf("an object in the next version is %v: %v", served, err)
	}
	if _, err := next.Served(map[string]any{}, "v3"); err == nil {
		t.Error("a version that is not there is served")
	}
	two := func(from, to string) string {
		_, version, _ := strings.Cut(small, "  versions:\n")
		other := strings.NewReplacer("name: v1", "name: v2", "storage: true", "storage: false").Replace(version)
		return small + strings.Replace(other, from, to, 1)
	}
	const last = "          map: {type: object, additionalProperties: {type: string}}\n"
	for _, c := range []struct{ text, want string }{
		{two("", ""), ""},
		{two("enum: [k, m]", "enum: [k]"), "v2.a enum was [k m], and is [k]\nv1.a enum was [k], and is [k m]"},
		{two(last, ""), "v2.map is missing"},
		{two(last, last+"          more: {type: string}\n"), "v1.more is missing"},
		{two("storage: false", "storage: true"), "2 versions are stored, expected one"},
		{strings.Replace(small, "  scope:", "  conversion: {strategy: Webhook}\n  scope:", 1), "spec.conversion.strategy is Webhook, expected None"},
	} {
		if got := strings.Join(apiversions.Differing(parsed(t, []byte(c.text))), "\n"); got != c.want {
			t.Errorf("%q, want %q, for\n%s", got, c.want, c.text)
		}
	}
}
