package statefile_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

const gib = 1 << 30

// hardware returns a machine with the given number of NUMA nodes. Each has the given number of
// cores with two threads each and one gibibyte per thread, a quarter of which is huge pages.
func hardware(tb interface{ Fatal(...any) }, nodes, cores int) *machine.Machine {
	m, err := machine.New(described(nodes, cores))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func described(nodes, cores int) (d machine.Description) {
	for n := range nodes {
		at := machine.NodeDescription{
			ID: n, Memory: int64(2*cores) * gib, HugePages: []machine.HugePages{{SizeKiB: 2048, Count: int64(cores) * 256}},
		}
		for c := range cores {
			id := n*cores + c
			at.Cores = append(at.Cores, machine.CoreDescription{Socket: n, Uncore: machine.NoUncore, Threads: []int{id, id + nodes*cores}})
		}
		d.Nodes = append(d.Nodes, at)
	}
	return d
}

// withDevices returns a node with three devices on NUMA node 0 and one device that reports no NUMA
// node.
func withDevices(tb interface{ Fatal(...any) }, m *machine.Machine, p node.Policy) *node.State {
	s, err := node.New(m, p)
	if err != nil {
		tb.Fatal(err)
	}
	if s, err = s.WithDevices(inventory(tb, m)); err != nil {
		tb.Fatal(err)
	}
	return s
}

func inventory(tb interface{ Fatal(...any) }, m *machine.Machine) *device.Inventory {
	local := mask.Of(0)
	inv, err := device.NewInventory(m, map[string][]device.Device{"example.com/gpu": {
		{ID: "gpu-0", Healthy: true, Nodes: local}, {ID: "gpu-1", Healthy: true, Nodes: local}, {ID: "gpu-2", Healthy: true, Nodes: local}, {ID: "gpu-3", Healthy: true},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return inv
}

func podScope() node.Policy {
	return node.Policy{
		Topology: node.TopologyRestricted, Scope: node.PodScope, StaticCPU: true, StaticMemory: true, ReservedCPUs: cpuset.Of(0),
		PodLevelResources: true, PodLevelManagers: true,
	}
}

// memory returns n gibibytes of memory.
func memory(n int64) request.Amounts {
	return request.Amounts{{Resource: machine.Memory, Value: n * gib}}
}

// equalGrants reports whether two grants are equal except for the remarks about the search.
func equalGrants(a, b *node.Grant) bool {
	return a.Pod.Equal(b.Pod) && a.Sequence == b.Sequence && a.Pool.Equal(b.Pool) && slices.Equal(a.PoolMemory, b.PoolMemory) && a.PoolCache.Equal(b.PoolCache) &&
		slices.EqualFunc(a.Containers, b.Containers, func(c, d node.ContainerGrant) bool {
			return c.CPUs.Equal(d.CPUs) && slices.Equal(c.Memory, d.Memory) && c.MemoryNodes == d.MemoryNodes && reflect.DeepEqual(c.Devices, d.Devices) &&
				answer(c.Affinity) == answer(d.Affinity) && c.Removed == d.Removed && c.Cache.Equal(d.Cache)
		})
}

func answer(c hint.Choice) hint.Choice {
	return hint.Choice{Mask: c.Mask, HasMask: c.HasMask, Preferred: c.Preferred, Admit: c.Admit}
}

// pods draws pods that may or may not fit: plain pods, and pod-level pods whose budget leaves a
// rest.
func pods(number int) *rapid.Generator[request.Pod] {
	return rapid.Custom(func(t *rapid.T) request.Pod {
		if rapid.IntRange(0, 5).Draw(t, "estimated") == 0 {
			return estimated(fmt.Sprintf("uid-%d", number), rapid.Int64Range(0, 3).Draw(t, "cpus"), rapid.Int64Range(1, 2).Draw(t, "memory"))
		}
		p := request.Pod{
			Identity: request.Identity{UID: fmt.Sprintf("uid-%d", number), Namespace: "default", Name: fmt.Sprintf("pod-%d", number)},
			Ask:      request.Ask{QoS: rapid.SampledFrom([]request.QoS{request.Guaranteed, request.Guaranteed, request.Burstable}).Draw(t, "qos")},
		}
		var cpus, bytes int64
		for i := range rapid.IntRange(1, 4).Draw(t, "containers") {
			c := request.Container{Name: fmt.Sprintf("c%d", i), Type: rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar, request.App}).Draw(t, "lane")}
			c.Sharing = request.FractionalCPU
			if p.QoS == request.Guaranteed && rapid.Bool().Draw(t, "exclusive") {
				c.CPUs, c.Sharing, c.Equivalent = rapid.IntRange(1, 3).Draw(t, "cpus"), request.NotShared, true
				c.Memory = request.Amounts{{Resource: "hugepages-2Mi", Value: rapid.Int64Range(0, 3).Draw(t, "pages") << 21}}
				c.Memory = c.Memory.With(machine.Memory, rapid.Int64Range(1, 2*gib).Draw(t, "bytes"))
				c.HugePages = []request.Resource{"hugepages-2Mi"}
				cpus, bytes = cpus+int64(c.CPUs), bytes+c.Memory[1].Value
			}
			if rapid.IntRange(0, 3).Draw(t, "device") == 0 {
				c.Devices = request.Amounts{{Resource: "example.com/gpu", Value: 1}, {Resource: "example.com/other", Value: 1}}
			}
			if rapid.IntRange(0, 3).Draw(t, "given") == 0 {
				near := mask.Mask(rapid.Uint64Range(0, 3).Draw(t, "near"))
				c.Given = []request.Given{{Driver: "driver.example.com", Pool: "p", Name: "d", Claim: "c", Nodes: near}, {Resource: "example.com/fpga", Name: "f", Nodes: near}}
				p.Stock = []request.Stock{request.StockOf("example.com/fpga", []mask.Mask{near, 1, 2})}
			}
			if rapid.IntRange(0, 3).Draw(t, "claim") == 0 {
				p.ResourceClaims = request.Ordered(append(p.ResourceClaims, claims(c.Name).Draw(t, "of")))
			}
			p.Containers = append(p.Containers, c)
		}
		slices.SortStableFunc(p.Containers, func(a, b request.Container) int { return order(a.Type) - order(b.Type) })
		if p.Kind = rapid.SampledFrom([]request.Kind{request.Plain, request.PodLevel, request.Unmanaged}).Draw(t, "kind"); p.Kind == request.PodLevel && p.QoS == request.Guaranteed {
			p.BudgetCPUs = int(cpus) + rapid.IntRange(1, 2).Draw(t, "rest")
			p.BudgetCPUMilli, p.CPULimit = int64(p.BudgetCPUs)*1000, int64(p.BudgetCPUs)*1000
			p.BudgetMemory = request.Amounts{{Resource: "hugepages-2Mi", Value: 64 << 21}, {Resource: machine.Memory, Value: bytes + gib}}
		}
		return p
	})
}

// claims draws claims that a container uses.
func claims(container string) *rapid.Generator[request.Claim] {
	return rapid.Custom(func(t *rapid.T) request.Claim {
		c := request.Claim{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Uses: []request.ClaimUse{{Container: container, Request: rapid.SampledFrom([]string{"", "r"}).Draw(t, "request")}}}
		if rapid.Bool().Draw(t, "known") {
			c.Devices = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) request.ClaimDevice {
				return request.ClaimDevice{
					Driver: "d", Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "device"), ShareID: rapid.SampledFrom([]string{"", "s"}).Draw(t, "share"),
					Requests: rapid.SampledFrom([][]string{nil, {}, {"r/large"}}).Draw(t, "requests"), CDI: rapid.SampledFrom([][]string{nil, {"c=0"}}).Draw(t, "cdi"),
				}
			}), 0, 3).Draw(t, "devices")
		}
		return c
	})
}

