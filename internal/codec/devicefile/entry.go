package devicefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// entry is one element of the list of a resource.
type entry struct {
	id, prefix     string
	count, perNode int64
	nodes          mask.Mask
	// unplaced is set if the entry does not have numaNodes.
	unplaced, healthy bool
}

// devicesOf returns the devices of an entry. It fails if there are more than limit. Its error texts
// continue the path of the entry: ".count: …" or ": …".
func devicesOf(text json.RawMessage, limit int) ([]device.Device, error) {
	fields, err := fieldsOf(text, "id", "prefix", "count", "perNode", "numaNodes", "healthy")
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	for field, value := range fields {
		if string(value) == "null" {
			delete(fields, field)
		}
	}
	e := entry{healthy: true}
	for _, take := range []struct {
		field string
		into  func(json.RawMessage) error
	}{
		{"id", textInto(&e.id)},
		{"prefix", textInto(&e.prefix)},
		{"count", numberInto(&e.count)},
		{"perNode", numberInto(&e.perNode)},
		{"numaNodes", e.takeNodes},
		{"healthy", func(value json.RawMessage) error {
			if err := json.Unmarshal(value, &e.healthy); err != nil {
				return fmt.Errorf("it is %s: expected true or false", kindOf(value))
			}
			return nil
		}},
	} {
		if value, ok := fields[take.field]; ok {
			if err := take.into(value); err != nil {
				return nil, fmt.Errorf(".%s: %w", take.field, err)
			}
		}
	}
	has := func(field string) bool { return fields[field] != nil }
	e.unplaced = !has("numaNodes")
	switch {
	case has("id") == has("prefix"):
		return nil, fmt.Errorf(": expected either an id or a prefix")
	case has("id") && (has("count") || has("perNode")):
		return nil, fmt.Errorf(": an id names one device: use prefix with count or perNode")
	case has("prefix") && has("count") == has("perNode"):
		return nil, fmt.Errorf(": expected either count or perNode with a prefix")
	case has("perNode") && e.nodes.IsEmpty():
		return nil, fmt.Errorf(".perNode: expected numaNodes, the list of these NUMA nodes")
	}
	return e.devices(limit)
}

// devices returns the devices that the entry describes.
func (e entry) devices(limit int) ([]device.Device, error) {
	if most := int64(limit) / int64(max(1, e.nodes.Len())); e.count > int64(limit) || e.perNode > most || limit == 0 {
		return nil, fmt.Errorf(": the file has more than %d devices", MaxDevices)
	}
	if e.id != "" {
		return []device.Device{{ID: e.id, Healthy: e.healthy, Nodes: e.nodes, Unplaced: e.unplaced}}, nil
	}
	var devices []device.Device
	add := func(n int64, nodes mask.Mask) {
		for range n {
			id := e.prefix + strconv.Itoa(len(devices))
			devices = append(devices, device.Device{ID: id, Healthy: e.healthy, Nodes: nodes, Unplaced: e.unplaced})
		}
	}
	add(e.count, e.nodes)
	for n := range e.nodes.All() {
		add(e.perNode, mask.Of(n))
	}
	return devices, nil
}

func textInto(to *string) func(json.RawMessage) error {
	return func(value json.RawMessage) error {
		if value[0] != '"' {
			return fmt.Errorf("it is %s: expected text, perhaps in quotes", kindOf(value))
		}
		if err := json.Unmarshal(value, to); err != nil {
			return err
		}
		if *to == "" {
			return fmt.Errorf("it is empty")
		}
		return nil
	}
}

func numberInto(to *int64) func(json.RawMessage) error {
	return func(value json.RawMessage) (err error) {
		if *to, err = strconv.ParseInt(string(value), 10, 64); err != nil {
			return fmt.Errorf("it is %s: expected a whole number", kindOf(value))
		}
		if *to < 0 {
			return fmt.Errorf("it is %d: expected a number of devices, not below 0", *to)
		}
		return nil
	}
}

// takeNodes parses an id, a text such as "0-3,8", or a list of both.
func (e *entry) takeNodes(value json.RawMessage) error {
	if value[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return err
		}
		for _, one := range list {
			if one[0] == '[' {
				return fmt.Errorf("it is a list: expected ids like 2 and ranges like 0-3")
			}
			if err := e.takeNodes(one); err != nil {
				return err
			}
		}
		return nil
	}
	text := string(value)
	switch value[0] {
	case '{', 'n', 't', 'f':
		return fmt.Errorf("it is %s: expected ids like 2 and ranges like 0-3", kindOf(value))
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
	}
	nodes, err := mask.Parse(text)
	if err != nil {
		if bytes.HasPrefix(value, []byte("-")) {
			return fmt.Errorf("%w; write numaNodes: [] for a device that reports none", err)
		}
		return err
	}
	e.nodes |= nodes
	return nil
}
