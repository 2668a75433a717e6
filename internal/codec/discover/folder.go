package discover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
)

// File is a file by name and content. The name is used only in messages, because the content
// determines what a file is.
type File struct {
	Name string
	Data []byte
}

// Memory is the memory of a machine as a kubelet counts it. Nodes is empty if the kubelet's Memory
// Manager does not count memory, as with the policy None.
type Memory struct {
	// File is the name of the file. It is used in messages only.
	File  string
	Nodes map[int]NodeMemory
	// Notes are about the file.
	Notes []string
}

// NodeMemory is the memory of one NUMA node, in bytes. Total includes the huge pages. HugePages has
// the size of each pool by its resource name, such as "hugepages-2Mi".
type NodeMemory struct {
	Total     uint64
	HugePages map[string]uint64
}

// The commands and programs that make the files, for messages.
const (
	tableCommand = `"lscpu -J -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE"`
	numaCommand  = `"numactl -H"`
	memoryFile   = "/var/lib/kubelet/memory_manager_state"
	sameNode     = "take both files from the same node, at the same time"
)

// kind is what a file describes, according to its content.
type kind int

const (
	foreign     kind = iota // nothing about the machine
	machineInfo             // all of it, as Read reads it
	lscpuTable              // CPUs, as "lscpu -J -e" writes them
	lscpuText               // CPUs, as "lscpu -J" writes them
	numactlText             // NUMA nodes, as "numactl -H" writes them
	kernelText              // isolation, as "grep -H" writes the kernel's files
	resctrlText             // caches, as "grep -H" writes the files of resctrl
)

// The beginnings of the files of lscpu. Its JSON is not always valid, so it is recognised as text.
var (
	tableBegin   = regexp.MustCompile(`(?i)^\{\s*"cpus"\s*:\s*\[\s*\{[^{}]*"cpu"\s*:`)
	summaryBegin = regexp.MustCompile(`^\{\s*"lscpu"\s*:\s*\[\s*\{\s*"field"`)
)

func kindOf(data []byte) kind {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return foreign
	case data[0] != '{' && nodeLine.Match(data):
		return numactlText
	case data[0] != '{' && kernelLine.Match(data):
		return kernelText
	case data[0] != '{' && resctrlLine.Match(data):
		return resctrlText
	case data[0] != '{':
		return foreign
	case tableBegin.Match(data):
		return lscpuTable
	case summaryBegin.Match(data):
		return lscpuText
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		// Read explains what is wrong with a damaged file.
		if bytes.Contains(data, []byte(`"topology"`)) && bytes.Contains(data, []byte(`"num_cores"`)) {
			return machineInfo
		}
		return foreign
	}
	_, hasTopology := fields["topology"]
	if _, hasCPUs := fields["num_cores"]; hasTopology && hasCPUs {
		return machineInfo
	}
	return foreign
}

// Describes reports whether a file is about a machine: a MachineInfo, or one of the files that
// Assemble combines.
func Describes(data []byte) bool { return kindOf(data) != foreign }

// Assemble combines what can be taken from a node without Paddock: the output of "lscpu -J -e",
// that of "numactl -H", the kernel's files about isolation and caches as "grep -H" writes them,
// and the memory that the node's kubelet counts. It ignores files about something else. name is
// the directory of the files, or the only file. If one of the files is a MachineInfo, that is the
// machine.
//
// Contradictions between files are errors. What the files leave open is a note of the machine.
func Assemble(name string, files []File, memory []Memory) (*Found, error) {
	p := parts{name: name}
	if err := p.sort(files, memory); err != nil {
		return nil, err
	}
	if p.info != nil {
		return Read(p.info.Name, p.info.Data)
	}
	if err := p.read(); err != nil {
		return nil, err
	}
	info, err := p.combine()
	if err != nil {
		return nil, err
	}
	f, err := found(name, info, p.about)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.Offline, f.Notes = p.cpus.offline, p.notes
	if !f.Offline.IsEmpty() {
		f.add("Offline CPUs are left out: %s.", f.Offline)
	}
	return f, nil
}

// parts are the files about one machine.
type parts struct {
	name                             string
	info, table, summary, numactlOut *File
	kernel, resctrl                  *File
	memory                           *Memory

	// The following are read from the files.
	cpus      *cpuList
	numa      *numaList
	placement []placement // to compare with cpus
	about     kernel
	notes     []string
}

// placement maps NUMA nodes to their CPUs according to a file.
type placement struct {
	file string
	cpus map[int]nodeCPUs
}

