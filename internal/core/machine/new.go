package machine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// ErrInvalid is wrapped by every error that New returns.
var ErrInvalid = errors.New("machine description is not usable")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// New checks a description and returns its machine. Errors name the NUMA node or thread at fault.
// NUMA nodes may be in any order.
func New(d Description) (*Machine, error) {
	if len(d.Nodes) == 0 {
		return nil, invalid("it has no NUMA node")
	}
	if d.CPUs < 0 || d.Sockets < 0 {
		return nil, invalid("it reports %d CPUs and %d sockets", d.CPUs, d.Sockets)
	}
	if err := d.Caches.check(); err != nil {
		return nil, err
	}
	described := slices.Clone(d.Nodes)
	slices.SortFunc(described, func(a, b NodeDescription) int { return cmp.Compare(a.ID, b.ID) })
	m := &Machine{reportedCPUs: d.CPUs, reportedSockets: d.Sockets, isolation: d.Isolation, caches: d.Caches}
	for _, n := range described {
		if err := m.addNode(n); err != nil {
			return nil, err
		}
	}
	if len(m.cpus) == 0 {
		return nil, invalid("no NUMA node lists a CPU")
	}
	slices.SortFunc(m.cpus, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(m.cpus); i++ {
		if a, b := m.cpus[i-1], m.cpus[i]; a.ID == b.ID {
			return nil, invalid("thread %d is listed twice, on NUMA nodes %d and %d", a.ID, a.Node, b.Node)
		}
	}
	if err := cmp.Or(m.checkSums(), m.setDistances(described)); err != nil {
		return nil, err
	}
	m.index()
	if m.reportedCPUs == 0 {
		m.reportedCPUs = len(m.cpus)
	}
	if m.reportedSockets == 0 {
		m.reportedSockets = len(m.sockets)
	}
	if err := m.setL3(d.L3); err != nil {
		return nil, err
	}
	m.even = allHave(m.cores, m.CPUsPerCore()) && allHave(m.sockets, m.CPUsPerSocket())
	return m, nil
}

func (m *Machine) addNode(d NodeDescription) error {
	switch {
	case d.ID < 0 || d.ID > mask.MaxNode:
		return invalid("NUMA node id %d is outside 0..%d", d.ID, mask.MaxNode)
	case m.nodeMask.Has(d.ID):
		return invalid("NUMA node %d is listed twice", d.ID)
	case d.Memory < 0:
		return invalid("NUMA node %d reports %d bytes of memory", d.ID, d.Memory)
	}
	m.nodeMask = m.nodeMask.With(d.ID)
	cpus, err := m.addCores(d)
	if err != nil {
		return err
	}
	pages := slices.Clone(d.HugePages)
	slices.SortFunc(pages, func(a, b HugePages) int { return cmp.Compare(a.SizeKiB, b.SizeKiB) })
	for i, p := range pages {
		if p.SizeKiB <= 0 || p.Count < 0 || p.SizeKiB > math.MaxInt64/1024 ||
			(p.Count > 0 && p.SizeKiB*1024 > math.MaxInt64/p.Count) {
			return invalid("NUMA node %d reports %d huge pages of %d KiB", d.ID, p.Count, p.SizeKiB)
		}
		if i > 0 && pages[i-1].SizeKiB == p.SizeKiB {
			return invalid("NUMA node %d lists huge pages of %d KiB twice", d.ID, p.SizeKiB)
		}
	}
	m.nodes = append(m.nodes, Node{ID: d.ID, CPUs: cpus, Memory: d.Memory, HugePages: pages})
	return nil
}

// checkSums makes sure that amounts can be added over all NUMA nodes without overflow.
func (m *Machine) checkSums() error {
	left := int64(math.MaxInt64)
	for _, n := range m.nodes {
		left -= n.Memory
		for _, p := range n.HugePages {
			if left < 0 {
				break
			}
			left -= p.Count * p.SizeKiB * 1024
		}
		if left < 0 {
			return invalid("up to NUMA node %d its memory and huge pages add up to more than %d bytes", n.ID, int64(math.MaxInt64))
		}
	}
	return nil
}

func (m *Machine) addCores(d NodeDescription) (cpuset.Set, error) {
	var all cpuset.Builder
	for _, core := range d.Cores {
		if len(core.Threads) == 0 {
			return cpuset.Set{}, invalid("NUMA node %d lists a core without threads", d.ID)
		}
		if core.Socket < 0 || core.Uncore < NoUncore {
			return cpuset.Set{}, invalid("NUMA node %d lists a core on socket %d with uncore cache %d", d.ID, core.Socket, core.Uncore)
		}
		id := slices.Min(core.Threads)
		uncore := core.Uncore
		if uncore == NoUncore {
			uncore = core.Socket
		}
		for _, t := range core.Threads {
			if t < 0 || t > cpuset.MaxID {
				return cpuset.Set{}, invalid("NUMA node %d lists thread %d, outside 0..%d", d.ID, t, cpuset.MaxID)
			}
			m.cpus = append(m.cpus, CPU{ID: t, Core: id, Uncore: uncore, Node: d.ID, Socket: core.Socket})
			all.Add(t)
		}
	}
	return all.Set(), nil
}

// index derives everything that lookups use.
func (m *Machine) index() {
	var all cpuset.Builder
	m.byID = make([]int32, m.cpus[len(m.cpus)-1].ID+1)
	for i := range m.byID {
		m.byID[i] = -1
	}
	for i, c := range m.cpus {
		m.byID[c.ID] = int32(i)
		all.Add(c.ID)
	}
	m.all = all.Set()
	m.cpuNodes = m.units(func(c CPU) int { return c.Node })
	m.sockets = m.units(func(c CPU) int { return c.Socket })
	m.uncores = m.units(func(c CPU) int { return c.Uncore })
	m.cores = m.units(func(c CPU) int { return c.Core })
	m.indexPlaces()

	var sizes []int64
	for _, n := range m.nodes {
		for _, p := range n.HugePages {
			if !slices.Contains(sizes, p.SizeKiB) {
				sizes = append(sizes, p.SizeKiB)
			}
		}
	}
	slices.Sort(sizes)
	m.types = append(m.types, Memory)
	for _, size := range sizes {
		m.types = append(m.types, HugePageType(size))
	}
}

func (m *Machine) units(of func(CPU) int) []Unit {
	sets := map[int]*cpuset.Builder{}
	for _, c := range m.cpus {
		id := of(c)
		if sets[id] == nil {
			sets[id] = &cpuset.Builder{}
		}
		sets[id].Add(c.ID)
	}
	units := make([]Unit, 0, len(sets))
	for id, b := range sets {
		set := b.Set()
		units = append(units, Unit{ID: id, CPUs: set, Size: set.Len()})
	}
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.ID, b.ID) })
	return units
}

// setDistances indexes the rows by NUMA node id if they are long enough, and otherwise by position,
// which is how the kernel lists the distances of online NUMA nodes. One missing row makes all
// distances unknown, because an incomplete matrix cannot be used for comparisons.
func (m *Machine) setDistances(described []NodeDescription) error {
	rows := make([][]int, m.nodeMask.Highest()+1)
	for _, d := range described {
		if len(d.Distances) == 0 {
			return nil
		}
		row := make([]int, len(rows))
		for position, other := range described {
			at := other.ID
			if len(d.Distances) <= m.nodeMask.Highest() {
				at, m.shortDistances = position, true
			}
			if at >= len(d.Distances) {
				return invalid("NUMA node %d lists %d distances for %d NUMA nodes", d.ID, len(d.Distances), len(described))
			}
			if row[other.ID] = d.Distances[at]; row[other.ID] < 0 || row[other.ID] > math.MaxInt32 {
				return invalid("the distance from NUMA node %d to %d is %d", d.ID, other.ID, row[other.ID])
			}
		}
		rows[d.ID] = row
	}
	m.distances = rows
	return nil
}
