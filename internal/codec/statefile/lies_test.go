package statefile_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	blocks "github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// number draws any number that a file can have, most often a plausible one.
func number() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 30), rapid.Int64Range(0, 8*gib), rapid.SampledFrom([]int64{0, 1000, 2000, gib, 1 << 53, 1 << 62, 1<<63 - 1}), rapid.Int64Range(0, 1<<63-1))
}

func someCPUs(t *rapid.T, of cpuset.Set) cpuset.Set {
	switch rapid.IntRange(0, 3).Draw(t, "cpus") {
	case 0:
		return cpuset.Set{}
	case 1:
		return of.Difference(cpuset.Of(max(of.Lowest(), 0)))
	case 2:
		return of.Union(cpuset.Of(rapid.IntRange(0, 40).Draw(t, "cpu")))
	}
	return cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 40), 0, 6).Draw(t, "list")...)
}

func someBlocks(t *rapid.T, of []blocks.Block) []blocks.Block {
	of = slices.Clone(of)
	if len(of) == 0 || rapid.IntRange(0, 3).Draw(t, "another") == 0 {
		of = append(of, blocks.Block{Type: rapid.SampledFrom([]string{"memory", "hugepages-2Mi", "hugepages-1Gi", ""}).Draw(t, "type"), Size: number().Draw(t, "size"), Nodes: mask.Of(0)})
		return of
	}
	b := &of[rapid.IntRange(0, len(of)-1).Draw(t, "block")]
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0:
		return nil
	case 1:
		b.Size = number().Draw(t, "size")
	case 2:
		b.Nodes = mask.Mask(rapid.Uint64Range(0, 15).Draw(t, "nodes"))
	default:
		b.Type = rapid.SampledFrom([]string{"memory", "hugepages-2Mi", "hugepages-1Gi"}).Draw(t, "type")
	}
	return of
}

// change changes one field of a grant.
func change(t *rapid.T, g *node.Grant) {
	p := &g.Pod
	i := rapid.IntRange(0, len(g.Containers)-1).Draw(t, "which")
	asks, has := &p.Containers[i], &g.Containers[i]
	changes := []func(){
		func() { p.QoS = rapid.SampledFrom([]request.QoS{0, 1, 2}).Draw(t, "qos") },
		func() { p.Kind = rapid.SampledFrom([]request.Kind{0, 1, 2}).Draw(t, "kind") },
		func() { p.Estimated = !p.Estimated },
		func() { p.BudgetCPUs = int(number().Draw(t, "budget")) },
		func() { p.BudgetCPUMilli = number().Draw(t, "milli") },
		func() { p.BudgetMemory = p.BudgetMemory.With("memory", number().Draw(t, "bytes")) },
		func() { g.Sequence = rapid.Uint64().Draw(t, "sequence") },
		func() { g.Pool = someCPUs(t, g.Pool) },
		func() { g.PoolMemory = someBlocks(t, g.PoolMemory) },
		func() { asks.Type = rapid.SampledFrom([]request.ContainerType{0, 1, 2}).Draw(t, "lane") },
		func() { asks.CPUs = int(number().Draw(t, "asked")) },
		func() { asks.Memory = asks.Memory.With("memory", number().Draw(t, "asked")) },
		func() { asks.Devices = asks.Devices.With("example.com/gpu", number().Draw(t, "asked")) },
		func() {
			asks.Given = []request.Given{{Resource: "example.com/gpu", Name: "g", Nodes: mask.Mask(number().Draw(t, "near"))}}
		},
		func() { has.CPUs = someCPUs(t, has.CPUs) },
		func() { has.CPUs = someCPUs(t, has.CPUs) },
		func() { has.Memory = someBlocks(t, has.Memory) },
		func() { has.MemoryNodes = mask.Mask(rapid.Uint64Range(0, 15).Draw(t, "nodes")) },
		func() { has.Removed = !has.Removed },
		func() {
			has.Devices = []device.Assigned{{Resource: "example.com/gpu", IDs: rapid.SliceOfN(rapid.SampledFrom([]string{"gpu-0", "gpu-1", "gpu-9"}), 0, 3).Draw(t, "ids")}}
		},
	}
	changes[rapid.IntRange(0, len(changes)-1).Draw(t, "field")]()
}

