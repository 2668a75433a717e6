package discover

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/cadvisor/lib/model"
)

// ErrMode is wrapped by the error for a machine that has no such mode, as far as its description
// shows.
var ErrMode = errors.New("no such mode")

// The distances that the firmware usually reports between NUMA nodes of one socket, and of two.
// They are assumed if the machine has no such pair of NUMA nodes.
const (
	localDistance       = 10
	sameSocketDistance  = 12
	otherSocketDistance = 32
)

// pageBytes is the granularity at which memory is divided.
const pageBytes = 4096

// InMode returns the same machine with another number of NUMA nodes per socket: another NPS mode of
// an AMD machine, or another SNC mode of an Intel one. CPUs, cores, caches and sockets keep their
// ids. Remarks list what is assumed. It returns an error that wraps ErrMode if the sockets cannot
// be divided in this way.
func (f *Found) InMode(perSocket int) (*Found, error) {
	if perSocket < 1 {
		return nil, fmt.Errorf("%w: expected a number of NUMA nodes from 1", ErrMode)
	}
	sockets, err := f.socketsOf()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(sockets, func(s socket) bool { return len(s.nodes) != perSocket }) {
		same := *f
		same.Remarks = append([]string{fmt.Sprintf("It already has %d NUMA nodes per socket.", perSocket)}, f.Remarks...)
		return &same, nil
	}
	info := *f.Info
	info.Topology = nil
	m := mode{info: &info, perSocket: perSocket, nodeOf: map[int]int{}}
	for _, s := range sockets {
		if err := m.add(s); err != nil {
			return nil, err
		}
	}
	same, other := f.distances(sockets)
	m.setDistances(cmp.Or(same, sameSocketDistance), cmp.Or(other, otherSocketDistance))
	out, err := found(f.Name, &info, kernel{isolation: f.Machine.Isolation(), caches: f.Machine.Caches()})
	if err != nil {
		return nil, err
	}
	out.Offline = f.Offline
	unplaced := 0
	for _, d := range f.PCI {
		if d.NUMANode != nil {
			to, known := m.nodeOf[*d.NUMANode]
			if d.NUMANode = nil; known {
				d.NUMANode = &to
			} else {
				unplaced++
			}
		}
		out.PCI = append(out.PCI, d)
	}
	out.Remarks = append(m.remarks(same, other, unplaced, len(sockets)), out.Remarks...)
	return out, nil
}

// socket is one socket with its NUMA nodes, in the order of their ids.
type socket struct {
	id    int
	nodes []*model.Node
}

// socketsOf returns the sockets in the order of their first NUMA nodes.
func (f *Found) socketsOf() ([]socket, error) {
	var all []socket
	nodes := make([]*model.Node, len(f.Info.Topology))
	for i := range nodes {
		nodes[i] = &f.Info.Topology[i]
	}
	slices.SortFunc(nodes, func(a, b *model.Node) int { return cmp.Compare(a.Id, b.Id) })
	for _, n := range nodes {
		if len(n.Cores) == 0 {
			return nil, fmt.Errorf("%w: NUMA node %d has no CPUs, and it is not known how its memory would be divided", ErrMode, n.Id)
		}
		id := n.Cores[0].SocketID
		if slices.ContainsFunc(n.Cores, func(c model.Core) bool { return c.SocketID != id }) {
			return nil, fmt.Errorf("%w: NUMA node %d has cores of several sockets", ErrMode, n.Id)
		}
		at := slices.IndexFunc(all, func(s socket) bool { return s.id == id })
		if at < 0 {
			at, all = len(all), append(all, socket{id: id})
		}
		all[at].nodes = append(all[at].nodes, n)
	}
	return all, nil
}

// mode is a machine in another mode, in progress.
type mode struct {
	info      *model.MachineInfo
	perSocket int
	// nodeOf maps each old NUMA node to the new one that has all of its cores. Others are missing.
	nodeOf map[int]int
}

