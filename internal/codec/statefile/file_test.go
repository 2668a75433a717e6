package statefile_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	blocks "github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/golden"
)

const form = "testdata/v1.json"

// example returns a node with a pod-level pod that uses every feature, a plain pod from which a
// container was removed, and a pod that shares.
func example(tb testing.TB) *node.State { return exampleOn(tb, hardware(tb, 2, 6)) }

func exampleOn(tb testing.TB, m *machine.Machine) *node.State {
	p := podScope()
	p.ReservedMemory = map[int]map[string]int64{0: {"memory": gib / 2}}
	p.CPU.FullPCPUsOnly, p.PreferClosest = true, true
	s := withDevices(tb, m, p)
	huge := memory(1).With("hugepages-2Mi", 4<<20)
	var err error
	for _, pod := range []request.Pod{
		{
			Identity: request.Identity{UID: "33333333-0000-4000-8000-000000000000", Namespace: "prod", Name: "db"}, Ask: request.Ask{
				QoS: request.Guaranteed, Kind: request.PodLevel,
				BudgetCPUs: 6, BudgetCPUMilli: 6000, CPULimit: 6000, BudgetMemory: memory(4).With("hugepages-2Mi", 8<<20), Containers: []request.Container{
					{Name: "prepare", Type: request.Init, Sharing: request.NotEquivalent, HugePages: []request.Resource{"hugepages-2Mi"}},
					{Name: "proxy", Type: request.Sidecar, Sharing: request.FractionalCPU, CPURequest: 500, CPULimit: 1500},
					{Name: "main", Type: request.App, CPUs: 4, Memory: huge, Equivalent: true, HugePages: []request.Resource{"hugepages-2Mi"}, CPURequest: 4000, CPULimit: 4000},
				},
			},
		},
		{Identity: request.Identity{UID: "11111111-0000-4000-8000-000000000000", Namespace: "prod", Name: "worker"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
			{Name: "first", Type: request.App, CPUs: 2, Memory: memory(1), Equivalent: true, CPURequest: 2000, CPULimit: 2000},
			{Name: "second", Type: request.App, CPUs: 2, Memory: memory(1), Equivalent: true, Given: []request.Given{
				{Driver: "nic.example.com", Pool: "node", Name: "nic0", Claim: "fast", Nodes: mask.Of(0)},
				{Resource: "example.com/fpga", Name: "fpga0"},
			}, Devices: request.Amounts{{Resource: "example.com/gpu", Value: 1}}, CPURequest: 2000, CPULimit: 2000},
		}, Stock: []request.Stock{{Of: "nic.example.com", Places: []request.Place{{Nodes: mask.Of(0), Devices: 2}, {Nodes: mask.Of(0, 1), Devices: 1}}}}}, Notes: request.Notes{ResourceClaims: []request.Claim{
			{Name: "fast", Uses: []request.ClaimUse{{Container: "second", Request: "nic"}}, Devices: []request.ClaimDevice{
				{Driver: "nic.example.com", Pool: "node", Name: "nic0", ShareID: "8d5f", Requests: []string{"nic"}, CDI: []string{"example.com/nic=0"}},
			}},
			{Name: "unknown", Uses: []request.ClaimUse{{Container: "first"}}},
		}}},
		{Identity: request.Identity{UID: "22222222-0000-4000-8000-000000000000", Namespace: "kube-system", Name: "agent"}, Ask: request.Ask{QoS: request.Burstable, Containers: []request.Container{
			{Name: "agent", Type: request.App, Sharing: request.QoSNotGuaranteed, CPURequest: 100},
		}}},
		estimated("44444444-0000-4000-8000-000000000000", 2, 1),
	} {
		plan := s.Plan(pod)
		if plan.Rejection != nil {
			tb.Fatalf("%s: %+v", pod.ID(), plan.Rejection)
		}
		if s, err = s.Apply(plan); err != nil {
			tb.Fatal(err)
		}
	}
	return s.RemoveContainer("11111111-0000-4000-8000-000000000000", "first")
}

// estimated returns a pod of which only the numbers of the cgroup are known.
func estimated(uid string, cpus, gibibytes int64) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: uid, Namespace: "prod", Name: "guess"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, Estimated: true,
			BudgetCPUs: int(cpus), BudgetCPUMilli: 1000 * cpus, CPULimit: 1000 * cpus, BudgetMemory: memory(gibibytes),
			Containers: []request.Container{{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated}},
		},
	}
}