// TestLies changes fields of grants and writes them to a file with a correct checksum. The result
// must be rejected by Decode or by Restore, or be a state without contradictions. Adopt must always
// yield such a state, and must name every pod that is not in it as it is in the file.
func TestLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := histories().Draw(t, "state")
		list := slices.Clone(s.Grants())
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			if len(list) == 0 {
				return
			}
			at := rapid.IntRange(0, len(list)-1).Draw(t, "pod")
			g := *list[at]
			g.Containers, g.Pod.Containers = slices.Clone(g.Containers), slices.Clone(g.Pod.Containers)
			change(t, &g)
			list[at] = &g
		}
		data, err := statefile.EncodeFile(&statefile.File{Generation: s.Generation(), Machine: statefile.Describe(s.Machine(), s.Policy()), Policy: s.Policy(), Grants: list})
		if err != nil {
			t.Fatal(err)
		}
		f, err := statefile.Decode("f", data)
		if err != nil {
			return
		}
		if restored, err := node.Restore(s.Machine(), s.Policy(), f.Grants); err == nil {
			if wrong := contradictions(restored, true); wrong != nil {
				t.Fatalf("restored, and %v\n%s", wrong, data)
			}
		}
		adopted, findings, err := node.Adopt(s.Machine(), s.Policy(), s.Devices().Inventory(), f.Grants)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if wrong := contradictions(adopted, false); wrong != nil {
			t.Fatalf("adopted, and %v\n%v\n%s", wrong, findings, data)
		}
		for _, g := range f.Grants {
			now, kept := adopted.Grant(g.Pod.UID)
			named := slices.ContainsFunc(findings, func(x node.Finding) bool { return x.UID == g.Pod.UID })
			offline := kept && !adopted.Machine().AllCPUs().Contains(now.CPUs())
			if !named && (!kept || offline || !equalGrants(g, now) || lacks(s.Policy(), g)) {
				t.Fatalf("pod %s is not as in the file, and not named\n%s", g.Pod.UID, data)
			}
		}
	})
}

// lacks reports, by counting, whether a managed pod has fewer CPUs than it asks for.
func lacks(p node.Policy, g *node.Grant) bool {
	if !p.StaticCPU || g.Pod.Kind == request.Unmanaged {
		return false
	}
	pooled := g.Pool.Len() > 0
	noBudget := g.Pod.Kind == request.PodLevel && g.Pod.BudgetCPUs == 0 && g.CPUs().IsEmpty()
	for i, c := range g.Containers {
		if want := g.Pod.Containers[i].CPUs; !noBudget && !c.Removed && c.CPUs.Len() < want {
			return true
		}
	}
	return pooled && g.Pool.Len() < g.Pod.BudgetCPUs
}

// contradictions is a literal and slow check of the invariants of a state. strict adds the
// invariants that only Restore guarantees.
func contradictions(s *node.State, strict bool) []string {
	r := reading{s: s, strict: strict, holder: map[string]string{}, bytes: map[string]*big.Int{}}
	for _, g := range s.Grants() {
		if g.Sequence > s.Generation() || s.Generation() > node.MaxGeneration {
			r.say("%s: sequence %d of %d", g.Pod.UID, g.Sequence, s.Generation())
		}
		if strict && lacks(s.Policy(), g) {
			r.say("%s has not what it asks for", g.Pod.UID)
		}
		r.cpus(g)
		r.devices(g)
		r.memory(g)
		for i := range g.Containers {
			contradictionsOf(g, i, r.say)
		}
	}
	for k, name := range s.Memory().Capacity().Types() {
		sum := new(big.Int)
		for _, n := range s.Memory().Nodes() {
			sum.Add(sum, big.NewInt(n.Reserved[k]))
		}
		if want := r.bytes[name]; want != nil && want.Cmp(sum) != 0 || want == nil && sum.Sign() != 0 {
			r.say("%v bytes of %s are counted and pods have %v", sum, name, want)
		}
	}
	if err := s.Check(); err != nil {
		r.say("%v", err)
	}
	return r.wrong
}

// reading collects what has been read so far: which pod has which CPU or device, and how many bytes
// of each type are assigned.
type reading struct {
	s      *node.State
	strict bool
	holder map[string]string
	bytes  map[string]*big.Int
	wrong  []string
}