// histories draws states that a node can reach.
func histories() *rapid.Generator[*node.State] {
	return rapid.Custom(func(t *rapid.T) *node.State { return history(t, func(*node.State) {}) })
}

// history draws a state that a node can reach and calls see for every state on the way.
func history(t *rapid.T, see func(*node.State)) *node.State {
	p := podScope()
	p.Topology = rapid.SampledFrom([]node.TopologyPolicy{
		node.TopologyNone, node.TopologyBestEffort, node.TopologyRestricted, node.TopologySingleNUMANode,
	}).Draw(t, "topology")
	p.Scope = rapid.SampledFrom([]node.Scope{node.ContainerScope, node.PodScope}).Draw(t, "scope")
	p.StaticCPU, p.StaticMemory = rapid.Bool().Draw(t, "cpu"), rapid.Bool().Draw(t, "memory")
	p.CPU = cpu.Options{StrictReservation: rapid.Bool().Draw(t, "strict"), DistributeAcrossNUMA: rapid.Bool().Draw(t, "distribute")}
	if !p.StaticCPU {
		p.ReservedCPUs, p.CPU = cpuset.Set{}, cpu.Options{}
	}
	s := withDevices(t, hardware(t, rapid.IntRange(1, 3).Draw(t, "nodes"), 6), p)
	for i := range rapid.IntRange(0, 8).Draw(t, "events") {
		see(s)
		s = event(t, s, i)
	}
	return s
}