func encoded(tb testing.TB, s *node.State) []byte {
	data, err := statefile.Encode(s)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// TestForm checks that the bytes of version 1 do not change, because a file that was once written
// must be readable for ever. Rewrite the golden file if version 1 gets a new member, and never such
// that a line disappears.
func TestForm(t *testing.T) {
	data := encoded(t, example(t))
	golden.Compare(t, form, string(data))
	if isolated := encoded(t, exampleOn(t, isolating(t, 4, 5, 16, 17))); !bytes.Equal(isolated, data) {
		t.Errorf("without the option isolated-cpus, isolated CPUs are in the file:\n%s", isolated)
	}
	if _, err := statefile.Decode(form, data); err != nil {
		t.Error(err)
	}
}

// TestOlderFileIsRead reads files that were written before the form had estimates, given devices,
// and claims. Encoding them again must yield the same bytes, and their pods must be unchanged.
func TestOlderFileIsRead(t *testing.T) {
	for _, name := range []string{"testdata/v1-before-estimates.json", "testdata/v1-before-given.json", "testdata/v1-before-claims.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := statefile.Decode(name, data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := statefile.EncodeFile(f)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%v, written again as\n%s", err, again)
		}
		s := example(t)
		for _, g := range f.Grants {
			if now, known := s.Grant(g.Pod.UID); !known || !now.Pod.Equal(g.Pod) || len(g.Pod.ResourceClaims) > 0 {
				t.Errorf("%s: pod %s is read as %s", name, g.Pod.ID(), g.Pod)
			}
		}
	}
}

// TestShellVerifies runs the commands in the package comment.
func TestShellVerifies(t *testing.T) {
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("there is no sha256sum here")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "sed '$d' "+form+" | sha256sum; tail -n 1 "+form).Output()
	if err != nil {
		t.Fatal(err)
	}
	sum, last, _ := strings.Cut(string(out), "\n")
	sum, _, _ = strings.Cut(sum, " ")
	if want := `"checksum":"sha256:` + sum + "\"}\n"; last != want {
		t.Errorf("the last line is %s, want %s", last, want)
	}
}

func TestAssembleIsEncode(t *testing.T) {
	s := example(t)
	head, err := statefile.NewHead(s.Machine(), s.Policy())
	if err != nil {
		t.Fatal(err)
	}
	var grants [][]byte
	for _, g := range s.Grants() {
		b, err := grantform.Append(nil, g)
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, b)
	}
	if got, want := statefile.Assemble(head, s.Generation(), grants), encoded(t, s); !bytes.Equal(got, want) {
		t.Errorf("assembled\n%s, encoded\n%s", got, want)
	}
}

// TestDamageIsFound truncates a file at every byte and flips every bit of every byte.
func TestDamageIsFound(t *testing.T) {
	good := encoded(t, example(t))
	for i := range good {
		check(t, fmt.Sprintf("cut off after %d bytes", i), good[:i], statefile.ErrDamaged)
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			f, err := statefile.Decode("f", bad)
			if f != nil || err == nil {
				t.Fatalf("bit %d of byte %d, %q, was changed unnoticed", bit, i, good[i])
			}
		}
	}
	for name, bad := range map[string][]byte{
		"a line feed added": append(slices.Clone(good), '\n'), "written twice": slices.Concat(good, good),
		"zeroes at the end": append(slices.Clone(good), 0, 0), "a line missing": slices.Concat(good[:100], good[200:]),
		"no bytes": {}, "nil": nil,
	} {
		check(t, name, bad, statefile.ErrDamaged)
	}
}

