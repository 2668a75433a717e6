package inputs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/codec/devicefile"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// MaxFile is the size of the largest file that is read, in bytes. The MachineInfo of the largest
// machines is below 1 MiB.
const MaxFile = 64 << 20

// Names are the names of the inputs for the user. An error begins with the name, unless it is
// empty.
type Names struct{ Machine, Policy, Devices, State, Pods string }

// Flags are the names on the command line, and Fields those in the agent's configuration.
var (
	Flags  = Names{Machine: "--machine", Policy: "--kubelet-config", Devices: "--devices", State: "--state", Pods: "--pods"}
	Fields = Names{Machine: "machine", Policy: "kubeletConfig", Devices: "devices", State: "state"}
)

// Reader reads inputs.
type Reader struct {
	Names Names
	// Stdin is the content of the file "-". If nil, that file cannot be read.
	Stdin io.Reader
	// KeepGoing leaves out kinds of nodes that cannot be read, and adds a note.
	KeepGoing bool
	// Minor is the minor of the Kubernetes whose feature gates a KubeletConfiguration may name. If
	// zero, it is Paddock's own.
	Minor int
	// Gates are the feature gates of the kubelet that runs with a KubeletConfiguration, by name, as
	// far as they are known. Nil means that they follow from the configuration and the minor.
	Gates map[string]bool
	// Stock reads the nodes of a fleet on which a kubelet decides. If nil, a fleet has none.
	Stock StockReader
	// GPU is the resource of the GPUs of a machine that is made of facts. If empty, it is
	// shapes.DefaultGPU.
	GPU string
	// Peers keeps the parts of pods and nodes of a fleet that other pods depend on: labels,
	// affinity, namespaces.
	Peers bool
}

// File reads a file of at most MaxFile bytes.
func (r Reader) File(name string) ([]byte, error) {
	from, err := r.open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := bounded.Read(name, from, MaxFile)
	if err == nil {
		err = bounded.Unpacked(name, data)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (r Reader) open(name string) (io.ReadCloser, error) {
	switch {
	case name != "-":
		return os.Open(name)
	case r.Stdin == nil:
		return nil, errors.New("-: standard input cannot be read here; name a file")
	}
	return io.NopCloser(r.Stdin), nil
}

// named reads the file of an input with the user's name for it, what.
func (r Reader) named(what, name string) ([]byte, error) {
	data, err := r.File(name)
	return data, of(what, err)
}

// of returns the error with the user's name for an input, unless the name is empty.
func of(what string, err error) error {
	if err == nil || what == "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Devices reads an inventory of devices. If name is empty, the inventory is empty.
func (r Reader) Devices(name string, m *machine.Machine) (*device.Inventory, error) {
	if name == "" {
		return device.NewInventory(m, nil)
	}
	data, err := r.named(r.Names.Devices, name)
	if err != nil {
		return nil, err
	}
	return devicefile.Inventory(m, name, data)
}
