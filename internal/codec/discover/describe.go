package discover

import (
	"encoding/json"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// The members of a MachineInfo that determine a machine, under cAdvisor's names.
type (
	infoText struct {
		CPUs     int        `json:"num_cores"`
		Sockets  int        `json:"num_sockets"`
		Topology []nodeText `json:"topology"`
		// Isolation is left out if the kernel keeps nothing away from any CPU.
		Isolation *isolationText `json:"isolation,omitempty"`
		// Caches is left out if the kernel cannot divide the caches.
		Caches *cachesText `json:"resctrl,omitempty"`
	}
	nodeText struct {
		ID        int         `json:"node_id"`
		Memory    int64       `json:"memory"`
		HugePages []pagesText `json:"hugepages"`
		Cores     []coreText  `json:"cores"`
		Distances []int       `json:"distances"`
	}
	pagesText struct {
		SizeKiB int64 `json:"page_size"`
		Count   int64 `json:"num_pages"`
	}
	coreText struct {
		ID      int         `json:"core_id"`
		Threads []int       `json:"thread_ids"`
		Uncore  []cacheText `json:"uncore_caches"`
		Socket  int         `json:"socket_id"`
	}
	cacheText struct {
		ID int `json:"id"`
	}
)

// Describe returns a machine as a MachineInfo that has only the data that decisions depend on.
// Machines with the same hardware have the same bytes, and Read of these bytes returns the same
// machine.
func Describe(m *machine.Machine) ([]byte, error) {
	info := infoText{CPUs: m.NumCPUs(), Sockets: m.NumSockets(), Isolation: isolationTextOf(m.Isolation()), Caches: cachesTextOf(m)}
	for _, n := range m.Nodes() {
		text := nodeText{ID: n.ID, Memory: n.Memory, HugePages: []pagesText{}, Cores: []coreText{}, Distances: distances(m, n.ID)}
		for _, p := range n.HugePages {
			text.HugePages = append(text.HugePages, pagesText{p.SizeKiB, p.Count})
		}
		for _, core := range m.Cores() {
			c, _ := m.CPU(core.CPUs.Lowest())
			if c.Node == n.ID {
				text.Cores = append(text.Cores, coreText{core.ID, core.CPUs.IDs(), []cacheText{{c.Uncore}}, c.Socket})
			}
		}
		info.Topology = append(info.Topology, text)
	}
	return json.Marshal(info)
}

// distances returns the distances of one NUMA node as the machine was described: by id, or by
// position if ids have gaps that the kernel does not list.
func distances(m *machine.Machine, from int) []int {
	row := []int{}
	switch {
	case !m.HasDistances():
	case m.ShortDistances():
		for _, n := range m.Nodes() {
			row = append(row, m.Distance(from, n.ID))
		}
	default:
		for id := range min(m.NodeMask().Highest(), mask.MaxNode) + 1 {
			row = append(row, m.Distance(from, id))
		}
	}
	return row
}