func check(t *testing.T, name string, data []byte, kind error) {
	t.Helper()
	f, err := statefile.Decode("/var/lib/paddock/state", data)
	if f != nil || !errors.Is(err, kind) {
		t.Fatalf("%s: file %v, error %v; want %v", name, f != nil, err, kind)
	}
	for _, says := range []string{"state file /var/lib/paddock/state is ", map[error]string{
		statefile.ErrDamaged: "move it away", statefile.ErrForeign: "name another file", statefile.ErrNewer: "or a newer one",
	}[kind]} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q does not say %q", name, err, says)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		kind error
		says string
	}{
		"kubelet CPU":    {`{"policyName":"static","defaultCpuSet":"0-1,7","entries":{"u":{"main":"2-3"}},"checksum":2079870862}`, statefile.ErrForeign, "cpu_manager_state"},
		"kubelet memory": {`{"policyName":"Static","machineState":{},"checksum":1}`, statefile.ErrForeign, "memory_manager_state"},
		"kubelet device": {`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`, statefile.ErrForeign, "kubelet_internal_checkpoint"},
		"other JSON":     {`{"apiVersion":"v1","kind":"Pod"}`, statefile.ErrForeign, "some other JSON"},
		"a list":         {`[1,2]`, statefile.ErrForeign, "it is no JSON object: name another file"},
		"YAML":           {"apiVersion: v1\n", statefile.ErrForeign, "it is no JSON object: name another file"},
		"binary":         {"\x7fELF\x02\x01", statefile.ErrForeign, "it is no JSON object: name another file"},
		"large":          {strings.Repeat(" ", statefile.MaxSize+1), statefile.ErrDamaged, "more than 16777216 bytes"},
		"large, ours":    {strings.Repeat(`{"format":"paddock-state","version":1,`, 1<<19), statefile.ErrDamaged, "more than 16777216 bytes"},
		"large, newer":   {`{"format":"paddock-state","version":2,` + strings.Repeat(" ", statefile.MaxSize), statefile.ErrNewer, "version 2"},
		"formatted":      {"{\n  \"format\": \"paddock-state\",\n  \"version\": 1\n}", statefile.ErrDamaged, "another program has formatted it"},
		"newer":          {`{"format":"paddock-state","version":2,"sum":"crc"}`, statefile.ErrNewer, "version 2, this one reads up to version 1"},
		"version 0":      {`{"format":"paddock-state","version":0,`, statefile.ErrDamaged, "its version was changed"},
		"version 1x":     {`{"format":"paddock-state","version":1x,`, statefile.ErrDamaged, "its version was changed"},
	} {
		check(t, name, []byte(c.data), c.kind)
		if _, err := statefile.Decode("f", []byte(c.data)); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q does not say %q", name, err, c.says)
		}
	}
}

// resum replaces one text in the example and corrects the checksum.
func resum(t *testing.T, from, to string) []byte {
	t.Helper()
	good := encoded(t, example(t))
	if !bytes.Contains(good, []byte(from)) {
		t.Fatalf("the example has no %s", from)
	}
	return sealed(bytes.Replace(good, []byte(from), []byte(to), 1))
}

// sealed replaces the checksum of data with the correct one.
func sealed(data []byte) []byte {
	body, _, _ := bytes.Cut(data, []byte(`"checksum"`))
	return fmt.Appendf(bytes.Clone(body), "\"checksum\":\"sha256:%x\"}\n", sha256.Sum256(body))
}

