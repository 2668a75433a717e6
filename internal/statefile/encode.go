package statefile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	magic          = `{"format":"paddock-state","version":`
	checksumBefore = `"checksum":"sha256:`
	checksumAfter  = "\"}\n"
	checksumLine   = len(checksumBefore) + 2*sha256.Size + len(checksumAfter)
)

// Encode writes a state; for one state after the other, an Encoder costs less. What it returns
// is read by Decode as the same state. The error wraps ErrNotEncodable and names the pod whose grant
// has something that no node.State has, such as a name that is not UTF-8, or ErrTooLarge.
func Encode(s *node.State) ([]byte, error) {
	var e Encoder
	return e.Encode(s)
}

// encode writes a file, whatever its size.
func encode(f *File) ([]byte, error) {
	head, err := newHead(f.Machine, f.Policy)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 0, 2048*len(f.Grants))
	grants := make([][]byte, len(f.Grants))
	for i, g := range f.Grants {
		start := len(buffer)
		if buffer, err = AppendGrant(buffer, g); err != nil {
			return nil, err
		}
		grants[i] = buffer[start:]
	}
	return Assemble(head, f.Generation, grants), nil
}

// Head is what a file says of the machine and the policy. It is the same for as long as they are.
type Head struct{ text []byte }

// NewHead encodes what a file says of the machine and the policy. The error wraps ErrNotEncodable.
func NewHead(m *machine.Machine, p node.Policy) (Head, error) { return newHead(Describe(m), p) }

func newHead(m Machine, p node.Policy) (Head, error) {
	var w writer
	w.raw(`"machine":{`)
	w.cpus("cpus", m.CPUs)
	w.key("nodes")
	w.raw("[")
	for _, n := range m.Nodes {
		w.next()
		w.raw("\n {")
		w.always("id", int64(n.ID))
		w.cpus("cpus", n.CPUs)
		w.amounts("memory", n.Memory)
		w.raw("}")
	}
	w.raw("]},\n\"policy\":{")
	writePolicy(&w, p)
	w.raw("}")
	return Head{w.b}, w.err
}

func writePolicy(w *writer, p node.Policy) {
	writeName(w, "topologyManagerPolicy", topologyNames, p.Topology)
	writeName(w, "topologyManagerScope", scopeNames, p.Scope)
	w.texts("topologyManagerPolicyOptions", topologyOptions.on(p))
	writeName(w, "cpuManagerPolicy", cpuPolicyNames, p.StaticCPU)
	w.texts("cpuManagerPolicyOptions", cpuOptions.on(p))
	w.cpus("reservedCPUs", p.ReservedCPUs)
	writeName(w, "memoryManagerPolicy", memoryPolicyNames, p.StaticMemory)
	writeReserved(w, p.ReservedMemory)
	w.texts("featureGates", featureGates.on(p))
}

func writeReserved(w *writer, reserved map[int]map[string]int64) {
	ids := slices.Sorted(maps.Keys(reserved))
	ids = slices.DeleteFunc(ids, func(id int) bool { return len(reserved[id]) == 0 })
	if len(ids) == 0 {
		return
	}
	w.key("reservedMemory")
	w.raw("[")
	for _, id := range ids {
		w.next()
		w.raw("{")
		w.always("numaNode", int64(id))
		w.amounts("limits", amountsOf(reserved[id]))
		w.raw("}")
	}
	w.raw("]")
}

func amountsOf(m map[string]int64) request.Amounts {
	var list request.Amounts
	for _, resource := range slices.Sorted(maps.Keys(m)) {
		list = append(list, request.Amount{Resource: resource, Value: m[resource]})
	}
	return list
}

// AppendGrant appends what a file says of one pod to b and returns the longer slice: it depends
// on nothing but the grant and can be kept with it. The error wraps ErrNotEncodable.
func AppendGrant(b []byte, g *node.Grant) ([]byte, error) {
	w := writer{b: b}
	p := &g.Pod
	w.raw("{")
	w.text("uid", p.UID)
	w.text("namespace", p.Namespace)
	w.text("name", p.Name)
	w.count("sequence", g.Sequence)
	writeName(&w, "qos", qosNames, p.QoS)
	writeName(&w, "kind", kindNames, p.Kind)
	w.flag("estimated", p.Estimated)
	w.number("budgetCPUs", int64(p.BudgetCPUs))
	w.number("budgetCPUMilli", p.BudgetCPUMilli)
	w.amounts("budgetMemory", p.BudgetMemory)
	w.number("cpuLimitMilli", p.CPULimit)
	if p.Priority != 0 {
		w.always("priority", int64(p.Priority))
	}
	w.number("created", p.Created)
	w.cpus("poolCPUs", g.Pool)
	w.blocks("poolMemory", g.PoolMemory)
	if len(g.Containers) != len(p.Containers) {
		w.refuse("containers", len(g.Containers))
		return b, fmt.Errorf("pod %s: %w", p.ID(), w.err)
	}
	w.key("containers")
	w.raw("[")
	for i := range p.Containers {
		w.next()
		w.raw("\n ")
		writeContainer(&w, &p.Containers[i], &g.Containers[i])
	}
	w.raw("]}")
	if w.err != nil {
		return b, fmt.Errorf("pod %s: %w", p.ID(), w.err)
	}
	return w.b, nil
}

func writeContainer(w *writer, asks *request.Container, has *node.ContainerGrant) {
	w.raw("{")
	w.text("name", asks.Name)
	writeName(w, "lane", laneNames, asks.Lane)
	w.key("asks")
	w.raw("{")
	w.number("cpus", int64(asks.CPUs))
	writeName(w, "sharing", sharingNames, asks.Sharing)
	w.amounts("memory", asks.Memory)
	w.texts("hugePages", asks.HugePages)
	w.amounts("devices", asks.Devices)
	w.flag("equivalent", asks.Equivalent)
	w.number("cpuRequestMilli", asks.CPURequest)
	w.number("cpuLimitMilli", asks.CPULimit)
	w.raw("}")
	w.key("has")
	w.raw("{")
	w.cpus("cpus", has.CPUs)
	w.blocks("memory", has.Memory)
	w.nodes("memoryNodes", has.MemoryNodes)
	w.devices("devices", has.Devices)
	w.key("affinity")
	w.raw("{")
	w.nodes("nodes", has.Affinity.Mask)
	w.flag("hasMask", has.Affinity.HasMask)
	w.flag("preferred", has.Affinity.Preferred)
	w.flag("admit", has.Affinity.Admit)
	w.raw("}")
	w.flag("removed", has.Removed)
	w.raw("}}")
}

// Assemble makes a file of a head and of the pods as AppendGrant writes them, which must ascend
// by UID.
func Assemble(h Head, generation uint64, grants [][]byte) []byte {
	size := len(magic) + len(h.text) + checksumLine + 100
	for _, g := range grants {
		size += len(g) + 2
	}
	w := writer{b: make([]byte, 0, size)}
	w.raw(magic)
	w.b = strconv.AppendInt(w.b, Version, 10)
	w.count("generation", generation)
	w.raw(",\n")
	w.b = append(w.b, h.text...)
	w.raw(",\n\"grants\":[")
	for _, g := range grants {
		w.next()
		w.raw("\n")
		w.b = append(w.b, g...)
	}
	w.raw("],\n")
	sum := sha256.Sum256(w.b)
	w.raw(checksumBefore)
	w.b = hex.AppendEncode(w.b, sum[:])
	w.raw(checksumAfter)
	return w.b
}
