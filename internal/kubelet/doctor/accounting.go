package doctor

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// accounting is the machine state of a memory file: the NUMA nodes by id. Its arithmetic is that of
// the kubelet: unsigned, and an amount that does not fit is dropped (R-MEM-39).
type accounting map[int]*kubeletstate.NodeState

// newAccounting returns the accounting of a machine without pods (R-MEM-11).
func newAccounting(c *memory.Capacity) accounting {
	b := accounting{}
	for _, n := range c.Nodes() {
		state := &kubeletstate.NodeState{Tables: map[string]*kubeletstate.Table{}, Cells: []int{n.ID}}
		for t, name := range c.Types() {
			if has := n.Types[t]; has.Listed {
				state.Tables[name] = &kubeletstate.Table{
					Total: uint64(has.Total), SystemReserved: uint64(has.SystemReserved),
					Allocatable: uint64(has.Allocatable), Free: uint64(has.Allocatable),
				}
			}
		}
		b[n.ID] = state
	}
	return b
}

// emptied returns the accounting of the same machine without pods.
func (a accounting) emptied() accounting {
	out := accounting{}
	for id, n := range a {
		state := &kubeletstate.NodeState{Tables: map[string]*kubeletstate.Table{}, Cells: []int{id}}
		if n != nil {
			for name, t := range n.Tables {
				if t != nil {
					state.Tables[name] = &kubeletstate.Table{Total: t.Total, SystemReserved: t.SystemReserved, Allocatable: t.Allocatable, Free: t.Allocatable}
				}
			}
		}
		out[id] = state
	}
	return out
}

// owner is the container of blocks, or the first one of the pod whose blocks they are.
type owner struct{ uid, container string }

// charges yields the blocks that a kubelet charges (R-MEM-71), by UID and name of the container.
// For each pod these are its own blocks if the kubelet sees pools and the pod has any, otherwise
// the blocks of its containers. It skips pods without containers (R-MEM-74).
func charges(m *kubeletstate.Memory, pools bool) iter.Seq2[owner, []kubeletstate.Block] {
	return func(yield func(owner, []kubeletstate.Block) bool) {
		for _, uid := range slices.Sorted(maps.Keys(m.Entries)) {
			containers := m.Entries[uid]
			pooled := pools && len(m.Pools[uid]) > 0
			for i, name := range slices.Sorted(maps.Keys(containers)) {
				blocks := containers[name]
				if pooled {
					blocks = m.Pools[uid]
				}
				if pooled && i > 0 {
					break
				}
				if !yield(owner{uid, name}, blocks) {
					return
				}
			}
		}
	}
}

// chargeAll charges what the pods have. The error names the container and what the machine does not
// have, in the words of the kubelet.
func (a accounting) chargeAll(m *kubeletstate.Memory, pools bool) error {
	for of, blocks := range charges(m, pools) {
		for _, block := range blocks {
			if err := a.charge(block); err != nil {
				return fmt.Errorf("[memorymanager] (pod: %s, container: %s) %w", of.uid, of.container, err)
			}
		}
	}
	return nil
}

func (a accounting) charge(block kubeletstate.Block) error {
	left := block.Size
	for _, id := range block.Nodes {
		n := a[id]
		if n == nil {
			return fmt.Errorf("the memory assignment uses the NUMA that does not exist")
		}
		n.Assignments++
		n.Cells = block.Nodes
		table := n.Tables[block.Type]
		if table == nil {
			return fmt.Errorf("the memory assignment uses memory resource that does not exist")
		}
		part := min(left, table.Free)
		table.Free -= part
		table.Reserved += part
		left -= part
	}
	return nil
}

// differences compares a stored accounting with the expected one (R-MEM-72) and returns one line
// per difference.
func (a accounting) differences(want accounting) []string {
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(want)) {
		have, ok := a[id]
		if !ok || have == nil {
			lines = append(lines, fmt.Sprintf("NUMA node %d is on the machine and not in the file", id))
			continue
		}
		lines = append(lines, a.nodeDifferences(id, have, want)...)
	}
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if want[id] == nil {
			lines = append(lines, fmt.Sprintf("NUMA node %d is in the file and not on the machine", id))
		}
	}
	return lines
}

