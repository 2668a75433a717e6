package devicefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// ErrSyntax is wrapped by every error of Read.
var ErrSyntax = errors.New("not a device file")

// MaxDevices is the maximum number of devices that one file may describe.
const MaxDevices = 100_000

const expected = "expected resources: with a list of devices for each, such as nvidia.com/gpu: [{id: gpu0, numaNodes: 0}]"

// Inventory reads a file and returns an inventory of its devices for the machine. name is the name
// of the file. The machine must have the NUMA nodes that the file names.
func Inventory(m *machine.Machine, name string, data []byte) (*device.Inventory, error) {
	resources, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	return inventory(m, name, resources)
}

// Reported is like Inventory, for a file that has all that device plugins report: a device without
// numaNodes reports none.
func Reported(m *machine.Machine, name string, data []byte) (*device.Inventory, error) {
	resources, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	for _, devices := range resources {
		for i := range devices {
			devices[i].Unplaced = false
		}
	}
	return inventory(m, name, resources)
}

func inventory(m *machine.Machine, name string, resources map[string][]device.Device) (*device.Inventory, error) {
	inv, err := device.NewInventory(m, resources)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return inv, nil
}

// Read returns the devices of each resource, in the order of the file. It does not check that names
// and ids are valid and that the NUMA nodes exist; device.NewInventory does. The map is never nil
// if the error is nil.
func Read(name string, data []byte) (map[string][]device.Device, error) {
	resources, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrSyntax, err)
	}
	return resources, nil
}

func read(data []byte) (map[string][]device.Device, error) {
	object, err := toJSON(data)
	if err != nil {
		return nil, err
	}
	file, err := fieldsOf(object, "resources")
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, expected)
	}
	lists, err := fieldsOf(file["resources"])
	if err != nil {
		return nil, fmt.Errorf("resources: %w; %s", err, expected)
	}
	out := make(map[string][]device.Device, len(lists))
	total := 0
	for _, resource := range slices.Sorted(maps.Keys(lists)) {
		at := fmt.Sprintf("resources[%q]", resource)
		var entries []json.RawMessage
		if text := lists[resource]; text[0] != '[' {
			return nil, fmt.Errorf("%s is %s: expected a list of devices", at, kindOf(text))
		} else if err := json.Unmarshal(text, &entries); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		for i, text := range entries {
			devices, err := devicesOf(text, MaxDevices-total)
			if err != nil {
				return nil, fmt.Errorf("%s[%d]%w", at, i, err)
			}
			out[resource] = append(out[resource], devices...)
			total += len(devices)
		}
		if out[resource] == nil {
			out[resource] = []device.Device{}
		}
	}
	return out, nil
}

// toJSON returns the single document of a YAML or JSON text as compact JSON. It does not parse JSON
// as YAML, because YAML forbids tabs.
func toJSON(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if json.Valid(data) {
		var value any
		repeated, err := strictjson.UnmarshalStrict(data, &value, strictjson.DisallowDuplicateFields)
		if err == nil && len(repeated) > 0 {
			err = repeated[0]
		}
		if err != nil {
			return nil, err
		}
	} else if err := malformed.CutOff(data); err != nil {
		return nil, err
	} else {
		decoder := yamlv2.NewDecoder(bytes.NewReader(data))
		for n := 0; ; n++ {
			var document any
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil && n > 0 {
				err = errors.New("it has more than one YAML document")
			}
			if err != nil {
				return nil, err
			}
		}
		var err error
		if data, err = yaml.YAMLToJSONStrict(data); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// fieldsOf returns the fields of an object. If known is not empty, other fields are an error. The
// values are not empty and do not begin with white space.
func fieldsOf(object json.RawMessage, known ...string) (map[string]json.RawMessage, error) {
	if len(object) == 0 || object[0] != '{' {
		return nil, fmt.Errorf("it is %s", kindOf(object))
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if len(known) > 0 && !slices.Contains(known, field) {
			return nil, fmt.Errorf("unknown field %q; known are: %s", field, strings.Join(known, ", "))
		}
	}
	return fields, nil
}

// kindOf describes the type of a JSON value.
func kindOf(text json.RawMessage) string {
	if len(text) == 0 {
		return "missing"
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "the text " + string(text)
	case 'n':
		return "empty"
	case 't', 'f':
		return string(text)
	}
	return "the number " + string(text)
}