func (r *reading) say(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// take assigns something to a pod. It reports a contradiction if another pod has it.
func (r *reading) take(what, uid string) {
	if other := r.holder[what]; other != "" && other != uid {
		r.say("%s has %s and %s", what, other, uid)
	}
	r.holder[what] = uid
}

func (r *reading) cpus(g *node.Grant) {
	own := map[int]bool{}
	for id := range g.Pool.All() {
		own[id] = true
	}
	for _, c := range g.Containers {
		for id := range c.CPUs.All() {
			if g.Pool.Len() > 0 && !g.Pool.Has(id) {
				r.say("%s: CPU %d is outside the pool", g.Pod.UID, id)
			}
			own[id] = true
		}
	}
	for id := range own {
		r.take(fmt.Sprint("CPU ", id), g.Pod.UID)
		// Adopt keeps CPUs that do not exist as offline CPUs. TestLies checks that it names their
		// pods.
		if s := r.s; s.SharedCPUs().Has(id) || r.strict && (!s.Machine().AllCPUs().Has(id) || s.Policy().ReservedCPUs.Has(id)) {
			r.say("CPU %d of %s is shared, gone or reserved", id, g.Pod.UID)
		}
	}
	p := g.Pod
	if n := g.Pool.Len(); n > 0 && (p.Kind != request.PodLevel || n > p.BudgetCPUs || p.BudgetCPUs > 1<<20 || p.BudgetCPUMilli != int64(p.BudgetCPUs)*1000) {
		r.say("%s has %d CPUs as a pool and a budget of %d", p.UID, n, p.BudgetCPUs)
	}
}

func (r *reading) devices(g *node.Grant) {
	for _, c := range g.Containers {
		for _, h := range c.Devices {
			for _, id := range h.IDs {
				if _, known := r.s.Devices().Inventory().Device(h.Resource, id); known {
					r.take(h.Resource+" "+id, g.Pod.UID)
				}
			}
		}
	}
}

func (r *reading) memory(g *node.Grant) {
	charged := g.PoolMemory
	for i := 0; i < len(g.Containers) && len(g.PoolMemory) == 0; i++ {
		charged = append(slices.Clip(charged), g.Containers[i].Memory...)
	}
	for _, b := range charged {
		if r.bytes[b.Type] == nil {
			r.bytes[b.Type] = new(big.Int)
		}
		r.bytes[b.Type].Add(r.bytes[b.Type], big.NewInt(b.Size))
	}
	for _, b := range g.PoolMemory {
		if n, _ := g.Pod.BudgetMemory.Get(b.Type); n != b.Size || g.Pod.Kind != request.PodLevel {
			r.say("%s has %d bytes as a pool and a budget of %d", g.Pod.UID, b.Size, n)
		}
	}
}

// contradictionsOf reports the contradictions of one container.
func contradictionsOf(g *node.Grant, i int, say func(string, ...any)) {
	name, asks, c := g.Pod.UID+"/"+g.Pod.Containers[i].Name, g.Pod.Containers[i], g.Containers[i]
	managed := g.Pod.QoS == request.Guaranteed && g.Pod.Kind != request.Unmanaged
	if c.Removed {
		if !c.CPUs.IsEmpty() || len(c.Memory)+len(c.Devices) > 0 || !c.MemoryNodes.IsEmpty() {
			say("%s is removed and has something", name)
		}
		return
	}
	n := c.CPUs.Len()
	switch {
	case n > 0 && !managed, n > 0 && g.Pool.IsEmpty() && asks.CPUs == 0, n > asks.CPUs && asks.CPUs > 0:
		say("%s has %d CPUs and asks for %d", name, n, asks.CPUs)
	case n == 0 && !g.Pool.IsEmpty(), n == 0 && asks.CPUs > 0 && !g.CPUs().IsEmpty():
		say("%s has no CPUs, and its pod has", name)
	}
	var lies mask.Mask
	for _, b := range c.Memory {
		lies |= b.Nodes
		want, _ := asks.Memory.Get(b.Type)
		for _, p := range g.PoolMemory {
			if p.Type == b.Type {
				want = p.Size
			}
		}
		if b.Size > want || b.Size < want && asks.Type != request.Init && len(g.PoolMemory) == 0 || !managed {
			say("%s has %d bytes of %s and asks for %d", name, b.Size, b.Type, want)
		}
	}
	if lies != c.MemoryNodes && (len(c.Memory) > 0 || asks.Type != request.Init) {
		say("%s is pinned to %s and has memory on %s", name, c.MemoryNodes, lies)
	}
	for _, h := range c.Devices {
		if want, _ := asks.Devices.Get(h.Resource); want != int64(len(h.IDs)) {
			say("%s has %v of %s and asks for %d", name, h.IDs, h.Resource, want)
		}
	}
}