// foreign returns why the stored accounting cannot belong to the machine of the expected one with
// the same reservation, or zero. It does not depend on what pods have.
func (a accounting) foreign(want accounting) Foreign {
	ids := func(in, notIn accounting) (ids []int) {
		for _, id := range slices.Sorted(maps.Keys(in)) {
			if notIn[id] == nil {
				ids = append(ids, id)
			}
		}
		return ids
	}
	if lacks := ids(want, a); len(lacks) > 0 {
		return Foreign{fmt.Sprintf("the machine has %s, which the file does not have", numaNodes(lacks)), true}
	}
	if more := ids(a, want); len(more) > 0 {
		return Foreign{fmt.Sprintf("the file has %s, which the machine does not have", numaNodes(more)), true}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(want[id].Tables))) { // memory before huge pages
			if why := foreignTable(id, name, a[id].Tables[name], want[id].Tables[name]); why != (Foreign{}) {
				return why
			}
		}
	}
	return Foreign{}
}

// maxDrift is the divisor for the largest change of the kernel's own use: at most 1/maxDrift of a
// NUMA node's memory. A crash kernel of 256 MiB takes an eighth of a machine with 2 GiB.
const maxDrift = 8

func foreignTable(id int, name string, have, should *kubeletstate.Table) Foreign {
	switch {
	case have == nil:
		return Foreign{Why: fmt.Sprintf("the file has no %s, which the machine has", name)}
	case have.Total != should.Total:
		less, more := min(have.Total, should.Total), max(have.Total, should.Total)
		return Foreign{
			Why:     fmt.Sprintf("NUMA node %d has %s of %s in the file and %s on the machine", id, request.Bytes(have.Total), name, request.Bytes(should.Total)),
			Machine: name == request.Memory && more-less > more/maxDrift, // Huge pages are a setting.
		}
	case have.SystemReserved != should.SystemReserved:
		return Foreign{Why: fmt.Sprintf("%s of %s are reserved on NUMA node %d in the file and %s in the configuration",
			request.Bytes(have.SystemReserved), name, id, request.Bytes(should.SystemReserved))}
	}
	return Foreign{}
}

// sameMemory reports whether another accounting has the same NUMA nodes with the same memory.
func (a accounting) sameMemory(b accounting) bool {
	return maps.EqualFunc(a, b, func(x, y *kubeletstate.NodeState) bool {
		if x == nil || y == nil {
			return false
		}
		have, should := x.Tables[request.Memory], y.Tables[request.Memory]
		return have != nil && should != nil && have.Total == should.Total
	})
}

func (a accounting) nodeDifferences(id int, have *kubeletstate.NodeState, want accounting) []string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf("NUMA node %d: ", id)+fmt.Sprintf(format, args...))
	}
	should := want[id]
	if have.Assignments != should.Assignments {
		add("the memory accounting counts %d assignments, the pods' entries make %d", have.Assignments, should.Assignments)
	}
	set := func(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }
	sameCells := slices.Equal(set(have.Cells), set(should.Cells))
	if !sameCells {
		add("the memory accounting has it in a group with %s, the pods' entries make %s", numbers(have.Cells), numbers(should.Cells))
	}
	for _, name := range slices.Sorted(maps.Keys(should.Tables)) {
		if have.Tables[name] == nil {
			add("the machine has %s, the file does not know it", name)
			continue
		}
		lines = append(lines, a.tableDifferences(id, name, want, sameCells)...)
	}
	for _, name := range slices.Sorted(maps.Keys(have.Tables)) {
		if should.Tables[name] == nil {
			add("the file has %s, which the machine does not have", name)
		}
	}
	return lines
}

