package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/config/v1beta1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/base/spelling"
)

// toJSON returns the single document of a YAML or JSON text as JSON. It returns JSON unchanged, so
// that JSON may contain tabs, which YAML forbids.
func toJSON(data []byte) ([]byte, error) {
	if json.Valid(data) {
		return data, nil
	}
	if err := malformed.CutOff(data); err != nil {
		return nil, err
	}
	documents := 0
	for decoder := yamlv2.NewDecoder(bytes.NewReader(data)); ; {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("neither YAML nor JSON: %w", err)
		}
		if documents++; documents > 1 {
			return nil, errors.New("more than one YAML document; keep the KubeletConfiguration alone in the file")
		}
	}
	object, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	return object, nil
}

// decode returns the Config of one JSON object. If wantKind is set, the object must have apiVersion
// and kind. If present, they must always be those of a KubeletConfiguration. Unknown and repeated
// fields are errors.
func decode(name string, object []byte, wantKind bool) (*Config, error) {
	c, unknown, err := decodeFields(name, object, wantKind)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		problems := make([]error, len(unknown))
		for i, e := range unknown {
			problems[i] = explainField(e)
		}
		return nil, syntax(name, listed(problems))
	}
	return c, nil
}

// decodeFields is decode for an object that may have unknown and repeated fields, for each of which
// it returns an error.
func decodeFields(name string, object []byte, wantKind bool) (c *Config, unknown []error, err error) {
	c = &Config{name: name}
	if trimmed := bytes.TrimSpace(object); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, nil, syntax(name, errors.New("expected an object with fields such as kind and cpuManagerPolicy"))
	}
	if err := json.Unmarshal(object, &c.fields); err != nil {
		return nil, nil, syntax(name, err)
	}
	if err := c.checkKind(wantKind); err != nil {
		return nil, nil, syntax(name, err)
	}
	if err := checkNumbers(object); err != nil {
		return nil, nil, syntax(name, err)
	}
	if unknown, err = strictjson.UnmarshalStrict(object, &c.spec); err != nil {
		return nil, nil, syntax(name, c.explainValues(err))
	}
	return c, unknown, nil
}

func (c *Config) checkKind(want bool) error {
	text := func(field string) string {
		var s string
		if json.Unmarshal(c.fields[field], &s) != nil {
			return string(c.fields[field])
		}
		return s
	}
	version, kind := text("apiVersion"), text("kind")
	switch {
	case version == APIVersion && kind == Kind:
		return nil
	case version == "" && kind == "" && !want:
		return nil
	case version == "" && kind == "":
		return fmt.Errorf("apiVersion and kind are missing: begin with apiVersion: %s and kind: %s", APIVersion, Kind)
	case kind == Kind && version == "":
		return fmt.Errorf("apiVersion is missing: add apiVersion: %s", APIVersion)
	case kind == Kind:
		return fmt.Errorf("apiVersion is %q: only %s is supported", version, APIVersion)
	case version == APIVersion && kind == "":
		return fmt.Errorf("kind is missing: add kind: %s", Kind)
	}
	return fmt.Errorf("the object is of kind %q (apiVersion %q): expected kind %s of %s", kind, version, Kind, APIVersion)
}

// endless matches an amount that would keep a resource.Quantity busy for hours. Comparing and
// adding, and for the smallest amounts also parsing, write out every digit of 1e999999999. No
// meaningful amount is rejected, because all amounts between the smallest and the largest Quantity
// need at most two digits of exponent.
var endless = regexp.MustCompile(`^\s*[+-]?(?:[0-9.]{100}|[0-9.]+[eE][+-]?0*[1-9][0-9]{2})`)

// checkNumbers rejects endless amounts anywhere in the object, before any other code parses them.
func checkNumbers(object []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text := fmt.Sprint(token)
		if endless.MatchString(text) {
			return fmt.Errorf("the amount %.40s… is out of all bounds", text)
		}
	}
}

