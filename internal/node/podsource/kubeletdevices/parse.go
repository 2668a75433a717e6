package kubeletdevices

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// Pod is the kubelet's list entry of a pod. It has no UID.
type Pod struct {
	Namespace, Name string
	Containers      []Container
}

// Container is a sidecar or app container with its devices, in the order of the answer. Each device
// is listed once.
type Container struct {
	Name    string
	Devices []Device
	Claims  []Claim
}

// Device is a device of a device plugin.
type Device struct {
	Resource, ID string
	// Nodes are the NUMA nodes that the device is near. If empty, they are not known.
	Nodes mask.Mask
}

// Claim is a ResourceClaim with all its devices.
type Claim struct {
	Namespace, Name string
	Devices         []ClaimDevice
}

// ClaimDevice is an allocated device of a claim.
type ClaimDevice struct {
	Driver, Pool, Device string
	// ShareID is the share of the device. If empty, the device is not shared.
	ShareID string
	// CDI are the CDI devices of this device.
	CDI []string
}

// These are the limits of an answer.
const (
	// maxAnswer limits the answer, in bytes. A production node had an answer of 17.8 MB, because of
	// kubernetes#141335.
	maxAnswer = 32 << 20
	// maxFields limits the number of fields, and thereby the time. The answer of that node had
	// about a million fields, and four million take about 100 ms.
	maxFields = 4 << 20
	// maxKept limits the memory that is kept of an answer, in bytes: the names, and entrySize for
	// each entry. 500 pods with 10 devices each take about 1 MiB.
	maxKept   = 8 << 20
	entrySize = 128
	// maxListed limits the IDs, or CDI devices, of one element.
	maxListed = maxKept / entrySize
)

var (
	errMalformed = errors.New("the answer is not one of the PodResources API")
	errTooMuch   = fmt.Errorf("the answer has more than %d MiB of different names, or more than %d fields", maxKept>>20, maxFields)
)

// These are the numbers of the fields in k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
const (
	responsePods    = 1 // in ListPodResourcesResponse and GetPodResourcesResponse
	responseDevices = 1 // in AllocatableResourcesResponse

	podName       = 1
	podNamespace  = 2
	podContainers = 3

	containerName    = 1
	containerDevices = 2
	containerDynamic = 5

	devicesResource = 1
	devicesIDs      = 2
	devicesTopology = 3

	topologyNodes = 1
	nodeID        = 1

	dynamicClaim     = 2
	dynamicNamespace = 3
	dynamicResources = 4

	resourceCDI    = 1
	resourceDriver = 2
	resourcePool   = 3
	resourceDevice = 4
	resourceShare  = 5

	cdiName = 1
)

// parser parses one answer. It returns an error if the answer has more than maxFields fields, or if
// more than maxKept bytes would be kept.
type parser struct{ left, fieldsLeft int }

