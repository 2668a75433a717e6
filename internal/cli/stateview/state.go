package stateview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// State is the content of a state file.
type State struct {
	File    string `json:"file"`
	Manager string `json:"manager"`
	Version string `json:"version"` // empty for the files about devices
	Policy  string `json:"policy"`
	// Valid reports whether the checksum that counts is right: DataChecksum if the file has one,
	// else Checksum.
	Valid        bool     `json:"checksumValid"`
	Checksum     string   `json:"checksum"`
	DataChecksum string   `json:"dataChecksum,omitempty"`
	ReadBy       []string `json:"readBy"`
	Unknown      []string `json:"unknownFields,omitempty"`
	// SharedPool is the node shared pool. It is nil if the file has no CPUs.
	SharedPool *string      `json:"sharedPool,omitempty"`
	Pods       []Pod        `json:"pods"`
	NUMANodes  []Accounting `json:"numaNodes,omitempty"`
	// Claims and Devices are set for the files about devices.
	Claims  []Claim        `json:"claims,omitempty"`
	Devices []PluginDevice `json:"devices,omitempty"`

	checksum kubeletstate.Checksum
}

// Pod describes what a pod has.
type Pod struct {
	UID string `json:"uid"`
	// Name is "namespace/name", or empty if it is not known.
	Name string `json:"name,omitempty"`
	// Estimated is true if the pod's request was read from cgroup numbers.
	Estimated  bool        `json:"estimated,omitempty"`
	Pool       *Assigned   `json:"pool,omitempty"`
	Containers []Container `json:"containers"`
}

// title returns the pod's name, or its UID if the name is not known.
func (p *Pod) title() string { return cmp.Or(p.Name, p.UID) }

// Container describes what a container has.
type Container struct {
	Name string `json:"name"`
	Assigned
}

// Assigned are the CPUs and the memory of a container, or of a pool.
type Assigned struct {
	CPUs string `json:"cpus,omitempty"`
	// NUMANodes are the NUMA nodes of the CPUs, if the machine is known.
	NUMANodes string `json:"cpuNUMANodes,omitempty"`
	// Offline are the CPUs that are not online on the machine, if it is known.
	Offline string  `json:"offlineCPUs,omitempty"`
	Memory  []Block `json:"memory,omitempty"`
	// Cache is the part of the caches, of Paddock's own state.
	Cache []view.Share `json:"cache,omitempty"`
}

// Block is memory of one type on a set of NUMA nodes.
type Block struct {
	Type      string `json:"type"`
	Bytes     uint64 `json:"bytes"`
	NUMANodes []int  `json:"numaNodes"`
}

// Accounting is the kubelet's accounting of one type of memory on one NUMA node.
type Accounting struct {
	ID             int    `json:"id"`
	Type           string `json:"type"`
	Total          uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
	Assignments    int    `json:"assignments"`
	Group          []int  `json:"group"`
}

