package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

// DeviceFile is the content of one of the two files in which the kubelet records which pods have
// which devices. The file of the DRA manager has Claims. The file of the Device Manager has Entries
// and Registered.
type DeviceFile struct {
	Manager  Manager
	Checksum Checksum
	// Claims are the ResourceClaims that the kubelet has prepared or is preparing.
	Claims []Claim
	// Entries are the devices of device plugins, with one entry for each container and resource.
	Entries []DeviceEntry
	// Registered maps each resource to the devices that were healthy when the file was written.
	Registered map[string][]string

	// data is the text that the checksum of dra_manager_state covers.
	data string
}

// Claim is a ResourceClaim that is prepared for pods.
type Claim struct {
	UID, Name, Namespace string
	// Pods are the UIDs of the pods, ascending.
	Pods []string
	// Devices are in the order of the file, with drivers in ascending order. A driver without
	// devices is not listed.
	Devices []ClaimDevice
}

// ClaimDevice is one device of a claim.
type ClaimDevice struct {
	Driver, Pool, Device string
	// Share is the id of the share of a device that several claims use. It is empty if the device
	// is not shared.
	Share string
	// Requests are the requests of the claim for which the device is. CDI are the ids of its CDI
	// devices.
	Requests, CDI []string
}

// String returns the name of the device for people.
func (d ClaimDevice) String() string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// NoNUMANode is the key in DeviceEntry.Devices for devices without topology.
const NoNUMANode = -1

// DeviceEntry is the devices that a container has of one resource.
type DeviceEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	// DeviceIDs maps NUMA nodes to device ids. A device near several NUMA nodes is in the list of
	// each.
	DeviceIDs map[int64][]string
	// AllocResp is the answer of the device plugin, which the kubelet applies when it creates the
	// container.
	AllocResp []byte
}

// NUMANodes returns the NUMA nodes of each device of the entry, in ascending order. The list is
// empty for a device without topology.
func (e *DeviceEntry) NUMANodes() map[string][]int {
	nodes := map[string][]int{}
	for _, numa := range slices.Sorted(maps.Keys(e.DeviceIDs)) {
		for _, id := range e.DeviceIDs[numa] {
			list := nodes[id]
			if numa != NoNUMANode {
				list = append(list, int(numa))
			}
			nodes[id] = list
		}
	}
	return nodes
}

// The formats of the files.
type (
	draFile struct {
		Data     string
		Checksum uint32
	}
	draData struct {
		ClaimInfoStateList []draClaim
	}
	draClaim struct {
		ClaimUID, ClaimName, Namespace string
		PodUIDs                        map[string]struct{}
		DriverState                    map[string]struct{ Devices []draDevice }
	}
	draDevice struct {
		PoolName, DeviceName       string
		ShareID                    *string
		RequestNames, CDIDeviceIDs []string
	}
	pluginFile struct {
		Data     pluginData
		Checksum uint64
	}
	pluginData struct {
		PodDeviceEntries  []DeviceEntry
		RegisteredDevices map[string][]string
	}
)

// foreignError is an ErrForeign with its own text.
type foreignError string

func (e foreignError) Error() string { return string(e) }

// Is reports whether the target is ErrForeign.
func (foreignError) Is(target error) bool { return target == ErrForeign }

const errNoDevices = foreignError("not a file of the kubelet about devices (kubelet_internal_checkpoint or dra_manager_state)")

// RecogniseDevices parses a dra_manager_state or a kubelet_internal_checkpoint file, whichever the
// text is. The checksum may be wrong. Errors wrap ErrDamaged, or ErrForeign if the text is neither.
func RecogniseDevices(data []byte) (*DeviceFile, error) {
	switch trimmed := bytes.TrimSpace(data); {
	case len(data) > MaxSize:
		return nil, fmt.Errorf("%w: it has %d bytes, a state has at most %d", errNoDevices, len(data), MaxSize)
	case len(trimmed) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	var fields map[string]json.RawMessage // The keys are case-sensitive, because a CPU state of V4 has a field "data".
	if err := json.Unmarshal(data, &fields); err != nil || !has(fields, "Data") {
		if head := string(data[:min(len(data), 256)]); err != nil && strings.Contains(head, `"Data"`) {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, explain(err, len(data)))
		}
		return nil, fmt.Errorf(`%w: it has no field "Data"`, errNoDevices)
	}
	read := readPlugins
	if fields["Data"][0] == '"' {
		read = readClaims
	}
	f, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, explain(err, len(data)))
	}
	return f, nil
}

