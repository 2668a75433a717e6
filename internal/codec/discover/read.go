package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cadvisor/lib/model"

	"github.com/paddock-project/paddock/internal/base/malformed"
)

// ErrNotMachineInfo is wrapped by the error for a file that is not a MachineInfo.
var ErrNotMachineInfo = errors.New("not the description of a machine")

// expected ends the message about a file that is not a MachineInfo.
const expected = "expected the JSON object that `paddock topology -o json` writes (cAdvisor's MachineInfo)"

// Read parses a recorded MachineInfo. name is used in errors. Unknown fields are allowed, because
// newer versions have more fields, but the topology is required. Read keeps data, so the caller
// must not modify it afterwards.
func Read(name string, data []byte) (*Found, error) {
	if err := recognize(data); err != nil {
		return nil, fmt.Errorf("%s: %w: %w; %s", name, ErrNotMachineInfo, err, expected)
	}
	file := recording{MachineInfo: &model.MachineInfo{}} // Older files have only that.
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w: %w; %s", name, ErrNotMachineInfo, malformed.JSON(data, err), expected)
	}
	var k kernel
	var err error
	if k.isolation, err = file.Isolation.isolation(); err == nil {
		k.caches, k.l3, err = file.Caches.caches()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := found(name, file.MachineInfo, k)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range file.PCI {
		if err := file.PCI[i].check(); err != nil {
			return nil, fmt.Errorf("%s: entry %d of pci_devices: %w", name, i, err)
		}
	}
	f.PCI, f.recorded = file.PCI, data
	return f, nil
}

// recognize checks the outermost fields, which are the best evidence of what a file is.
func recognize(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return errors.New("the file is empty")
	case data[0] == '<':
		return errors.New("it looks like XML")
	case data[0] == '[':
		return errors.New("it is a JSON array")
	case data[0] != '{':
		return errors.New("it is no JSON object")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return malformed.JSON(data, err)
	}
	if topology, ok := fields["topology"]; ok {
		var nodes []map[string]json.RawMessage
		if err := json.Unmarshal(topology, &nodes); err != nil {
			return fmt.Errorf("its topology is not a list of NUMA nodes: %w", malformed.JSON(topology, err))
		}
		for i, node := range nodes {
			if _, ok := node["node_id"]; !ok { // A missing id would be read as 0.
				return fmt.Errorf(`entry %d of its topology has no "node_id"`, i)
			}
		}
		return nil
	}
	if kind, ok := fields["kind"]; ok {
		return fmt.Errorf("it is a Kubernetes object of kind %s", kind)
	}
	if _, ok := fields["lscpu"]; ok {
		return errors.New("it is the output of lscpu")
	}
	return errors.New(`it has no "topology"`)
}
