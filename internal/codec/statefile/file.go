package statefile

import (
	"errors"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Version is the version that is written, and the newest that is read.
const Version = 1

// MaxSize is how many bytes a file has at most: the encoder writes no more, so that what was
// written can always be read, and a larger file is damaged. 250 pods of four containers need half a
// mebibyte. The bound is there because the file is written whole at every admission, while the
// container runtime waits for the answer, two seconds by default.
const MaxSize = 16 << 20

// What is wrong with a file. Every error of Decode wraps one of them. None of such files may be
// overwritten: each may have assignments that are still needed.
var (
	// ErrDamaged: a file of Paddock that is not as Paddock wrote it.
	ErrDamaged = errors.New("damaged")
	// ErrForeign: a file of another program.
	ErrForeign = errors.New("not a state of Paddock")
	// ErrNewer: a file of a Paddock that knows more than this one.
	ErrNewer = errors.New("written by a newer Paddock")
)

// ErrNotEncodable is wrapped by the errors about a grant that could not be read back.
var ErrNotEncodable = errors.New("cannot be written to a state file")

// ErrTooLarge is wrapped by the error about a state with more than a file can have. Nothing is
// wrong with the state: it is the last pod that has no room, and a smaller one may have.
var ErrTooLarge = errors.New("the state would be too large")

// File is the content of a state file.
type File struct {
	Version    int
	Generation uint64
	// Machine and Policy are those under which the grants were made.
	Machine Machine
	Policy  node.Policy
	// Grants ascend by UID. Of what the Topology Manager chose they have the answer without the
	// remarks about the search.
	Grants []*node.Grant
}

// Machine is the summary of a machine.
type Machine struct {
	CPUs cpuset.Set
	// Nodes are its NUMA nodes, ascending by id.
	Nodes []Node
}

// Node is one NUMA node of a summary.
type Node struct {
	ID   int
	CPUs cpuset.Set
	// Memory is in bytes per type; "memory" includes the huge pages.
	Memory request.Amounts
}

// Describe makes the summary of a machine.
func Describe(m *machine.Machine) Machine {
	d := Machine{CPUs: m.AllCPUs()}
	for _, n := range m.Nodes() {
		memory := request.Amounts{{Resource: machine.Memory, Value: n.Memory}}
		for _, p := range n.HugePages {
			memory = memory.With(machine.HugePageType(p.SizeKiB), p.Count*p.SizeKiB*1024)
		}
		d.Nodes = append(d.Nodes, Node{ID: n.ID, CPUs: n.CPUs, Memory: memory})
	}
	return d
}