// add divides a socket.
func (m *mode) add(s socket) error {
	var cores []model.Core
	var memory uint64
	var caches []model.Cache // Each part of the socket reaches all of them.
	pages := map[uint64]uint64{}
	var sizes []uint64
	for _, n := range s.nodes {
		cores = append(cores, n.Cores...)
		memory += n.Memory
		caches = append(caches, n.Caches...)
		for _, p := range n.HugePages {
			if !slices.Contains(sizes, p.PageSize) {
				sizes = append(sizes, p.PageSize)
			}
			pages[p.PageSize] += p.NumPages
		}
	}
	parts, err := m.divide(s.id, cores)
	if err != nil {
		return err
	}
	k := uint64(m.perSocket)
	for _, part := range parts {
		n := model.Node{Id: len(m.info.Topology), Memory: memory / k / pageBytes * pageBytes, Cores: part, Caches: caches}
		for _, size := range sizes {
			n.HugePages = append(n.HugePages, model.HugePagesInfo{PageSize: size, NumPages: pages[size] / k})
		}
		for _, old := range s.nodes {
			if !slices.ContainsFunc(old.Cores, func(c model.Core) bool { return !contains(part, c) }) {
				m.nodeOf[old.Id] = n.Id
			}
		}
		m.info.Topology = append(m.info.Topology, n)
	}
	return nil
}

func contains(cores []model.Core, c model.Core) bool {
	return slices.ContainsFunc(cores, func(x model.Core) bool { return x.Threads[0] == c.Threads[0] })
}

// divide divides the cores of a socket into equal parts. No part has only some of the cores of an
// L3 cache, unless the socket has one such cache, or none is listed.
func (m *mode) divide(socket int, cores []model.Core) ([][]model.Core, error) {
	cache := func(c model.Core) int {
		if len(c.UncoreCaches) == 0 {
			return -1
		}
		return c.UncoreCaches[0].Id
	}
	var units [][]model.Core // the cores of each cache
	at := map[int]int{}
	for _, c := range cores {
		i, seen := at[cache(c)]
		if !seen {
			i = len(units)
			at[cache(c)] = i
			units = append(units, nil)
		}
		units[i] = append(units[i], c)
	}
	what := "L3 caches"
	if len(units) == 1 {
		units, what = nil, "cores"
		for _, c := range cores {
			units = append(units, []model.Core{c})
		}
	}
	if len(units)%m.perSocket != 0 {
		return nil, fmt.Errorf("%w: socket %d has %d %s, which %d NUMA nodes cannot share equally", ErrMode, socket, len(units), what, m.perSocket)
	}
	var parts [][]model.Core
	for part := range slices.Chunk(units, len(units)/m.perSocket) {
		parts = append(parts, slices.Concat(part...))
	}
	return parts, nil
}

// distances returns the smallest distance between two NUMA nodes of one socket, and the largest
// between those of two sockets. They are 0 if there are no such NUMA nodes, or no distances.
func (f *Found) distances(sockets []socket) (same, other int) {
	of, position := map[int]int{}, map[int]int{}
	for _, s := range sockets {
		for _, n := range s.nodes {
			of[n.Id] = s.id
		}
	}
	for i := range f.Info.Topology {
		position[i] = f.Info.Topology[i].Id
	}
	for _, n := range f.Info.Topology {
		for i, d := range n.Distances {
			to, known := position[i]
			switch {
			case !known || to == n.Id:
			case of[to] == of[n.Id] && (same == 0 || int(d) < same):
				same = int(d)
			case of[to] != of[n.Id]:
				other = max(other, int(d))
			}
		}
	}
	return same, other
}

func (m *mode) setDistances(same, other int) {
	for i := range m.info.Topology {
		n := &m.info.Topology[i]
		for k := range m.info.Topology {
			d := other
			switch {
			case i == k:
				d = localDistance
			case i/m.perSocket == k/m.perSocket:
				d = same
			}
			n.Distances = append(n.Distances, uint64(d))
		}
	}
}

// remarks lists the assumptions.
func (m *mode) remarks(same, other, unplaced, sockets int) []string {
	text := fmt.Sprintf("Shown with %d NUMA nodes per socket. Assumption: each socket is split into %d equal parts, its cores in the order in which they are listed, its memory and huge pages equally.", m.perSocket, m.perSocket)
	if m.perSocket == 1 {
		text = "Shown with 1 NUMA node per socket."
	}
	out := []string{text}
	if same == 0 && m.perSocket > 1 {
		out = append(out, fmt.Sprintf("The distance %d between NUMA nodes of one socket is assumed.", sameSocketDistance))
	}
	if other == 0 && sockets > 1 {
		out = append(out, fmt.Sprintf("The distance %d between NUMA nodes of two sockets is assumed.", otherSocketDistance))
	}
	if unplaced > 0 {
		out = append(out, fmt.Sprintf("The NUMA nodes of %d PCI devices are not known in this mode.", unplaced))
	}
	return out
}
