package inputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/base/spelling"
)

// errNoList is returned for a file that does not list nodes.
var errNoList = errors.New("it has no list of nodes: expected nodes: [{name, count, machine, kubeletConfig, devices}], or the objects of a cluster")

// decodeFleet decodes a file of nodes. An error names the field.
func decodeFleet(data []byte, file *fleetFile) error {
	if err := malformed.CutOff(data); err != nil {
		return err
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		if strings.Contains(err.Error(), "unsupported value") { // JSON does not have such numbers.
			return errors.New("a number there is not finite (.nan or .inf)")
		}
		return err
	}
	if bytes.HasPrefix(text, []byte("[")) { // The list alone, as the help has it.
		text = slices.Concat([]byte(`{"nodes":`), text, []byte("}"))
	}
	strict, err := kjson.UnmarshalStrict(text, file)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch) && mismatch.Field == "":
		return errNoList
	case err != nil && mismatch != nil && mismatch.Type.Kind() == reflect.String && mismatch.Value == "bool":
		return fmt.Errorf("%w; YAML reads words such as n, no and on as true or false: write it in quotes", malformed.JSON(text, err))
	case err != nil:
		return malformed.JSON(text, err)
	case len(strict) > 0 && len(file.Nodes) == 0:
		return errNoList
	}
	return unknownFields(strict)
}

// unknownFields returns one error with all errors of a strict decoder, or nil if there are none. It
// adds which field is perhaps meant.
func unknownFields(strict []error) error {
	if len(strict) == 0 {
		return nil
	}
	var texts []string
	for _, err := range strict {
		text := err.Error()
		var field kjson.FieldError
		if errors.As(err, &field) && strings.HasPrefix(text, "unknown field ") {
			path := field.FieldPath()
			name := path[strings.LastIndex(path, ".")+1:]
			if meant := spelling.Nearest(name, fieldsAt(path)); meant != "" {
				text += " (did you mean " + meant + "?)"
			}
		}
		texts = append(texts, text)
	}
	return errors.New(strings.Join(texts, "; "))
}

// fieldsAt returns the names that the field at a path may have.
func fieldsAt(path string) (names []string) {
	of := reflect.TypeFor[fleetFile]()
	switch {
	case strings.Contains(path, ".taints["):
		of = reflect.TypeFor[v1.Taint]()
	case strings.HasPrefix(path, "nodes["):
		of = reflect.TypeFor[fleetEntry]()
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