func (a accounting) tableDifferences(id int, name string, want accounting, sameCells bool) []string {
	var lines []string
	add := func(what string, have, should uint64) {
		if have != should {
			lines = append(lines, fmt.Sprintf("NUMA node %d: %s of %s: the file has %s, now it is %s (%s)", id, what, name, request.Bytes(have), request.Bytes(should), change(have, should)))
		}
	}
	have, should := a[id].Tables[name], want[id].Tables[name]
	add("total", have.Total, should.Total)
	add("system reserved", have.SystemReserved, should.SystemReserved)
	if have.Total == should.Total && have.SystemReserved == should.SystemReserved {
		add("allocatable", have.Allocatable, should.Allocatable)
	} else if have.Allocatable != should.Allocatable {
		lines[len(lines)-1] += fmt.Sprintf(", allocatable %s", change(have.Allocatable, should.Allocatable))
	}
	if !sameCells || len(a[id].Cells) == 0 || slices.Min(a[id].Cells) != id {
		return lines // compare a group only once
	}
	assignedHave, freeHave := a.group(a[id].Cells, name)
	assignedWant, freeWant := want.group(a[id].Cells, name)
	where := fmt.Sprintf("NUMA node %d", id)
	if len(a[id].Cells) > 1 {
		where = "NUMA nodes " + numbers(a[id].Cells)
	}
	switch {
	case assignedHave != assignedWant:
		lines = append(lines, fmt.Sprintf("%s: the memory accounting has %s of %s assigned, the pods' entries add up to %s", where, request.Bytes(assignedHave), name, request.Bytes(assignedWant)))
	case freeHave != freeWant && len(lines) == 0:
		lines = append(lines, fmt.Sprintf("%s: the memory accounting has %s of %s free, it should be %s", where, request.Bytes(freeHave), name, request.Bytes(freeWant)))
	case freeHave != freeWant:
	}
	return lines
}

// group returns the assigned and the free bytes of a group of NUMA nodes.
func (a accounting) group(cells []int, name string) (assigned, free uint64) {
	for _, id := range cells {
		if n := a[id]; n != nil && n.Tables[name] != nil {
			assigned += n.Tables[name].Reserved
			free += n.Tables[name].Free
		}
	}
	return assigned, free
}

// numaNodes returns a text such as "NUMA nodes 2, 3", for any ids that a file can have.
func numaNodes(ids []int) string {
	if len(ids) == 1 {
		return "NUMA node " + numbers(ids)
	}
	return "NUMA nodes " + numbers(ids)
}

func numbers(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	var words []string
	for _, n := range slices.Sorted(slices.Values(list)) {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ", ")
}

func change(from, to uint64) string {
	if to > from {
		return request.Bytes(to-from) + " more"
	}
	return request.Bytes(from-to) + " less"
}

// Accounting returns the memory accounting of the file by NUMA node, ascending, after the kubelet
// has released what the pods in gone have there. pools counts the pools of pods instead of their
// containers. It returns nil if there is no memory file, and an error if the machine does not have
// what the file has.
func (s *State) Accounting(c *memory.Capacity, gone []string, pools bool) ([]memory.NodeUsage, error) {
	if s.Memory == nil {
		return nil, nil
	}
	nodes := memory.NewUsage(c).Nodes()
	for i := range nodes {
		n, has := &nodes[i], s.Memory.Nodes[nodes[i].ID]
		if has == nil {
			continue
		}
		absent := func(cell int) bool {
			return !slices.ContainsFunc(nodes, func(n memory.NodeUsage) bool { return n.ID == cell })
		}
		if len(has.Cells) == 0 || slices.ContainsFunc(has.Cells, absent) {
			return nil, fmt.Errorf("the memory accounting has NUMA node %d in a group with %s, which the machine does not have", n.ID, numbers(has.Cells))
		}
		n.Assignments, n.Group = has.Assignments, mask.Of(has.Cells...)
		for t, name := range c.Types() {
			table := has.Tables[name]
			if table == nil {
				continue
			}
			if table.Reserved > uint64(c.Nodes()[i].Types[t].Allocatable) {
				return nil, fmt.Errorf("the memory accounting has %d bytes of %s assigned on NUMA node %d, which has %d for pods", table.Reserved, name, n.ID, c.Nodes()[i].Types[t].Allocatable)
			}
			n.Reserved[t] = int64(table.Reserved)
		}
	}
	usage := memory.NewUsage(c).Found(nodes)
	for of, blocks := range charges(s.Memory, pools) {
		if !slices.Contains(gone, of.uid) {
			continue
		}
		released, _, err := fromBlocks(blocks)
		if err != nil {
			return nil, err
		}
		usage = usage.Release(released)
	}
	return usage.Nodes(), nil
}