func event(t *rapid.T, s *node.State, number int) *node.State {
	kind := rapid.SampledFrom([]string{"plan", "plan", "plan", "release", "remove", "created", "claims"}).Draw(t, "event")
	if kind == "plan" || len(s.Grants()) == 0 {
		next, err := s.Apply(s.Plan(pods(number).Draw(t, "pod")))
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	pod := rapid.SampledFrom(s.Grants()).Draw(t, "of").Pod
	container := rapid.SampledFrom(pod.Containers).Draw(t, "container").Name
	switch kind {
	case "release":
		return s.Release(pod.UID)
	case "remove":
		return s.RemoveContainer(pod.UID, container)
	case "claims":
		return s.WithClaims(pod.UID, request.Ordered([]request.Claim{claims(container).Draw(t, "of")}))
	}
	return s.ContainerCreated(pod.UID, container)
}

// TestStateSurvives checks that any state that a node can reach is unchanged after encoding and
// decoding, and is encoded to the same bytes again.
func TestStateSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := histories().Draw(t, "state")
		data, err := statefile.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		f, err := statefile.Decode("state", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if f.Version != statefile.Version || f.Generation != s.Generation() || !slices.EqualFunc(f.Grants, s.Grants(), equalGrants) {
			t.Fatalf("read version %d, revision %d of %d, grants of\n%s", f.Version, f.Generation, s.Generation(), data)
		}
		if changes := f.Changes(s.Machine(), s.Policy()); changes != nil {
			t.Fatalf("changed: %v", changes)
		}
		back, err := node.Restore(s.Machine(), f.Policy, f.Grants)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		back = back.Resume(f.Generation)
		if !back.SharedCPUs().Equal(s.SharedCPUs()) || !back.Memory().Equal(s.Memory()) {
			t.Fatalf("the node shared pool is %q, was %q; memory %+v, was %+v", back.SharedCPUs(), s.SharedCPUs(), back.Memory().Nodes(), s.Memory().Nodes())
		}
		if equipped, err := back.WithDevices(s.Devices().Inventory()); err != nil || !equipped.Devices().Equal(s.Devices()) {
			t.Fatalf("devices are not held as before: %v\n%s", err, data)
		}
		if again, err := statefile.Encode(back); err != nil || string(again) != string(data) {
			t.Fatalf("%v, written again as\n%swas\n%s", err, again, data)
		}
	})
}

// order sorts app containers last.
func order(l request.ContainerType) int {
	if l == request.App {
		return 1
	}
	return 0
}

// TestEncoderIsEncode compares an Encoder with the function Encode over a history of states.
func TestEncoderIsEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e statefile.Encoder
		history(t, func(s *node.State) {
			got, err := e.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := statefile.Encode(s); err != nil || string(got) != string(want) {
				t.Fatalf("%v, the encoder wrote\n%s, Encode\n%s", err, got, want)
			}
		})
	})
}

// TestRestoreOfOtherNumbers changes digits in a file and corrects the checksum. The file must
// either yield a state without contradictions or be rejected by Decode or by Restore.
func TestRestoreOfOtherNumbers(t *testing.T) {
	good := encoded(t, example(t))
	m := hardware(t, 2, 6)
	var digits []int
	for i, c := range good {
		if '0' <= c && c <= '9' && i > bytes.IndexByte(good, '\n') {
			digits = append(digits, i)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(good)
		for _, i := range rapid.SliceOfN(rapid.SampledFrom(digits), 1, 3).Draw(t, "places") {
			bad[i] = byte(rapid.IntRange('0', '9').Draw(t, "digit"))
		}
		f, err := statefile.Decode("f", sealed(bad))
		if err != nil {
			return
		}
		s, err := node.Restore(m, f.Policy, f.Grants)
		if err != nil {
			return
		}
		if err := s.Check(); err != nil || !slices.EqualFunc(s.Grants(), f.Grants, equalGrants) {
			t.Fatalf("%v, restored of\n%s", err, bad)
		}
	})
}
