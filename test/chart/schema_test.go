package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

// free are the values that the chart passes on, so that another program knows their fields: the
// kubelet's configuration, an inventory, the configurations of paddock quiet and of kube-scheduler.
// Helm passes global to every chart.
var free = []string{"global", "policy", "devices", "scheduler.config", "quiet.config", "groups.NAME.policy", "groups.NAME.devices"}

// schemas is a JSON schema, as far as the chart uses it.
type schemas map[string]any

// walk calls visit with each schema below one, and the path of its value. Names that users choose
// are NAME, and members of lists are 0.
func (root schemas) walk(at string, s map[string]any, visit func(path string, s map[string]any)) {
	if ref, is := s["$ref"].(string); is {
		s = inner(inner(root, "$defs"), strings.TrimPrefix(ref, "#/$defs/"))
	}
	visit(at, s)
	below := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	for name := range inner(s, "properties") {
		root.walk(below(name), inner(inner(s, "properties"), name), visit)
	}
	if other := inner(s, "additionalProperties"); other != nil {
		root.walk(below("NAME"), other, visit)
	}
	if items := inner(s, "items"); items != nil {
		root.walk(below("0"), items, visit)
	}
}

func readSchema(t *testing.T) schemas {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(directory, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s schemas
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// bad returns a value that a schema must reject.
func bad(s map[string]any) any {
	if s["enum"] != nil {
		return "no such word"
	}
	switch s["type"] {
	case "boolean", "integer", "number", "object", "array":
		return "text"
	}
	return map[string]any{"an": "object"} // a string, or one of several
}

// set returns values with one value at a path.
func set(path string, value any) map[string]any {
	first, rest, _ := strings.Cut(path, ".")
	steps := strings.Split(rest, ".")
	if rest == "" {
		steps = nil
	}
	for _, step := range slices.Backward(steps) {
		switch step {
		case "0":
			value = []any{value}
		case "NAME":
			value = map[string]any{"gpu": value}
		default:
			value = map[string]any{step: value}
		}
	}
	return map[string]any{first: value}
}

// TestEveryValueIsChecked gives each value of the schema, and each member of it, another type or a
// word that is not among the expected ones: Helm rejects it with its path. Objects that the chart
// does not pass on reject fields that they do not have.
func TestEveryValueIsChecked(t *testing.T) {
	root := readSchema(t)
	loaded, err := loader.Load(directory)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	try := func(path string, value any) {
		checked++
		at := "/" + strings.NewReplacer(".", "/", "NAME", "gpu").Replace(path)
		if _, err := util.ToRenderValues(loaded, set(path, value), common.ReleaseOptions{}, nil); err == nil || !strings.Contains(err.Error(), "at '"+at) {
			t.Errorf("%s: %v is accepted, or the error does not name it: %v", path, value, err)
		}
	}
	root.walk("", root, func(path string, s map[string]any) {
		if path == "" {
			return
		}
		try(path, bad(s))
		closed, named := s["additionalProperties"]
		if s["type"] != "object" || slices.Contains(free, path) {
			return
		}
		if !named {
			t.Errorf("%s: any field is accepted: list the fields in values.schema.json", path)
		} else if open, is := closed.(bool); is && !open {
			try(path, map[string]any{"noSuchField": true})
		}
	})
	if checked < 150 {
		t.Errorf("%d values were tried", checked)
	}
}

// TestEveryValueIsDescribed checks that values.yaml has each value of the schema down to two
// levels, so that its comments describe it, and that the schema has each value of values.yaml.
func TestEveryValueIsDescribed(t *testing.T) {
	root := readSchema(t)
	loaded, err := loader.Load(directory)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(directory, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var comments map[string]any
	if err := yaml.Unmarshal(data, &comments); err != nil || len(comments) != len(loaded.Values) {
		t.Fatalf("values.yaml has %d values, Helm has %d: %v", len(comments), len(loaded.Values), err)
	}
	for _, name := range slices.Sorted(maps.Keys(inner(root, "properties"))) {
		if _, has := loaded.Values[name]; !has && name != "global" {
			t.Errorf("values.yaml does not have %s", name)
		}
		if name == "agent" { // agent.yaml describes its fields, see TestSchemaHasTheFieldsOfTheAgent.
			continue
		}
		for field := range inner(inner(inner(root, "properties"), name), "properties") {
			if _, has := inner(loaded.Values, name)[field]; !has {
				t.Errorf("values.yaml does not have %s.%s", name, field)
			}
		}
	}
	for name := range loaded.Values {
		if inner(inner(root, "properties"), name) == nil {
			t.Errorf("the schema does not have %s", name)
		}
	}
}
