package replay

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
)

// Result is the answer to a scenario.
type Result struct {
	Name string `json:"name"`
	// StartError is the reason why the configuration was rejected. If set, there are no events.
	StartError      string   `json:"startError,omitempty"`
	Start           *View    `json:"start,omitempty"`
	AllocatableCPUs string   `json:"allocatableCPUs,omitempty"`
	Answers         []Answer `json:"events,omitempty"`
	// Observed is set if an agent saw the answers on a node on which a kubelet decides: they have
	// verdicts with their reasons, and what pods have after the last event.
	Observed bool `json:"observed,omitempty"`
	// Quirks are the faults because of which the kubelet starts differently. They are set with
	// Player.Kubelet.
	Quirks []quirk.Quirk `json:"quirks,omitempty"`
}

// View is the state of the node.
type View struct {
	CPU    CPUView    `json:"cpu"`
	Memory MemoryView `json:"memory"`
	// Devices maps pod, container and resource to device ids. It is absent if no device is
	// assigned.
	Devices map[string]map[string]map[string][]string `json:"devices,omitempty"`
}

// CPUView describes which pods and containers have which CPUs, as cpuset strings.
type CPUView struct {
	Default    string                       `json:"default"`
	Entries    map[string]map[string]string `json:"entries"`
	PodEntries map[string]string            `json:"podEntries"`
}

// MemoryView describes which pods and containers have which memory.
type MemoryView struct {
	Entries    map[string]map[string][]Block `json:"entries"`
	PodEntries map[string][]Block            `json:"podEntries"`
	// MachineState maps NUMA node ids to their accounting. It is absent if memory is not managed.
	MachineState map[string]NodeView `json:"machineState,omitempty"`
}

// Block is one block of memory.
type Block struct {
	Type string `json:"type"`
	Size int64  `json:"size"`
	NUMA []int  `json:"numa"`
}

// NodeView is the memory accounting of one NUMA node.
type NodeView struct {
	NumberOfAssignments int              `json:"numberOfAssignments"`
	Cells               []int            `json:"cells"`
	Memory              map[string]Table `json:"memory"`
}

// Table is the accounting of one type of memory, in bytes.
type Table struct {
	Total          int64 `json:"total"`
	SystemReserved int64 `json:"systemReserved"`
	Allocatable    int64 `json:"allocatable"`
	Reserved       int64 `json:"reserved"`
	Free           int64 `json:"free"`
}