// TestHandMade decodes files that have a correct checksum but that Paddock would not have written.
func TestHandMade(t *testing.T) {
	for _, c := range []struct {
		from, to string
		kind     error
		says     string
	}{
		{`"name":"db"`, `"name":"db","devices":{}`, statefile.ErrNewer, `a member "devices"`},
		{`"qos":"Burstable"`, `"qos":"Elastic"`, statefile.ErrNewer, `"Elastic"`},
		{`"full-pcpus-only"`, `"full-pcpus-only","warp"`, statefile.ErrNewer, `"warp"`},
		{`"name":"db"`, `"name": "db"`, statefile.ErrDamaged, "in line 12"},
		{`"name":"db"`, `"Name":"db"`, statefile.ErrDamaged, "where"},
		{`"name":"db"`, `"name":"da","name":"db"`, statefile.ErrDamaged, "where"},
		{`"name":"db"`, `"name":"\u0064b"`, statefile.ErrDamaged, "where"},
		{`"name":"db"`, `"name":null`, statefile.ErrDamaged, "where"},
		{`"lane":"app"`, `"lane":"app","asks":{}`, statefile.ErrDamaged, "where"},
		{`"preferred":true`, `"preferred":false`, statefile.ErrDamaged, "where"},
		{`"name":"db"`, `"name":7`, statefile.ErrDamaged, "string"},
		{`"sequence":2`, `"sequence":9`, statefile.ErrDamaged, "was admitted as number 9, in a state of revision 6"},
		{`"generation":6`, `"generation":9007199254740992`, statefile.ErrDamaged, "it has revision 9007199254740992, and the last one is 9007199254740991"},
		{`"generation":6`, `"generation":18446744073709551615`, statefile.ErrDamaged, "revision 18446744073709551615"},
		{`"sequence":2`, `"sequence":-2`, statefile.ErrDamaged, "sequence"},
		{`"sequence":2`, `"sequence":18446744073709551616`, statefile.ErrDamaged, "sequence"},
		{`"uid":"2`, `"uid":"0`, statefile.ErrDamaged, "follows"},
		{`"uid":"22222222`, `"uid":"33333333`, statefile.ErrDamaged, "follows"},
		{`"cpuRequestMilli":100`, `"cpuRequestMilli":-100`, statefile.ErrDamaged, "cpuRequestMilli"},
		{`"cpuRequestMilli":100`, `"cpuRequestMilli":1e2`, statefile.ErrDamaged, "1e2"},
		{`"poolCPUs":"`, `"poolCPUs":"9-`, statefile.ErrDamaged, "prod/db"},
		{`"nodes":[0]`, `"nodes":[64]`, statefile.ErrDamaged, "NUMA node 64"},
		{`"nodes":[0]`, `"nodes":[0,0]`, statefile.ErrDamaged, "where"},
		{`"devices":{"example.com/gpu":1`, `"devices":{"example.com/gpu":-1`, statefile.ErrDamaged, "devices"},
		{`"memory":{"memory":1`, `"memory":{"memory":-1`, statefile.ErrDamaged, "memory"},
		{`"format":"paddock-state"`, `"format":"paddock-state" `, statefile.ErrDamaged, "formatted"},
	} {
		data := resum(t, c.from, c.to)
		check(t, c.to, data, c.kind)
		if _, err := statefile.Decode("f", data); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: %q does not say %q", c.to, c.from, err, c.says)
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for name, change := range map[string]func(g *node.Grant){
		"name":            func(g *node.Grant) { g.Pod.Name = "a\xff" },
		"qos":             func(g *node.Grant) { g.Pod.QoS = 7 },
		"kind":            func(g *node.Grant) { g.Pod.Kind = -1 },
		"budgetCPUs":      func(g *node.Grant) { g.Pod.BudgetCPUs = -1 },
		"budgetMemory":    func(g *node.Grant) { g.Pod.BudgetMemory = request.Amounts{{Resource: "b"}, {Resource: "a"}} },
		"containers":      func(g *node.Grant) { g.Containers = nil },
		"lane":            func(g *node.Grant) { g.Pod.Containers[0].Type = 3 },
		"sharing":         func(g *node.Grant) { g.Pod.Containers[0].Sharing = 99 },
		"memory":          func(g *node.Grant) { g.Pod.Containers[0].Memory = request.Amounts{{Resource: "a", Value: -1}} },
		"devices":         func(g *node.Grant) { g.Containers[0].Devices = []device.Assigned{{Resource: "b"}, {Resource: "a"}} },
		"bytes":           func(g *node.Grant) { g.Containers[0].Memory = []blocks.Block{{Size: -1}} },
		"created":         func(g *node.Grant) { g.Pod.Created = -1 },
		"cpuRequestMilli": func(g *node.Grant) { g.Pod.Containers[0].CPURequest = -5 },
	} {
		g := *example(t).Grants()[0]
		g.Pod.Containers, g.Containers = slices.Clone(g.Pod.Containers), slices.Clone(g.Containers)
		change(&g)
		b, err := grantform.Append([]byte("before"), &g)
		if !errors.Is(err, statefile.ErrNotEncodable) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "pod prod/") || string(b) != "before" {
			t.Errorf("%s: wrote %q, error %v", name, b, err)
		}
	}
}