// sort recognises the files. There can be only one of each kind.
func (p *parts) sort(files []File, memory []Memory) error {
	by := map[kind][]*File{}
	for i := range files {
		k := kindOf(files[i].Data)
		by[k] = append(by[k], &files[i])
	}
	for _, of := range []struct {
		kind kind
		what string
		to   **File
	}{
		{machineInfo, "machines", &p.info},
		{lscpuTable, `outputs of "lscpu -J -e"`, &p.table},
		{lscpuText, `outputs of "lscpu -J"`, &p.summary},
		{numactlText, "outputs of " + numaCommand, &p.numactlOut},
		{kernelText, "files about isolated CPUs", &p.kernel},
		{resctrlText, "files about the division of caches", &p.resctrl},
	} {
		switch list := by[of.kind]; len(list) {
		case 0:
		case 1:
			*of.to = list[0]
		default:
			return fmt.Errorf("%s has %d %s, among them %s and %s: keep the files of one node there, or name one file",
				p.name, len(list), of.what, list[0].Name, list[1].Name)
		}
		if p.info != nil {
			return nil
		}
	}
	switch len(memory) {
	case 0:
	case 1:
		p.memory = &memory[0]
	default:
		return fmt.Errorf("%s has %d memory states of a kubelet, among them %s and %s: keep the files of one node there",
			p.name, len(memory), memory[0].File, memory[1].File)
	}
	return nil
}

// read parses the files, and returns an error if they lack CPUs or memory.
func (p *parts) read() (err error) {
	if p.numactlOut != nil {
		if p.numa, err = readNumactl(*p.numactlOut); err != nil {
			return err
		}
		p.placement = append(p.placement, placement{p.numa.file, p.numa.cpus})
	}
	if p.kernel != nil {
		if p.about.isolation, err = readKernel(*p.kernel); err != nil {
			return err
		}
	}
	if p.resctrl != nil {
		if p.about.caches, p.about.ids, err = readResctrl(*p.resctrl).caches(); err != nil {
			return fmt.Errorf("%s: %w", p.resctrl.Name, err)
		}
	}
	var summary *cpuSummary
	if p.summary != nil {
		if summary, err = readSummary(*p.summary); err != nil {
			return err
		}
	}
	switch {
	case p.table != nil:
		if p.cpus, err = readTable(*p.table); err != nil {
			return err
		}
		if summary != nil {
			p.placement = append(p.placement, placement{summary.file, summary.cpus})
		}
	case summary != nil:
		var why string
		if p.cpus, why = summary.list(); why != "" {
			return p.missing(fmt.Sprintf("%s is the summary of lscpu, which does not list %s", summary.file, why), "the output of "+tableCommand)
		}
	case p.numa == nil && p.memory == nil:
		return fmt.Errorf("%s has no file about the machine: expected what \"paddock topology -o json\" writes on the node; without Paddock there, expected the output of %s and a copy of %s, or the output of %s",
			p.name, tableCommand, memoryFile, numaCommand)
	default:
		return p.missing("the CPUs and cores of the machine are missing", "the output of "+tableCommand)
	}
	p.notes = append(p.notes, p.cpus.notes...)
	switch counts := p.memory != nil && len(p.memory.Nodes) > 0; {
	case counts || p.numa != nil:
		return nil
	case p.memory != nil:
		return p.missing(fmt.Sprintf("%s has no memory, because the policy of the kubelet's Memory Manager is None", p.memory.File), "the output of "+numaCommand)
	}
	return p.missing("the memory of the NUMA nodes is missing", fmt.Sprintf("a copy of the node's %s, which is exact, or the output of %s, which is in MiB", memoryFile, numaCommand))
}

// missing returns an error about a missing file. what begins with the name of a file, or concerns
// all files.
func (p *parts) missing(what, file string) error {
	if !strings.HasPrefix(what, p.name) {
		what = p.name + ": " + what
	}
	if p.alone() {
		return fmt.Errorf("%s: name a directory that has this file and %s", what, file)
	}
	return fmt.Errorf("%s: add %s", what, file)
}

// alone reports whether there is only one file, which is not in a directory.
func (p *parts) alone() bool {
	named := func(f *File) bool { return f != nil && f.Name == p.name }
	return slices.ContainsFunc([]*File{p.table, p.summary, p.numactlOut}, named) || p.memory != nil && p.memory.File == p.name
}

func (p *parts) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// checkNode returns an error for an id of a NUMA node that no machine has.
func checkNode(id int) error {
	if id < 0 || id > mask.MaxNode {
		return fmt.Errorf("NUMA node id %d is outside 0..%d", id, mask.MaxNode)
	}
	return nil
}
