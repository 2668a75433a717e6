package memory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// ErrReservation is wrapped by the errors of NewCapacity.
var ErrReservation = errors.New("memory reservation does not fit the machine")

// Capacity is the memory that each NUMA node has for pods. It is immutable.
type Capacity struct {
	types []string
	nodes []NodeCapacity // ascending by id
	all   mask.Mask
	index []int // positions in nodes, by id
	// allocatable is indexed by type, then NUMA node id. These are the offers that determine the
	// size of a preferred mask (R-HINT-32, step 2).
	allocatable [][]int64
}

// NodeCapacity is the part of one NUMA node. Types is parallel to Capacity.Types.
type NodeCapacity struct {
	ID    int
	Types []TypeCapacity
}

// TypeCapacity has amounts in bytes. Listed reports whether the NUMA node reports the type at all,
// even if with zero pages (R-MEM-12). If it does not, the amounts are 0.
type TypeCapacity struct {
	Listed                             bool
	Total, SystemReserved, Allocatable int64
}

// NewCapacity returns the capacity of a machine without the memory reserved for the system.
// reserved is indexed by NUMA node id and type (R-MEM-11). A reservation larger than the memory of
// the NUMA node is an error; the reference would wrap around.
func NewCapacity(m *machine.Machine, reserved map[int]map[string]int64) (*Capacity, error) {
	c := &Capacity{types: m.MemoryTypes(), all: m.NodeMask()}
	c.allocatable = make([][]int64, len(c.types))
	for t := range c.types {
		c.allocatable[t] = make([]int64, m.NodeMask().Highest()+1)
	}
	c.index = make([]int, m.NodeMask().Highest()+1)
	for id, amounts := range reserved {
		if _, ok := m.Node(id); !ok {
			return nil, fmt.Errorf("%w: NUMA node %d does not exist on this machine", ErrReservation, id)
		}
		for name := range amounts {
			if m.MemoryType(name) < 0 {
				return nil, fmt.Errorf("%w: NUMA node %d: the machine has no %s", ErrReservation, id, name)
			}
		}
	}
	for _, n := range m.Nodes() {
		node, err := c.nodeCapacity(m, n, reserved[n.ID])
		if err != nil {
			return nil, err
		}
		c.index[n.ID] = len(c.nodes)
		c.nodes = append(c.nodes, node)
		for t := range c.types {
			c.allocatable[t][n.ID] = node.Types[t].Allocatable
		}
	}
	return c, nil
}

func (c *Capacity) nodeCapacity(m *machine.Machine, n machine.Node, reserved map[string]int64) (NodeCapacity, error) {
	node := NodeCapacity{ID: n.ID, Types: make([]TypeCapacity, len(c.types))}
	var huge int64
	for _, p := range n.HugePages {
		bytes := p.Count * p.SizeKiB * 1024
		t := m.MemoryType(machine.HugePageType(p.SizeKiB))
		node.Types[t] = TypeCapacity{Listed: true, Total: bytes}
		huge += bytes
	}
	node.Types[0] = TypeCapacity{Listed: true, Total: n.Memory}
	for t, name := range c.types {
		table := &node.Types[t]
		table.SystemReserved = reserved[name]
		table.Allocatable = table.Total - table.SystemReserved
		if t == 0 {
			table.Allocatable -= huge
		}
		if table.Allocatable < 0 {
			return node, fmt.Errorf("%w: NUMA node %d has %d bytes of %s for pods and huge pages, of which %d are huge pages and %d reserved: reserve less",
				ErrReservation, n.ID, table.Total, name, table.Total-table.SystemReserved-table.Allocatable, table.SystemReserved)
		}
	}
	return node, nil
}

// Equal reports whether both have the same NUMA nodes with the same memory.
func (c *Capacity) Equal(d *Capacity) bool {
	return slices.Equal(c.types, d.types) && slices.EqualFunc(c.nodes, d.nodes, func(a, b NodeCapacity) bool {
		return a.ID == b.ID && slices.Equal(a.Types, b.Types)
	})
}

// Types returns the machine's memory types; see machine.MemoryTypes.
func (c *Capacity) Types() []string { return c.types }

// Nodes returns the NUMA nodes, ascending by id. The caller must not change the slice.
func (c *Capacity) Nodes() []NodeCapacity { return c.nodes }

func (c *Capacity) typeIndex(name string) int { return slices.Index(c.types, name) }