func TestStrangeNames(t *testing.T) {
	for _, name := range []string{"", `"`, `\`, "\x00\n\x1f\x7f", "ü", "\u2028", "{", "[", "<&>", "�", strings.Repeat("x", 1<<16)} {
		g := &node.Grant{Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: name, Name: name}, Ask: request.Ask{Containers: []request.Container{{Name: name}}}}, Containers: make([]node.ContainerGrant, 1)}
		s := example(t)
		head, err := statefile.NewHead(s.Machine(), s.Policy())
		if err != nil {
			t.Fatal(err)
		}
		b, err := grantform.Append(nil, g)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		f, err := statefile.Decode("f", statefile.Assemble(head, 1, [][]byte{b}))
		if err != nil || !f.Grants[0].Pod.Equal(g.Pod) {
			t.Errorf("%q does not survive: %v", name, err)
		}
	}
}

// TestSpelling checks how version 1 spells the characters that JSON can spell in several ways.
func TestSpelling(t *testing.T) {
	const want = `"name":"\u0000\u0008\u0009\u000a\u000c\u000d\u001f` + "\x7f\u2028\u2029<&>" + `\\\"\\n\\u2028",`
	g := &node.Grant{Pod: request.Pod{Identity: request.Identity{Name: "\x00\b\t\n\f\r\x1f\x7f\u2028\u2029<&>" + `\"\n\u2028`}}}
	if b, err := grantform.Append(nil, g); err != nil || !bytes.Contains(b, []byte(want)) {
		t.Errorf("%v, wrote %s, want %s", err, b, want)
	}
}

// declared are the fields that are not part of the state. A rule of the API uses the first two
// before there is a grant. No grant depends on the quota policy and on the bound on containers,
// which an older Paddock could not read. A state that is written is always Paddock's own, so it has
// no kubelet's Behavior and no FractionalMemory.
var declared = []string{"MemoryRequest", "MemoryLimit", "Quota", "MaxContainers", "Behavior", "FractionalMemory"}

// everyField returns a grant and a policy in which every field that is state has a value other than
// zero. A new field is zero here, and the form must support it before it is set here.
func everyField() (*node.Grant, node.Policy) {
	block := []blocks.Block{{Type: "memory", Size: 3, Nodes: mask.Of(1, 3)}}
	amounts := request.Amounts{{Resource: "hugepages-1Gi", Value: 0}, {Resource: "memory", Value: 5}}
	grant := &node.Grant{
		Pod: request.Pod{
			Identity: request.Identity{UID: "u", Namespace: "s", Name: "n"}, Ask: request.Ask{
				QoS: request.Guaranteed, Kind: request.Unmanaged, BudgetCPUs: 1, BudgetMemory: amounts,
				BudgetCPUMilli: 2, CPULimit: 3, SharesIsolated: true, Estimated: true, Containers: []request.Container{{
					Cache: request.Cache{Ways: 4, Percent: 30, Bandwidth: 20},
					Name:  "c", Type: request.App, CPUs: 4, Sharing: request.GateOff, Memory: amounts, Equivalent: true,
					HugePages: []request.Resource{"hugepages-1Gi"}, Devices: request.Amounts{{Resource: "example.com/nic", Value: 2}}, CPURequest: 5, CPULimit: 6,
					Given: []request.Given{
						{Driver: "gpu.example.com", Pool: "p", Claim: "train", Name: "gpu0", Nodes: mask.Of(0, 63)},
						{Resource: "example.com/fpga", Name: "f"},
					},
					ContainerNotes: request.ContainerNotes{Claims: []string{"gpu", "nic"}},
				}},
				PoolCache: request.Cache{Ways: 64, Percent: 100, Bandwidth: 30}, CacheUnclear: "no number", DevicesUnknown: "no answer",
				Stock: []request.Stock{{Of: "example.com/fpga"}, {Of: "gpu.example.com", Places: []request.Place{{Nodes: mask.Of(1), Devices: 3}, {Nodes: mask.Of(0, 63), Devices: 1}}}},
			}, Notes: request.Notes{
				Priority: -7, Created: 8, Moves: request.MoveMemory,
				ResourceClaims: []request.Claim{
					{Name: "later", Uses: []request.ClaimUse{{Container: "c"}}},
					{Name: "none", Uses: []request.ClaimUse{{Container: "c", Request: "r"}}, Devices: []request.ClaimDevice{}},
					{Name: "train", Uses: []request.ClaimUse{{Container: "c", Request: "gpu"}}, Devices: []request.ClaimDevice{
						{Driver: "gpu.example.com", Pool: "p", Name: "gpu0", ShareID: "s", Requests: []string{"gpu/large"}, CDI: []string{"example.com/gpu=0"}},
						{Driver: "gpu.example.com", Pool: "p", Name: "gpu1", Requests: []string{}},
						{Driver: "gpu.example.com", Pool: "p", Name: "gpu2"},
					}},
				},
			},
		},
		Sequence: node.MaxGeneration, Resized: 9, Pool: cpuset.Of(1, 65535), PoolBaseline: cpuset.Of(1), PoolMemory: block, PoolCache: cache.Class{{Cache: 0, Bandwidth: 100}},
		Containers: []node.ContainerGrant{{
			CPUs: cpuset.Of(2), Baseline: cpuset.Of(3), Memory: block, MemoryNodes: mask.Of(0, 63), Removed: true,
			Cache:    cache.Class{{Cache: 0, Ways: 1 << 31}, {Cache: 7, Ways: cache.Run(0, 32), Bandwidth: 20}},
			Devices:  []device.Assigned{{Resource: "example.com/gpu", IDs: []string{"a", "b"}}, {Resource: "example.com/nic", IDs: []string{"c"}}},
			Affinity: hint.Choice{Mask: mask.Of(5), HasMask: true, Preferred: true, Admit: true, Steps: 1, Unproven: true, Unsolved: true, Why: "w"},
		}},
	}
	place := *grant
	place.Pool, place.PoolBaseline, place.PoolMemory = cpuset.Of(3, 4), cpuset.Of(4), []blocks.Block{{Type: "memory", Size: 3, Nodes: mask.Of(2)}}
	place.PoolCache = cache.Class{{Cache: 1, Ways: cache.Run(2, 2)}}
	place.Containers = []node.ContainerGrant{{
		CPUs: cpuset.Of(4), Baseline: cpuset.Of(4), Memory: place.PoolMemory, MemoryNodes: mask.Of(2), Removed: true,
		Cache:   cache.Class{{Cache: 9, Bandwidth: 10}},
		Devices: grant.Containers[0].Devices, Affinity: hint.Choice{Mask: mask.Of(2), HasMask: true, Admit: true},
	}}
	grant.Moving = &place
	return grant, node.Policy{
		Moves:    node.MovePolicy{Pods: 2, All: true, Bytes: 1 << 30, AnyKernel: true},
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, PreferClosest: true, StaticCPU: true,
		CPU: cpu.Options{
			FullPCPUsOnly: true, DistributeAcrossNUMA: true, DistributeAcrossCores: true, AlignBySocket: true, StrictReservation: true, PreferUncore: true,
			Isolated: cpu.IsolatedOnly, DividesCaches: true,
		},
		ReservedCPUs: cpuset.Of(0), StaticMemory: true, ReservedMemory: map[int]map[string]int64{2: {"memory": 1}},
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	}
}

// throughFile writes a grant into a file and reads the file.
func throughFile(t *testing.T, g *node.Grant, p node.Policy) *statefile.File {
	t.Helper()
	head, err := statefile.NewHead(hardware(t, 1, 1), p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := grantform.Append(nil, g)
	if err != nil {
		t.Fatal(err)
	}
	f, err := statefile.Decode("f", statefile.Assemble(head, node.MaxGeneration, [][]byte{b}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEmptyEntrySurvives checks that the entry of a container without memory of its own, which a
// kubelet keeps, is another value than none.
func TestEmptyEntrySurvives(t *testing.T) {
	for _, entry := range [][]blocks.Block{nil, {}} {
		g, p := everyField()
		g.Containers[0].Memory = entry
		f := throughFile(t, g, p)
		if got := f.Grants[0].Containers[0].Memory; len(got) > 0 || (got == nil) != (entry == nil) {
			t.Errorf("wrote %#v, read %#v", entry, got)
		}
	}
}

func TestEveryFieldSurvives(t *testing.T) {
	g, p := everyField()
	for _, v := range []any{*g, g.Pod, g.Pod.Containers[0], g.Containers[0], g.Containers[0].Affinity, g.Containers[0].Devices[0], g.PoolMemory[0], p, p.CPU, p.Moves} {
		for i := range reflect.TypeOf(v).NumField() {
			name := reflect.TypeOf(v).Field(i).Name
			if reflect.ValueOf(v).Field(i).IsZero() && !slices.Contains(declared, name) {
				t.Errorf("%T.%s is empty in everyField: write it to the file and give it a value there", v, name)
			}
		}
	}
	f := throughFile(t, g, p)
	choice := &g.Containers[0].Affinity
	*choice = answer(*choice)
	if !reflect.DeepEqual(f.Grants[0], g) || !reflect.DeepEqual(f.Policy, p) || f.Generation != node.MaxGeneration {
		t.Errorf("read %+v under %+v\nwrote %+v under %+v", f.Grants[0], f.Policy, g, p)
	}
}
