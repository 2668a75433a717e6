package apiversions

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/yaml"
)

// CRD is a decoded CustomResourceDefinition.
type CRD map[string]any

// Read reads a definition, and verifies that it is one.
func Read(text []byte) (CRD, error) {
	var crd CRD
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	if crd["kind"] != "CustomResourceDefinition" {
		return nil, fmt.Errorf("kind is %v, expected CustomResourceDefinition", crd["kind"])
	}
	for _, v := range crd.versions() {
		if len(schema(v)) == 0 {
			return nil, fmt.Errorf("the version %v has no schema", v["name"])
		}
	}
	if len(crd.versions()) == 0 {
		return nil, errors.New("spec.versions is empty")
	}
	return crd, nil
}

func member(o map[string]any, name string) map[string]any {
	m, _ := o[name].(map[string]any)
	return m
}

func isTrue(o map[string]any, name string) bool {
	is, _ := o[name].(bool)
	return is
}

func (c CRD) versions() (all []map[string]any) {
	list, _ := member(c, "spec")["versions"].([]any)
	for _, v := range list {
		if m, is := v.(map[string]any); is {
			all = append(all, m)
		}
	}
	return all
}

func (c CRD) version(name string) map[string]any {
	for _, v := range c.versions() {
		if v["name"] == name {
			return v
		}
	}
	return nil
}

func schema(version map[string]any) map[string]any {
	return member(member(version, "schema"), "openAPIV3Schema")
}

// Narrowed lists what a definition no longer has of an earlier one: versions, names, fields, and
// values that were valid.
func Narrowed(was, is CRD) []string {
	var found []string
	for _, name := range []string{"group", "scope"} {
		found = append(found, changed("spec."+name, member(was, "spec")[name], member(is, "spec")[name])...)
	}
	names, now := member(member(was, "spec"), "names"), member(member(is, "spec"), "names")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		found = append(found, changed("spec.names."+name, names[name], now[name])...)
	}
	for _, v := range was.versions() {
		name, _ := v["name"].(string)
		next := is.version(name)
		if next == nil || !isTrue(next, "served") {
			found = append(found, "the version "+name+" is not served")
			continue
		}
		found = append(found, changed(name+".subresources", v["subresources"], next["subresources"])...)
		found = append(found, missingColumns(name, v, next)...)
		found = append(found, narrowed(name, schema(v), schema(next))...)
	}
	return found
}

func changed(what string, was, is any) []string {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	return []string{fmt.Sprintf("%s was %v, and is %v", what, was, is)}
}

// missingColumns lists the columns of kubectl get that no longer exist.
func missingColumns(name string, was, is map[string]any) (found []string) {
	old, _ := was["additionalPrinterColumns"].([]any)
	now, _ := is["additionalPrinterColumns"].([]any)
	for _, column := range old {
		if !slices.ContainsFunc(now, func(c any) bool { return reflect.DeepEqual(c, column) }) {
			found = append(found, fmt.Sprintf("%s.additionalPrinterColumns: %v is missing", name, column))
		}
	}
	return found
}

// nested are the members of a schema that have schemas. All other members except the description
// limit what is valid.
var nested = []string{"properties", "items", "additionalProperties", "description"}

// narrowed compares two schemas at a path.
func narrowed(path string, was, is map[string]any) (found []string) {
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(nested, name) {
			found = append(found, changed(path+" "+name, was[name], is[name])...)
		}
	}
	old, now := member(was, "properties"), member(is, "properties")
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if now[name] == nil {
			found = append(found, path+"."+name+" is missing")
			continue
		}
		found = append(found, narrowed(path+"."+name, member(old, name), member(now, name))...)
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if was[name] != nil || is[name] != nil {
			found = append(found, narrowed(path+"."+name, member(was, name), member(is, name))...)
		}
	}
	return found
}

// Differing lists where the versions of a definition have different schemas, and conversions that
// need a webhook.
func Differing(c CRD) (found []string) {
	if s := member(member(c, "spec"), "conversion")["strategy"]; s != nil && s != "None" {
		found = append(found, fmt.Sprintf("spec.conversion.strategy is %v, expected None", s))
	}
	stored := 0
	first := c.versions()[0]
	for _, v := range c.versions() {
		if isTrue(v, "storage") {
			stored++
		}
		name := fmt.Sprint(v["name"])
		found = append(found, narrowed(name, schema(first), schema(v))...)
		for _, lost := range narrowed(fmt.Sprint(first["name"]), schema(v), schema(first)) {
			if !slices.Contains(found, lost) {
				found = append(found, lost)
			}
		}
	}
	if stored != 1 {
		found = append(found, fmt.Sprintf("%d versions are stored, expected one", stored))
	}
	return found
}

// Next returns a definition with one more version, which has the schema and the columns of the
// first one. stored is the name of the version that the API server stores.
func (c CRD) Next(version, stored string) (CRD, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, err
	}
	next, err := Read(text)
	if err != nil {
		return nil, err
	}
	again, err := Read(text)
	if err != nil {
		return nil, err
	}
	added := again.versions()[0]
	added["name"] = version
	all := append(next.versions(), added)
	list := make([]any, len(all))
	for i, v := range all {
		v["storage"] = v["name"] == stored
		list[i] = v
	}
	spec := member(next, "spec")
	spec["versions"] = list
	spec["conversion"] = map[string]any{"strategy": "None"}
	return next, nil
}

// Served returns an object as an API server serves it in another version of the definition, with
// the strategy None: its apiVersion is that of the version, and fields that are not in the schema
// are removed. It does not modify the object.
func (c CRD) Served(object map[string]any, version string) (map[string]any, error) {
	v := c.version(version)
	if v == nil || !isTrue(v, "served") {
		return nil, fmt.Errorf("the version %s is not served", version)
	}
	kept, _ := pruned(schema(v), object).(map[string]any)
	kept["apiVersion"] = fmt.Sprintf("%v/%s", member(c, "spec")["group"], version)
	kept["kind"], kept["metadata"] = object["kind"], object["metadata"]
	return kept, nil
}

// pruned returns a copy of a value with only the fields of a schema.
func pruned(schema map[string]any, value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		properties, other := member(schema, "properties"), member(schema, "additionalProperties")
		for name, v := range value {
			switch p := member(properties, name); {
			case p != nil:
				kept[name] = pruned(p, v)
			case other != nil:
				kept[name] = pruned(other, v)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, v := range value {
			kept[i] = pruned(member(schema, "items"), v)
		}
		return kept
	}
	return value
}
