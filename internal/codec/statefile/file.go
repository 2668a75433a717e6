package statefile

import (
	"errors"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Version is the version that Encode writes and the newest version that Decode reads.
const Version = 1

// MaxSize is the maximum size of a file, in bytes. The encoder writes no more, so that every
// written file can be read, and Decode rejects a larger file as damaged. 250 pods of four
// containers need half a mebibyte. The bound exists because the whole file is written at every
// admission, while the container runtime waits for the answer, two seconds by default.
const MaxSize = 16 << 20

// The errors for an unusable file. Every error of Decode wraps one of them. Such a file must not be
// overwritten, because it may have assignments that are still needed.
var (
	// ErrDamaged means that the file is from Paddock but is not as Paddock wrote it.
	ErrDamaged = grantform.ErrDamaged
	// ErrForeign means that the file is from another program.
	ErrForeign = errors.New("not a state of Paddock")
	// ErrNewer means that the file is from a Paddock that knows more than this one.
	ErrNewer = grantform.ErrNewer
)

// ErrNotEncodable is wrapped by the error for a grant that could not be read back.
var ErrNotEncodable = grantform.ErrNotEncodable

// ErrTooLarge is wrapped by the error for a state that does not fit into a file. The state itself
// is valid. Only the last pod does not fit, and a smaller one may.
var ErrTooLarge = errors.New("the state would be too large")

// File is the content of a state file.
type File struct {
	Version    int
	Generation uint64
	// Machine and Policy describe the machine and the policy under which the grants were made.
	Machine Machine
	Policy  node.Policy
	// Grants are in ascending order of UID. They have the choice of the Topology Manager, but not
	// the remarks about its search.
	Grants []*node.Grant
}

// Machine is the summary of a machine.
type Machine struct {
	CPUs cpuset.Set
	// Isolated are the kernel's isolated CPUs. It is empty without the option isolated-cpus,
	// because nothing else depends on them.
	Isolated cpuset.Set
	// Caches describes how the L3 caches can be divided. A file has it if the policy divides them.
	Caches machine.Caches
	// Nodes are the machine's NUMA nodes, in ascending order of their ids.
	Nodes []Node
}

// Node is one NUMA node of a summary.
type Node struct {
	ID   int
	CPUs cpuset.Set
	// Memory has the bytes of each type. "memory" includes the huge pages.
	Memory request.Amounts
}

// Describe returns the summary of a machine for a policy.
func Describe(m *machine.Machine, p node.Policy) Machine {
	d := Machine{CPUs: m.AllCPUs(), Isolated: p.CPU.IsolatedCPUs(m)}
	if p.CPU.DividesCaches {
		d.Caches = m.Caches()
	}
	for _, n := range m.Nodes() {
		memory := request.Amounts{{Resource: machine.Memory, Value: n.Memory}}
		for _, p := range n.HugePages {
			memory = memory.With(machine.HugePageType(p.SizeKiB), p.Count*p.SizeKiB*1024)
		}
		d.Nodes = append(d.Nodes, Node{ID: n.ID, CPUs: n.CPUs, Memory: memory})
	}
	return d
}