// explainValues returns an error for each field whose value cannot be decoded, with what is
// expected and what was found. It exists because the decoder stops at the first such field and does
// not always report its path.
func (c *Config) explainValues(err error) error {
	var problems []error
	for _, field := range slices.Sorted(maps.Keys(c.fields)) {
		one, marshalErr := json.Marshal(map[string]json.RawMessage{field: c.fields[field]})
		if marshalErr != nil {
			return err
		}
		var spec v1beta1.KubeletConfiguration
		err := strictjson.UnmarshalCaseSensitivePreserveInts(one, &spec)
		if err == nil {
			continue
		}
		m := typeError.FindStringSubmatch(err.Error())
		if m == nil {
			if errors.Is(err, resource.ErrFormatWrong) {
				err = errors.New("a quantity in it cannot be read: expected one such as 500m, 2 or 1Gi")
			}
			problems = append(problems, fmt.Errorf("field %s: %w", field, err))
			continue
		}
		found, path, wanted := m[1], m[2], m[3]
		at, hint := "field "+path, ""
		if t := fieldType(path); t != nil && t.Kind() == reflect.Map && t.String() != wanted {
			at = "a value of field " + path
		}
		if wanted == "string" && (found == "number" || found == "bool") {
			hint = ": put quotes around it"
		}
		problems = append(problems, fmt.Errorf("%s is %s and must be %s%s", at, jsonType(found), goType(wanted), hint))
	}
	if len(problems) == 0 {
		return err
	}
	return listed(problems)
}

// listed returns one error for all problems.
func listed(problems []error) error {
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// jsonType describes the value that a decoder found.
func jsonType(found string) string {
	switch found {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + found
}

var typeError = regexp.MustCompile(`^json: cannot unmarshal (\S+).* into Go struct field [^. ]*\.(\S+) of type (.+)$`)

// goType describes a Go type in the terms of a person who writes YAML.
func goType(name string) string {
	switch {
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "map["), strings.Contains(name, "."):
		return "an object"
	case name == "bool":
		return "true or false"
	case name == "string":
		return "a string"
	case strings.HasPrefix(name, "int"):
		return "a whole number of at most " + strings.TrimPrefix(name, "int") + " bits"
	}
	return "a " + name
}

// explainField adds the nearest known field to an error about an unknown field.
func explainField(err error) error {
	var at interface{ FieldPath() string }
	if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), "unknown field") {
		return err
	}
	path := at.FieldPath()
	parent, field := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, field = path[:i], path[i+1:]
	}
	var known []string
	if t := fieldType(parent); t != nil && element(t).Kind() == reflect.Struct {
		known = fieldNames(element(t))
	}
	if near := spelling.Nearest(field, known); near != "" {
		if parent != "" {
			near = parent + "." + near
		}
		return fmt.Errorf("unknown field %q: did you mean %q?", path, near)
	}
	return fmt.Errorf("unknown field %q: KubeletConfiguration has no such field; remove it", path)
}

// fieldType returns the Go type of the field at a path such as "reservedMemory[0]", or nil if there
// is no such field. The empty path is the configuration itself.
func fieldType(path string) reflect.Type {
	t := reflect.TypeFor[v1beta1.KubeletConfiguration]()
	if path == "" {
		return t
	}
	for segment := range strings.SplitSeq(path, ".") {
		name, _, _ := strings.Cut(segment, "[")
		object := element(t)
		if t = nil; object.Kind() != reflect.Struct || name == "" {
			return nil
		}
		for f := range object.Fields() {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
				t = f.Type
				break
			}
		}
		if t == nil {
			return nil
		}
	}
	return t
}

// element returns the innermost element type of a pointer, list or map.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag != "" && tag != "-":
			names = append(names, tag)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			names = append(names, fieldNames(f.Type)...)
		}
	}
	slices.Sort(names)
	return names
}