// Answer is the result of one event.
type Answer struct {
	Op        Op     `json:"op"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`

	Admitted *bool               `json:"admitted,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Message  string              `json:"message,omitempty"`
	QoS      string              `json:"qos,omitempty"`
	Affinity map[string]Affinity `json:"affinity,omitempty"`
	// StartError is the reason why a restart was rejected. If set, the scenario ends there.
	StartError string `json:"startError,omitempty"`
	// Panic is set if the reference panicked. The scenario ends there.
	Panic string `json:"panic,omitempty"`
	// Endless is set if the event did not end within the minute that the recorder waits (Q-5,
	//
	Endless bool `json:"endless,omitempty"`

	View
	AtAdmit          *View                           `json:"atAdmit,omitempty"`
	Isolation        map[string]map[string]Isolation `json:"isolation,omitempty"`
	PodQuotaDisabled map[string]bool                 `json:"podQuotaDisabled,omitempty"`
	Cgroup           map[string]Cgroup               `json:"cgroup,omitempty"`
	// Uncreated has the reason for each container that a kubelet cannot create for lack of devices.
	Uncreated map[string]string `json:"uncreated,omitempty"`
	// Quirks are the faults because of which the kubelet answers differently. They are set with
	// Player.Kubelet.
	Quirks []quirk.Quirk `json:"quirks,omitempty"`
	// ElapsedNS is the time to plan and apply an admission, in nanoseconds.
	ElapsedNS int64 `json:"elapsed_ns,omitempty"`
}

func (a *Answer) admitted() bool {
	return a.Admitted != nil && *a.Admitted
}

// ends reports whether the node is down after the event, so that nothing can follow.
func (a *Answer) ends() bool {
	return a.StartError != "" || a.Panic != "" || a.Endless
}

// Affinity is the merged hint of a container. NUMA is null if none is stored.
type Affinity struct {
	NUMA      []int `json:"numa"`
	Preferred bool  `json:"preferred"`
}

// Isolation is the isolation level of a container and whether it runs without CFS quota.
type Isolation struct {
	Level         string `json:"level"`
	QuotaDisabled bool   `json:"quotaDisabled"`
}

// Cgroup has the cgroup values with which a container is created.
type Cgroup struct {
	CPUs string `json:"cpus,omitempty"`
	Mems string `json:"mems,omitempty"`
}

// ViewOf returns the view of a state.
func ViewOf(s *node.State) View {
	v := View{
		CPU:    CPUView{Default: s.SharedCPUs().String(), Entries: map[string]map[string]string{}, PodEntries: map[string]string{}},
		Memory: MemoryView{Entries: map[string]map[string][]Block{}, PodEntries: map[string][]Block{}},
	}
	for g := range s.AllGrants() {
		v.add(g)
	}
	if s.Policy().StaticMemory {
		u := s.Memory()
		v.Memory.MachineState = map[string]NodeView{}
		for i, n := range u.Nodes() {
			view := NodeView{NumberOfAssignments: n.Assignments, Cells: n.Group.Nodes(), Memory: map[string]Table{}}
			for t, c := range u.Capacity().Nodes()[i].Types {
				if c.Listed {
					view.Memory[u.Capacity().Types()[t]] = Table{c.Total, c.SystemReserved, c.Allocatable, n.Reserved[t], n.Free[t]}
				}
			}
			v.Memory.MachineState[strconv.Itoa(n.ID)] = view
		}
	}
	return v
}

func (v *View) add(g *node.Grant) {
	uid := g.Pod.UID
	if !g.Pool.IsEmpty() {
		v.CPU.PodEntries[uid] = g.Pool.String()
	}
	if len(g.PoolMemory) > 0 {
		v.Memory.PodEntries[uid] = blocks(g.PoolMemory)
	}
	for i, c := range g.Containers {
		name := g.Pod.Containers[i].Name
		if !c.CPUs.IsEmpty() {
			put(v.CPU.Entries, uid, name, c.CPUs.String())
		}
		for _, h := range c.Devices {
			if v.Devices == nil {
				v.Devices = map[string]map[string]map[string][]string{}
			}
			if v.Devices[uid][name] == nil {
				put(v.Devices, uid, name, map[string][]string{})
			}
			v.Devices[uid][name][h.Resource] = h.IDs
		}
		if len(c.Memory) > 0 {
			put(v.Memory.Entries, uid, name, blocks(c.Memory))
		}
	}
}

func put[V any](m map[string]map[string]V, uid, name string, value V) {
	if m[uid] == nil {
		m[uid] = map[string]V{}
	}
	m[uid][name] = value
}

func blocks(assigned []memory.Block) []Block {
	out := make([]Block, len(assigned))
	for i, b := range assigned {
		out[i] = Block{Type: b.Type, Size: b.Size, NUMA: b.Nodes.Nodes()}
	}
	slices.SortFunc(out, func(a, b Block) int { return strings.Compare(a.Type, b.Type) })
	return out
}

// watch fills in the view, the isolation and the quotas of every pod of the state.
func (a *Answer) watch(s *node.State) {
	a.View = ViewOf(s)
	for g := range s.AllGrants() {
		if a.Isolation == nil {
			a.Isolation, a.PodQuotaDisabled = map[string]map[string]Isolation{}, map[string]bool{}
		}
		for i, c := range g.Pod.Containers {
			put(a.Isolation, g.Pod.UID, c.Name, Isolation{g.Isolation(i).String(), quota.HasNone(g, s.Policy(), i)})
		}
		a.PodQuotaDisabled[g.Pod.UID] = quota.PodHasNone(g, s.Policy())
	}
}

func memsText(m mask.Mask) string {
	ids := make([]string, 0, m.Len())
	for n := range m.All() {
		ids = append(ids, strconv.Itoa(n))
	}
	return strings.Join(ids, ",")
}
