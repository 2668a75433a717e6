package doctor

import (
	"fmt"
	"maps"
	"math"
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

// chargeAll charges what the pods have (R-MEM-71). For each pod these are its own blocks if the
// kubelet sees pools and the pod has any, otherwise the blocks of its containers. It skips pods
// without containers (R-MEM-74). The error names the container and what the machine does not have,
// in the words of the kubelet.
func (a accounting) chargeAll(m *kubeletstate.Memory, pools bool) error {
	charge := func(block kubeletstate.Block) error {
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
			for _, block := range blocks {
				if err := charge(block); err != nil {
					return fmt.Errorf("[memorymanager] (pod: %s, container: %s) %w", uid, name, err)
				}
			}
		}
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

// MemoryBeyond returns what the memory accounting of the file has beyond the blocks of its pods, by
// the groups of NUMA nodes in the file. pools counts the pools of pods instead of their containers.
// It returns nil if there is no memory file, and an error if a group is not one of the machine.
func (s *State) MemoryBeyond(c *memory.Capacity, pools bool) ([]memory.Excess, error) {
	if s.Memory == nil {
		return nil, nil
	}
	fresh := newAccounting(c)
	if err := fresh.chargeAll(s.Memory, pools); err != nil {
		return nil, err
	}
	var all []memory.Excess
	seen := map[mask.Mask]bool{}
	for _, id := range slices.Sorted(maps.Keys(s.Memory.Nodes)) {
		have, expected := s.Memory.Nodes[id], fresh[id]
		if have == nil || expected == nil {
			continue
		}
		absent := func(cell int) bool { return fresh[cell] == nil }
		if len(have.Cells) == 0 || slices.ContainsFunc(have.Cells, absent) {
			return nil, fmt.Errorf("the memory accounting has NUMA node %d in a group with %s, which the machine does not have", id, numbers(have.Cells))
		}
		e := memory.Excess{Nodes: mask.Of(have.Cells...), Blocks: have.Assignments - expected.Assignments, Bytes: make([]int64, len(c.Types()))}
		if seen[e.Nodes] {
			continue
		}
		seen[e.Nodes] = true
		for t, name := range c.Types() {
			assigned, _ := accounting(s.Memory.Nodes).group(have.Cells, name)
			should, _ := fresh.group(have.Cells, name)
			if assigned > math.MaxInt64/2 || should > math.MaxInt64/2 {
				return nil, fmt.Errorf("NUMA nodes %s have %d bytes of %s assigned, which no machine has", numbers(have.Cells), assigned, name)
			}
			e.Bytes[t] = int64(assigned) - int64(should)
		}
		if e.Blocks != 0 || slices.ContainsFunc(e.Bytes, func(n int64) bool { return n != 0 }) {
			all = append(all, e)
		}
	}
	return all, nil
}