// StateOf returns the content of a file of any kind. m and pods can be nil.
func StateOf(name string, data []byte, m *machine.Machine, pods inputs.Roster) (*State, error) {
	if statefile.Begins(data) {
		file, err := statefile.Decode(name, data)
		if err != nil {
			return nil, err
		}
		return ofGrants(name, file, m), nil
	}
	devices, damage := kubeletstate.RecogniseDevices(data)
	if damage == nil {
		return ofDevices(name, devices, pods), nil
	}
	f, err := kubeletstate.Recognise(data)
	if errors.Is(err, kubeletstate.ErrForeign) && errors.Is(damage, kubeletstate.ErrDamaged) {
		err = damage
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &State{
		File: name, Manager: f.Manager.String(), Version: f.Version.String(), Valid: f.Valid(), Checksum: f.Checksum.String(),
		ReadBy: []string{}, Pods: []Pod{}, checksum: f.Checksum,
	}
	if f.Data != nil {
		s.DataChecksum = f.Data.String()
	}
	for _, k := range kubeletstate.Readers(f.Manager, data) {
		s.ReadBy = append(s.ReadBy, k.String())
	}
	for _, u := range f.Unknown {
		s.Unknown = append(s.Unknown, u.Path)
	}
	if f.Manager == kubeletstate.MemoryManager {
		s.addMemory(f.Memory, pods)
		return s, nil
	}
	c := f.CPU
	s.Policy, s.SharedPool = c.Policy, &c.Default
	addPods(s, c.Entries, c.Pools, pods, func(cpus string) Assigned { return assigned(cpus, m) }, func(pool cpuset.Set) Assigned { return assigned(pool.String(), m) })
	for _, id := range slices.Sorted(maps.Keys(c.ByID)) {
		s.Pods = append(s.Pods, Pod{Containers: []Container{{id, assigned(c.ByID[id], m)}}})
	}
	return s, nil
}

// addPods adds the pods of a file by UID. Their containers are in the order of the pod, as far as
// it is known.
func addPods[Entry, Pool any](s *State, entries map[string]map[string]Entry, pools map[string]Pool, pods inputs.Roster, ofEntry func(Entry) Assigned, ofPool func(Pool) Assigned) {
	uids := slices.AppendSeq(slices.Collect(maps.Keys(entries)), maps.Keys(pools))
	slices.Sort(uids)
	for _, uid := range slices.Compact(uids) {
		p := Pod{UID: uid, Containers: []Container{}}
		if name := pods.Name(uid); name != uid {
			p.Name = name
		}
		if pool, has := pools[uid]; has {
			h := ofPool(pool)
			p.Pool = &h
		}
		names := slices.Collect(maps.Keys(entries[uid]))
		pods.InOrder(uid, names)
		for _, name := range names {
			p.Containers = append(p.Containers, Container{name, ofEntry(entries[uid][name])})
		}
		s.Pods = append(s.Pods, p)
	}
}

func (s *State) addMemory(m *kubeletstate.Memory, pods inputs.Roster) {
	s.Policy = m.Policy
	memoryOf := func(blocks []kubeletstate.Block) Assigned {
		var out []Block
		for _, b := range blocks {
			out = append(out, Block{b.Type, b.Size, b.Nodes})
		}
		slices.SortStableFunc(out, func(a, b Block) int { return cmp.Compare(a.Type, b.Type) })
		return Assigned{Memory: out}
	}
	addPods(s, m.Entries, m.Pools, pods, memoryOf, memoryOf)
	for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
		n := m.Nodes[id]
		if n == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(n.Tables)) {
			if t := n.Tables[name]; t != nil {
				s.NUMANodes = append(s.NUMANodes, Accounting{id, name, t.Total, t.SystemReserved, t.Allocatable, t.Reserved, t.Free, n.Assignments, n.Cells})
			}
		}
	}
}

// ofGrants returns the content of Paddock's own file, which has both CPUs and memory.
func ofGrants(name string, f *statefile.File, m *machine.Machine) *State {
	s := &State{
		File: name, Manager: "Paddock", Version: strconv.Itoa(f.Version), Valid: true, Checksum: "valid", ReadBy: []string{"Paddock"}, Pods: []Pod{},
		Policy: "revision " + strconv.FormatUint(f.Generation, 10),
	}
	shared := f.Machine.CPUs
	if f.Policy.CPU.StrictReservation {
		shared = shared.Difference(f.Policy.ReservedCPUs)
	}
	for _, g := range f.Grants {
		shared = shared.Difference(g.CPUs())
		p := Pod{UID: g.Pod.UID, Name: g.Pod.ID(), Estimated: g.Pod.Estimated, Containers: []Container{}}
		if g.HasPool() {
			pool := assigned(g.Pool.String(), m, g.PoolMemory...)
			pool.Cache = view.SharesOf(g.PoolCache)
			p.Pool = &pool
		}
		for i, c := range g.Containers {
			has := assigned(c.CPUs.String(), m, c.Memory...)
			has.Cache = view.SharesOf(c.Cache)
			p.Containers = append(p.Containers, Container{g.Pod.Containers[i].Name, has})
		}
		s.Pods = append(s.Pods, p)
	}
	if text := shared.String(); f.Policy.StaticCPU {
		s.SharedPool = &text
	}
	return s
}

// assigned returns the CPUs of a file, with their NUMA nodes if the machine is known, and the
// memory.
func assigned(cpus string, m *machine.Machine, blocks ...memory.Block) Assigned {
	a := Assigned{CPUs: cpus}
	if set, err := cpuset.Parse(cpus); err == nil && m != nil {
		a.NUMANodes = nodeList(m.NodesOf(set).Nodes())
		a.Offline = set.Difference(m.AllCPUs()).String()
	}
	for _, b := range blocks {
		a.Memory = append(a.Memory, Block{b.Type, uint64(b.Size), b.Nodes.Nodes()})
	}
	return a
}
