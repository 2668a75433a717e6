package state

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
)

// dump is the text over which a checksum is computed: the kubelet's Go value, printed with its
// types (R-ST-21). A field of a struct is preceded by its type; elements of maps and lists are not.
// Nil is printed as "<nil>".
type dump []byte

// sum returns the FNV-1a hash of the dump (R-ST-20).
func (d dump) sum() uint64 {
	h := fnv.New32a()
	_, _ = h.Write(d) // a hash never fails
	return uint64(h.Sum32())
}

func (d dump) text(parts ...string) dump {
	for _, part := range parts {
		d = append(d, part...)
	}
	return d
}

func (d dump) number(n int) dump { return strconv.AppendInt(d, int64(n), 10) }

func (d dump) unsigned(n uint64) dump { return strconv.AppendUint(d, n, 10) }

// The type names under which the checkpoints are printed (R-ST-22).
const (
	cpuType    = "CPUManagerCheckpoint"
	memoryType = "MemoryManagerCheckpoint"
)

func (d dump) head(typeName, policy string) dump {
	return d.text("(*state.", typeName, "){PolicyName:(string)", policy)
}

// tail is the end of every checkpoint. The checksum field itself counts as 0.
const tail = " Checksum:(checksum.Checksum)0}"

// dumpMap prints a map with its keys in ascending order.
func dumpMap[K cmp.Ordered, V any](d dump, m map[K]V, key func(dump, K) dump, value func(dump, V) dump) dump {
	if m == nil {
		return d.text("<nil>")
	}
	d = d.text("map[")
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			d = d.text(" ")
		}
		d = value(key(d, k).text(":"), m[k])
	}
	return d.text("]")
}

func dumpList[V any](d dump, list []V, value func(dump, V) dump) dump {
	if list == nil {
		return d.text("<nil>")
	}
	d = d.text("[")
	for i, v := range list {
		if i > 0 {
			d = d.text(" ")
		}
		d = value(d, v)
	}
	return d.text("]")
}

func word(d dump, s string) dump { return d.text(s) }

func (d dump) words(m map[string]string) dump { return dumpMap(d, m, word, word) }

func (d dump) cpuEntries(m map[string]map[string]string) dump {
	return dumpMap(d.text(" Entries:(map[string]map[string]string)"), m, word, dump.words)
}

func (d dump) cpuPool(p cpuPool) dump {
	d = d.text("{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map[")
	first := true
	for id := range p.set.All() {
		if !first {
			d = d.text(" ")
		}
		first = false
		d = d.number(id).text(":{}")
	}
	return d.text("]}}")
}

func (c *cpuV1) sum(typeName string) uint64 {
	d := dump(nil).head(typeName, c.PolicyName).text(" DefaultCPUSet:(string)", c.DefaultCPUSet)
	return d.text(" Entries:(map[string]string)").words(c.Entries).text(tail).sum()
}

func (c *cpuV2) sum(typeName string) uint64 {
	d := dump(nil).head(typeName, c.PolicyName).text(" DefaultCPUSet:(string)", c.DefaultCPUSet)
	return d.cpuEntries(c.Entries).text(tail).sum()
}

func (c *cpuV3) sum(typeName string) uint64 {
	d := dump(nil).head(typeName, c.PolicyName).text(" DefaultCPUSet:(string)", c.DefaultCPUSet)
	d = d.cpuEntries(c.Entries).text(" PodEntries:(state.PodCPUAssignments)")
	return dumpMap(d, c.PodEntries, word, dump.cpuPool).text(tail).sum()
}

func (d dump) table(t *Table) dump {
	if t == nil {
		return d.text("<nil>")
	}
	d = d.text("<*>{TotalMemSize:(uint64)").unsigned(t.Total)
	d = d.text(" SystemReserved:(uint64)").unsigned(t.SystemReserved)
	d = d.text(" Allocatable:(uint64)").unsigned(t.Allocatable)
	d = d.text(" Reserved:(uint64)").unsigned(t.Reserved)
	return d.text(" Free:(uint64)").unsigned(t.Free).text("}")
}

func (d dump) node(n *NodeState) dump {
	if n == nil {
		return d.text("<nil>")
	}
	d = d.text("<*>{NumberOfAssignments:(int)").number(n.Assignments)
	d = dumpMap(d.text(" MemoryMap:(map[v1.ResourceName]*state.MemoryTable)"), n.Tables, word, dump.table)
	return dumpList(d.text(" Cells:([]int)"), n.Cells, dump.number).text("}")
}

func (d dump) block(b Block) dump {
	d = dumpList(d.text("{NUMAAffinity:([]int)"), b.Nodes, dump.number)
	return d.text(" Type:(v1.ResourceName)", b.Type, " Size:(uint64)").unsigned(b.Size).text("}")
}

func (d dump) blocks(list []Block) dump { return dumpList(d, list, dump.block) }

func (d dump) memoryPool(p memoryPool) dump {
	return d.text("{MemoryBlocks:([]state.Block)").blocks(p.MemoryBlocks).text("}")
}

func (d dump) memory(nodes map[int]*NodeState, entries map[string]map[string][]Block) dump {
	d = dumpMap(d.text(" MachineState:(state.NUMANodeMap)"), nodes, dump.number, dump.node)
	containers := func(d dump, m map[string][]Block) dump { return dumpMap(d, m, word, dump.blocks) }
	return dumpMap(d.text(" Entries:(state.ContainerMemoryAssignments)"), entries, word, containers)
}

func (m *memoryV1) sum(typeName string) uint64 {
	return dump(nil).head(typeName, m.PolicyName).memory(m.MachineState, m.Entries).text(tail).sum()
}

func (m *memoryV2) sum(typeName string) uint64 {
	d := dump(nil).head(typeName, m.PolicyName).memory(m.MachineState, m.Entries)
	d = d.text(" PodEntries:(state.PodMemoryAssignments)")
	return dumpMap(d, m.PodEntries, word, dump.memoryPool).text(tail).sum()
}

// dataSum returns the checksum of the text in the last version (R-37-6).
func dataSum(data string) uint64 { return dump(nil).text("(string)", data).sum() }
