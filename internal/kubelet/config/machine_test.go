package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/machine"
)

const gib = int64(1) << 30

// plan describes a small machine. Threads are numbered core by core and NUMA node by NUMA node.
type plan struct {
	ids         []int // the ids of the NUMA nodes
	sockets     int   // the number of sockets; the cores of a NUMA node are spread over its share of them
	cores       int   // per NUMA node
	threads     int   // per core
	gib         int64 // per NUMA node
	hugePages   []machine.HugePages
	noDistances bool
}

var plans = map[string]plan{
	"pair":        {ids: []int{0, 1}, sockets: 2, cores: 4, threads: 2, gib: 16},
	"huge":        {ids: []int{0, 1}, sockets: 2, cores: 4, threads: 2, gib: 4, hugePages: []machine.HugePages{{SizeKiB: 2048, Count: 1024}}},
	"nine":        {ids: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, sockets: 9, cores: 2, threads: 1, gib: 4},
	"nodistances": {ids: []int{0, 1}, sockets: 2, cores: 4, threads: 1, gib: 8, noDistances: true},
	"sockets":     {ids: []int{0}, sockets: 2, cores: 4, threads: 1, gib: 8},
	"sparse":      {ids: []int{0, 8}, sockets: 2, cores: 2, threads: 4, gib: 32},
	"nomemory":    {ids: []int{0}, sockets: 1, cores: 2, threads: 1},
	"tiny":        {ids: []int{0}, sockets: 1, cores: 1, threads: 1, gib: 1},
}

func (p plan) machine(t testing.TB) *machine.Machine {
	t.Helper()
	var d machine.Description
	thread := 0
	for i, id := range p.ids {
		n := machine.NodeDescription{ID: id, Memory: p.gib * gib, HugePages: p.hugePages}
		perNode := p.sockets / len(p.ids)
		for c := range p.cores {
			core := machine.CoreDescription{Socket: i*perNode + c%perNode, Uncore: machine.NoUncore}
			for range p.threads {
				core.Threads = append(core.Threads, thread)
				thread++
			}
			n.Cores = append(n.Cores, core)
		}
		for _, other := range p.ids {
			if p.noDistances {
				break
			}
			distance := 21
			if other == id {
				distance = 10
			}
			n.Distances = append(n.Distances, distance)
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// goldenMachine returns a machine given by name ("@name") or in full.
func goldenMachine(t *testing.T, raw json.RawMessage) *machine.Machine {
	t.Helper()
	var name string
	if json.Unmarshal(raw, &name) == nil {
		data, err := os.ReadFile(goldenDir + "machines/" + strings.TrimPrefix(name, "@") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		raw = data
	}
	found, err := discover.Read(name, raw)
	if err != nil {
		t.Fatal(err)
	}
	return found.Machine
}