func readClaims(data []byte) (*DeviceFile, error) {
	var file draFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	f := &DeviceFile{Manager: DRAManager, data: file.Data}
	f.Checksum = checksum(uint64(file.Checksum), uint64(crc32.ChecksumIEEE([]byte(file.Data))), false)
	var content draData
	if err := json.Unmarshal([]byte(file.Data), &content); err != nil {
		return nil, fmt.Errorf(`its field "Data": %w`, explain(err, len(file.Data)))
	}
	for _, c := range content.ClaimInfoStateList {
		claim := Claim{UID: c.ClaimUID, Name: c.ClaimName, Namespace: c.Namespace, Pods: slices.Sorted(maps.Keys(c.PodUIDs))}
		for _, driver := range slices.Sorted(maps.Keys(c.DriverState)) {
			for _, d := range c.DriverState[driver].Devices {
				device := ClaimDevice{Driver: driver, Pool: d.PoolName, Device: d.DeviceName, Requests: d.RequestNames, CDI: d.CDIDeviceIDs}
				if d.ShareID != nil {
					device.Share = *d.ShareID
				}
				claim.Devices = append(claim.Devices, device)
			}
		}
		f.Claims = append(f.Claims, claim)
	}
	return f, nil
}

func readPlugins(data []byte) (*DeviceFile, error) {
	// Missing fields are empty and only null is nil, because the kubelet creates both before it
	// decodes.
	file := pluginFile{Data: pluginData{PodDeviceEntries: []DeviceEntry{}, RegisteredDevices: map[string][]string{}}}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	return &DeviceFile{
		Manager:  DeviceManager,
		Checksum: checksum(file.Checksum, file.Data.sum(), false),
		Entries:  file.Data.PodDeviceEntries, Registered: file.Data.RegisteredDevices,
	}, nil
}

// Encode returns the file with a correct checksum. The content of dra_manager_state stays as it was
// read, because newer kubelets have more fields in it. So changes to Claims are not written.
func (f *DeviceFile) Encode() ([]byte, error) {
	if f.Manager == DRAManager {
		return json.Marshal(draFile{f.data, crc32.ChecksumIEEE([]byte(f.data))})
	}
	data := pluginData{f.Entries, f.Registered}
	return json.Marshal(pluginFile{data, data.sum()})
}

// Pods returns the UIDs of all pods in the file, in ascending order.
func (f *DeviceFile) Pods() []string {
	uids := map[string]bool{}
	for _, c := range f.Claims {
		for _, uid := range c.Pods {
			uids[uid] = true
		}
	}
	for i := range f.Entries {
		uids[f.Entries[i].PodUID] = true
	}
	return slices.Sorted(maps.Keys(uids))
}

// sum returns the checksum of kubelet_internal_checkpoint over the dump of its data (R-ST-92).
func (p *pluginData) sum() uint64 {
	d := dump(nil).text("(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)")
	d = dumpList(d, p.PodDeviceEntries, dump.deviceEntry).text(" RegisteredDevices:(map[string][]string)")
	return dumpMap(d, p.RegisteredDevices, word, dump.ids).text("}").sum()
}

func (d dump) ids(list []string) dump { return dumpList(d, list, word) }

func (d dump) deviceEntry(e DeviceEntry) dump {
	d = d.text("{PodUID:(string)", e.PodUID, " ContainerName:(string)", e.ContainerName, " ResourceName:(string)", e.ResourceName)
	number := func(d dump, n int64) dump { return d.number(int(n)) }
	d = dumpMap(d.text(" DeviceIDs:(checkpoint.DevicesPerNUMA)"), e.DeviceIDs, number, dump.ids)
	octet := func(d dump, b byte) dump { return d.number(int(b)) }
	return dumpList(d.text(" AllocResp:([]uint8)"), e.AllocResp, octet).text("}")
}
