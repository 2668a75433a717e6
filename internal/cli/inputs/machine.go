package inputs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/codec/discover"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/replacement"
)

// The limits of a directory that describes a machine. The files of the largest machines have 2 MiB:
// larger ones are about something else.
const (
	maxMachineFile  = 8 << 20
	maxMachineFiles = 1000
)

// Machine reads a recorded machine, or the present machine if the name is discover.LiveName. If the
// name is that of a directory, the machine is combined from the files in it that are about a
// machine.
func (r Reader) Machine(name string) (*discover.Found, error) {
	switch name {
	case discover.LiveName:
		return discover.Live(os.DirFS("/"))
	case "":
		return nil, fmt.Errorf(`%s is empty; expected "live", a file or a directory`, r.Names.Machine)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() && name != "-" {
		files, memory, err := machineFiles(name)
		if err != nil && r.Names.Machine != "" {
			err = fmt.Errorf("%s: %w", r.Names.Machine, err)
		}
		if err != nil {
			return nil, err
		}
		return discover.Assemble(name, files, memory)
	}
	data, err := r.named(r.Names.Machine, name)
	switch {
	case err != nil && r.Names.Machine == Flags.Machine:
		return nil, noMachine(name, err)
	case err != nil:
		return nil, err
	}
	memory, err := kubeletMemory(name, data)
	switch {
	case err != nil && r.Names.Machine != "":
		return nil, fmt.Errorf("%s: %w", r.Names.Machine, err)
	case err != nil:
		return nil, err
	case memory != nil:
		return discover.Assemble(name, nil, []discover.Memory{*memory})
	case discover.Describes(data):
		return discover.Assemble(name, []discover.File{{Name: name, Data: data}}, nil)
	}
	return discover.Read(name, data)
}

// machineFiles returns the files of a directory that are about a machine. It does not read
// subdirectories, files that a repair kept, or files that cannot be about one because of their
// size.
func machineFiles(dir string) (files []discover.File, memory []discover.Memory, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	if len(entries) > maxMachineFiles {
		return nil, nil, fmt.Errorf("%s has more than %d files: expected a directory with the files of one node", dir, maxMachineFiles)
	}
	for _, e := range entries {
		if replacement.IsKept(e.Name()) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		info, err := os.Stat(name) // It follows symbolic links.
		switch {
		case errors.Is(err, fs.ErrNotExist): // A link to nowhere, or a file that was just removed.
			continue
		case err != nil:
			return nil, nil, err
		case !info.Mode().IsRegular() || info.Size() > maxMachineFile:
			continue
		}
		data, err := machineFile(name)
		if err != nil {
			return nil, nil, err
		}
		counted, err := kubeletMemory(name, data)
		switch {
		case err != nil:
			return nil, nil, err
		case counted != nil:
			memory = append(memory, *counted)
		case discover.Describes(data):
			files = append(files, discover.File{Name: name, Data: data})
		}
	}
	return files, memory, nil
}

func machineFile(name string) ([]byte, error) {
	from, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	return bounded.Read(name, from, maxMachineFile)
}

// kubeletMemory returns the memory that a kubelet's memory state counts, or nil if the file is
// something else.
func kubeletMemory(name string, data []byte) (*discover.Memory, error) {
	file, err := kubeletstate.Recognise(data)
	switch {
	case errors.Is(err, kubeletstate.ErrDamaged) && bytes.Contains(data, []byte(`"machineState"`)):
		return nil, fmt.Errorf("%s: the memory state of a kubelet is %w: copy it again", name, err)
	case err != nil || file.Memory == nil:
		return nil, nil //nolint:nilerr,nilnil // It is another file, which is not an error here.
	}
	memory := &discover.Memory{File: name, Nodes: map[int]discover.NodeMemory{}}
	if !file.Valid() {
		memory.Notes = []string{name + ": its checksum is wrong; the memory of the NUMA nodes is used all the same"}
	}
	for id, n := range file.Memory.Nodes {
		if n == nil || n.Tables["memory"] == nil {
			return nil, fmt.Errorf("%s: NUMA node %d has no memory in the memory state of a kubelet: copy the file again", name, id)
		}
		counted := discover.NodeMemory{Total: n.Tables["memory"].Total, HugePages: map[string]uint64{}}
		for resource, table := range n.Tables {
			if resource != "memory" && table != nil {
				counted.HugePages[resource] = table.Total
			}
		}
		memory.Nodes[id] = counted
	}
	return memory, nil
}
