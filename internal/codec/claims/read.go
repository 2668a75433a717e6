package claims

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Limits for data from other programs. Decoded data can take a hundred times the memory of its
// JSON, so lists are decoded element by element, and each element has a limit.
const (
	// maxDevices is the maximum number of devices in one slice. The API allows 128.
	maxDevices = 4096
	// maxDevice is the maximum size of the JSON of one device, in bytes. The largest device that
	// the API allows has 32 attributes and capacities with names of 96 characters, and takes less
	// than 16 KiB.
	maxDevice = 64 << 10
	// maxName is the maximum length of the name of a driver, a pool, a device or a request. The API
	// allows 253 characters for a pool.
	maxName = 253
	// MaxMetadata is the maximum size of a metadata file, in bytes. A driver writes one file with a
	// few devices for each request of a claim.
	MaxMetadata = 256 << 10
)

// ErrSlice is wrapped by every error of ReadSlice.
var ErrSlice = errors.New("it is not a ResourceSlice as an API server accepts it")

// ReadSlice parses the JSON of the spec of a ResourceSlice, in any version that has the fields of
// v1, and keeps the parts that placement needs. Its memory use depends only on what it keeps, not
// on the content of the JSON. The error wraps ErrSlice.
func ReadSlice(spec []byte, pci PCI) (*Slice, error) {
	var s struct {
		Driver string `json:"driver"`
		Pool   struct {
			Name       string `json:"name"`
			Generation int64  `json:"generation"`
		} `json:"pool"`
		NodeName string          `json:"nodeName"`
		Devices  json.RawMessage `json:"devices"`
	}
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSlice, err)
	}
	if s.Driver == "" || max(len(s.Driver), len(s.Pool.Name), len(s.NodeName)) > maxName {
		return nil, fmt.Errorf("%w: expected a driver, and names of at most %d characters", ErrSlice, maxName)
	}
	kept := &Slice{driver: s.Driver, pool: s.Pool.Name, generation: s.Pool.Generation, node: s.NodeName}
	if len(s.Devices) == 0 || string(s.Devices) == "null" {
		return kept, nil
	}
	err := elements(s.Devices, func(raw []byte) error {
		d, err := readDevice(s.Driver, raw, pci)
		kept.devices = append(kept.devices, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: spec.devices: %w", ErrSlice, err)
	}
	return kept, nil
}

// elements calls visit for each element of a list of devices. It fails if there are more than
// maxDevices, or if one is larger than maxDevice.
func elements(list []byte, visit func(raw []byte) error) error {
	decoder := json.NewDecoder(bytes.NewReader(list))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
		return errors.New("expected a list")
	}
	for n := 0; decoder.More(); n++ {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case err != nil:
			return err
		case n == maxDevices || len(raw) > maxDevice:
			return fmt.Errorf("more than %d devices, or one of more than %d KiB", maxDevices, maxDevice>>10)
		}
		if err := visit(raw); err != nil {
			return err
		}
	}
	return nil
}

// Allocated is a device that is allocated to a claim.
type Allocated struct {
	Driver, Pool, Device string
	// ShareID is the share of the device that the claim has. It is empty if the device is not
	// shared.
	ShareID string
	// Request is the request of the claim for which the device was allocated: "gpu", or "gpu/large"
	// for an alternative.
	Request string
}

// ErrClaim is wrapped by every error of ReadAllocation.
var ErrClaim = errors.New("it is not a ResourceClaim as an API server accepts it")

// ReadAllocation returns the devices that are allocated to a claim, from the JSON of the claim. It
// has the same limits as ReadSlice. It returns nil for a claim without an allocation. The error
// wraps ErrClaim.
func ReadAllocation(claim []byte) ([]Allocated, error) {
	var c struct {
		Kind   string `json:"kind"`
		Status struct {
			Allocation *struct {
				Devices struct {
					Results json.RawMessage `json:"results"`
				} `json:"devices"`
			} `json:"allocation"`
		} `json:"status"`
	}
	switch err := json.Unmarshal(claim, &c); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrClaim, err)
	case c.Kind != "ResourceClaim":
		return nil, fmt.Errorf("%w: its kind is %.30q", ErrClaim, c.Kind)
	}
	if c.Status.Allocation == nil {
		return nil, nil
	}
	devices := []Allocated{}
	results := c.Status.Allocation.Devices.Results
	if len(results) == 0 || string(results) == "null" {
		return devices, nil
	}
	err := elements(results, func(raw []byte) error {
		var d struct {
			Request, Driver, Pool, Device, ShareID string
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		if d.Driver == "" || d.Device == "" || d.Request == "" || max(len(d.Driver), len(d.Pool), len(d.Device), len(d.Request), len(d.ShareID)) > maxName {
			return fmt.Errorf("expected a request, a driver and a device, with names of at most %d characters", maxName)
		}
		devices = append(devices, Allocated{Driver: d.Driver, Pool: d.Pool, Device: d.Device, ShareID: d.ShareID, Request: d.Request})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: status.allocation.devices.results: %w", ErrClaim, err)
	}
	return devices, nil
}

func readDevice(driver string, raw []byte, pci PCI) (device, error) {
	var d struct {
		Name             string                                                    `json:"name"`
		Attributes       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
		Capacity         map[string]json.RawMessage                                `json:"capacity"`
		ConsumesCounters []json.RawMessage                                         `json:"consumesCounters"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return device{}, err
	}
	if d.Name == "" || len(d.Name) > maxName {
		return device{}, fmt.Errorf("expected names of 1 to %d characters", maxName)
	}
	var capacities []string
	for name := range d.Capacity {
		capacities = append(capacities, name)
	}
	return deviceOf(driver, d.Name, d.Attributes, capacities, len(d.ConsumesCounters) > 0, pci), nil
}

// Described is a device of a claim as the metadata file of its driver describes it (KEP-5304).
type Described struct {
	Driver, Pool, Device string
	// Request is the request of the claim for which the device was allocated.
	Request string
	// Nodes are the NUMA nodes of the device. The mask is empty if they are not known.
	Nodes mask.Mask
}

// ErrMetadata is wrapped by every error of ReadMetadata.
var ErrMetadata = errors.New("it is not a file with the metadata of devices")

// ReadMetadata parses a metadata file of a driver, of at most MaxMetadata bytes. The error wraps
// ErrMetadata.
func ReadMetadata(file []byte, pci PCI) ([]Described, error) {
	if len(file) > MaxMetadata {
		return nil, fmt.Errorf("%w: it has more than %d KiB", ErrMetadata, MaxMetadata>>10)
	}
	var read metadata.DeviceMetadata
	if err := devicemetadata.DecodeMetadataFromStream(json.NewDecoder(bytes.NewReader(file)), &read); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	var devices []Described
	for _, r := range read.Requests {
		for _, d := range r.Devices {
			if d.Driver == "" || d.Name == "" || max(len(d.Driver), len(d.Pool), len(d.Name), len(r.Name)) > maxName {
				return nil, fmt.Errorf("%w: a device of request %.20q has no driver or no name, or a name of more than %d characters", ErrMetadata, r.Name, maxName)
			}
			devices = append(devices, Described{Driver: d.Driver, Pool: d.Pool, Device: d.Name, Request: r.Name, Nodes: nodesOf(d.Driver, d.Attributes, pci)})
		}
	}
	return devices, nil
}