// parse parses a ListPodResourcesResponse or a GetPodResourcesResponse. It omits pods for which
// keep returns false.
func parse(answer []byte, keep func(*Pod) bool) ([]Pod, error) {
	p := &parser{left: maxKept, fieldsLeft: maxFields}
	var pods []Pod
	err := p.fields(answer, func(number int, raw []byte, _ uint64) error {
		if number != responsePods {
			return nil
		}
		left := p.left
		pod, err := p.pod(raw)
		switch {
		case err != nil:
			return err
		case keep(&pod):
			pods = append(pods, pod)
		default:
			p.left = left
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pods, nil
}

// parseAllocatable parses an AllocatableResourcesResponse.
func parseAllocatable(answer []byte) ([]Device, error) {
	p := &parser{left: maxKept, fieldsLeft: maxFields}
	var all Container
	known := map[[2]string]int{}
	err := p.fields(answer, func(number int, raw []byte, _ uint64) error {
		if number != responseDevices {
			return nil
		}
		return p.devices(&all, known, raw)
	})
	if err != nil {
		return nil, err
	}
	return all.Devices, nil
}

// fields visits the fields of a message that are messages, texts or numbers, and skips others. raw
// is nil for a number. If message is nil, a number was encoded in place of a message, which is an
// error.
func (p *parser) fields(message []byte, visit func(number int, raw []byte, value uint64) error) error {
	if message == nil {
		return errMalformed
	}
	for len(message) > 0 {
		if p.fieldsLeft--; p.fieldsLeft < 0 {
			return errTooMuch
		}
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		var raw []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			raw, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType:
			n = protowire.ConsumeFieldValue(number, kind, message)
		default:
			return errMalformed
		}
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		if kind != protowire.BytesType && kind != protowire.VarintType {
			continue
		}
		if err := visit(int(number), raw, value); err != nil {
			return err
		}
	}
	return nil
}

// entry counts an entry that is kept towards maxKept.
func (p *parser) entry() error {
	if p.left -= entrySize; p.left < 0 {
		return errTooMuch
	}
	return nil
}

// text stores a text and counts its bytes towards maxKept.
func (p *parser) text(to *string, raw []byte) error {
	if raw == nil || !utf8.Valid(raw) {
		return errMalformed
	}
	if p.left -= len(raw); p.left < 0 {
		return errTooMuch
	}
	*to = string(raw)
	return nil
}

func (p *parser) pod(message []byte) (pod Pod, err error) {
	err = p.fields(message, func(number int, raw []byte, _ uint64) error {
		switch number {
		case podName:
			return p.text(&pod.Name, raw)
		case podNamespace:
			return p.text(&pod.Namespace, raw)
		case podContainers:
			c, err := p.container(raw)
			pod.Containers = append(pod.Containers, c)
			return err
		}
		return nil
	})
	return pod, errors.Join(err, p.entry())
}

func (p *parser) container(message []byte) (c Container, err error) {
	devices, claims := map[[2]string]int{}, map[[2]string]*claimReader{}
	var order []*claimReader
	err = p.fields(message, func(number int, raw []byte, _ uint64) error {
		switch number {
		case containerName:
			return p.text(&c.Name, raw)
		case containerDevices:
			return p.devices(&c, devices, raw)
		case containerDynamic:
			claim, err := p.claim(raw)
			if err != nil {
				return err
			}
			of := [2]string{claim.Namespace, claim.Name}
			reader := claims[of]
			if reader == nil {
				reader = &claimReader{parser: p, claim: claim, known: map[[4]string]bool{}}
				claims[of] = reader
				order = append(order, reader)
				if p.left -= len(claim.Namespace) + len(claim.Name) + entrySize; p.left < 0 {
					return errTooMuch
				}
			}
			return reader.read(raw)
		}
		return nil
	})
	for _, reader := range order {
		c.Claims = append(c.Claims, reader.claim)
	}
	return c, errors.Join(err, p.entry())
}

// devices adds the devices of one element. The kubelet lists a device once for each of its NUMA
// nodes. known maps the devices to their positions in c.Devices.
func (p *parser) devices(c *Container, known map[[2]string]int, message []byte) error {
	var resource string
	var ids [][]byte
	var nodes mask.Mask
	unknown := false
	err := p.fields(message, func(number int, raw []byte, _ uint64) error {
		switch number {
		case devicesResource:
			return p.text(&resource, raw)
		case devicesIDs:
			if raw == nil {
				return errMalformed
			}
			if ids = append(ids, raw); len(ids) > maxListed {
				return errTooMuch
			}
		case devicesTopology:
			return p.fields(raw, func(number int, raw []byte, _ uint64) error {
				if number != topologyNodes {
					return nil
				}
				id := uint64(0) // A field with the value 0 is not encoded.
				err := p.fields(raw, func(number int, raw []byte, value uint64) error {
					switch {
					case number != nodeID:
					case raw != nil:
						return errMalformed
					default:
						id = value
					}
					return nil
				})
				if id > mask.MaxNode {
					unknown = true
					return err
				}
				nodes = nodes.With(int(id))
				return err
			})
		}
		return nil
	})
	if unknown {
		nodes = 0
	}
	for _, id := range ids {
		if err != nil {
			return err
		}
		at, listed := known[[2]string{resource, string(id)}]
		if listed {
			c.Devices[at].Nodes |= nodes
			continue
		}
		d := Device{Resource: resource, Nodes: nodes}
		if err = errors.Join(p.text(&d.ID, id), p.entry()); err == nil {
			known[[2]string{resource, d.ID}] = len(c.Devices)
			c.Devices = append(c.Devices, d)
		}
	}
	return err
}

// claim reads the name of a claim, which may be encoded after its devices. It does not count the
// name, because a claim that is repeated is kept once.
func (p *parser) claim(message []byte) (c Claim, err error) {
	left := p.left
	err = p.fields(message, func(number int, raw []byte, _ uint64) error {
		switch number {
		case dynamicClaim:
			return p.text(&c.Name, raw)
		case dynamicNamespace:
			return p.text(&c.Namespace, raw)
		}
		return nil
	})
	if err == nil {
		p.left = left
	}
	return c, err
}

// claimReader reads the devices of a claim.
type claimReader struct {
	*parser
	claim Claim
	known map[[4]string]bool // by driver, pool, device and share
	// driver is the driver of the previous device. before has the CDI devices that were listed for
	// it.
	driver []byte
	before [][]byte
}

// read adds the devices of one element.
func (r *claimReader) read(message []byte) error {
	r.driver, r.before = nil, nil
	return r.fields(message, func(number int, raw []byte, _ uint64) error {
		if number != dynamicResources {
			return nil
		}
		return r.device(raw)
	})
}

// device adds a device without the CDI devices of the devices before it. It does nothing if the
// device is already known.
func (r *claimReader) device(message []byte) error {
	var parts [resourceShare + 1][]byte
	for i := range parts {
		parts[i] = []byte{} // A field without a value is not encoded.
	}
	var listed [][]byte
	err := r.fields(message, func(number int, raw []byte, _ uint64) error {
		switch number {
		case resourceCDI:
			name := []byte{}
			err := r.fields(raw, func(number int, raw []byte, _ uint64) error {
				if number == cdiName {
					name = raw
				}
				return nil
			})
			if listed = append(listed, name); len(listed) > maxListed {
				return errTooMuch
			}
			return err
		case resourceDriver, resourcePool, resourceDevice, resourceShare:
			parts[number] = raw
		}
		return nil
	})
	if err != nil {
		return err
	}
	own := listed
	if bytes.Equal(r.driver, parts[resourceDriver]) && len(listed) >= len(r.before) &&
		slices.EqualFunc(r.before, listed[:len(r.before)], bytes.Equal) {
		own = listed[len(r.before):]
	}
	r.driver, r.before = parts[resourceDriver], listed
	of := [4]string{string(parts[resourceDriver]), string(parts[resourcePool]), string(parts[resourceDevice]), string(parts[resourceShare])}
	if r.known[of] {
		return nil
	}
	d := ClaimDevice{}
	err = errors.Join(r.entry(), r.text(&d.Driver, parts[resourceDriver]), r.text(&d.Pool, parts[resourcePool]),
		r.text(&d.Device, parts[resourceDevice]), r.text(&d.ShareID, parts[resourceShare]))
	for _, name := range own {
		if err != nil {
			return err
		}
		d.CDI = append(d.CDI, "")
		err = errors.Join(r.entry(), r.text(&d.CDI[len(d.CDI)-1], name))
	}
	r.known[of] = true
	r.claim.Devices = append(r.claim.Devices, d)
	return err
}
