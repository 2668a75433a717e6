package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// legal draws a configuration that every kubelet accepts on m.
func legal(t *rapid.T, m *machine.Machine) map[string]any {
	topology := rapid.SampledFrom([]string{"none", "best-effort", "restricted", "single-numa-node"}).Draw(t, "topology")
	gates := map[string]bool{}
	for _, g := range []string{gatePodLevelManagers, gateCPUAlpha, gateLiftQuota} {
		if rapid.Bool().Draw(t, g) {
			gates[g] = rapid.Bool().Draw(t, g+" value")
		}
	}
	config := map[string]any{
		"topologyManagerPolicy": topology,
		"topologyManagerScope":  rapid.SampledFrom([]string{"container", "pod"}).Draw(t, "scope"),
		"featureGates":          gates,
	}
	if m.HasDistances() && rapid.Bool().Draw(t, "closest") {
		config["topologyManagerPolicyOptions"] = map[string]any{optionClosest: "true"}
	}
	if rapid.Bool().Draw(t, "static cpu") {
		config["cpuManagerPolicy"] = "static"
		config["cpuManagerPolicyOptions"] = legalOptions(t, m, topology, gates[gateCPUAlpha])
	}
	reserveLegally(t, m, config)
	return config
}

func legalOptions(t *rapid.T, m *machine.Machine, topology string, alpha bool) map[string]any {
	sets := [][]string{
		{},
		{optionFullPCPUs, optionStrict},
		{optionFullPCPUs, optionUncore},
		{optionFullPCPUs, optionAcrossNUMA, optionStrict},
		{optionUncore},
	}
	if alpha {
		sets = append(sets, []string{optionAcrossCores, optionStrict})
		if topology != "single-numa-node" && m.NumSockets() <= len(m.CPUNodes()) {
			sets = append(sets, []string{optionAlignSockets, optionUncore}, []string{optionAlignSockets, optionAcrossCores})
		}
	}
	options := map[string]any{}
	for _, o := range sets[rapid.IntRange(0, len(sets)-1).Draw(t, "options")] {
		options[o] = rapid.SampledFrom([]string{"true", "1", "T"}).Draw(t, o)
	}
	return options
}

// reserveLegally reserves CPUs, as a number or as a set, and memory in MiB. For the static policy
// it divides the memory among the NUMA nodes.
func reserveLegally(t *rapid.T, m *machine.Machine, config map[string]any) {
	kube, system := map[string]any{}, map[string]any{}
	if rapid.Bool().Draw(t, "cpu set") {
		config["reservedSystemCPUs"] = fmt.Sprint(rapid.IntRange(0, m.NumCPUs()-1).Draw(t, "reserved cpu"))
	} else {
		kube["cpu"] = fmt.Sprintf("%dm", rapid.IntRange(1, m.NumCPUs()*1000).Draw(t, "milli"))
	}
	static, left, nodes := false, 100, 0
	for _, n := range m.Nodes() {
		if n.Memory > 0 {
			nodes++
		}
	}
	if nodes > 0 {
		static = rapid.Bool().Draw(t, "static memory")
		k, s := rapid.IntRange(0, 100).Draw(t, "kube"), rapid.IntRange(0, 100).Draw(t, "system")
		kube["memory"], system["memory"] = fmt.Sprintf("%dMi", k), fmt.Sprintf("%dMi", s)
		left += k + s
		if rapid.Bool().Draw(t, "eviction given") {
			e := rapid.IntRange(1, 100).Draw(t, "eviction")
			config["evictionHard"] = map[string]any{signalMemory: fmt.Sprintf("%dMi", e)}
			left += e - 100
		}
	} else {
		config["evictionHard"] = map[string]any{}
	}
	config["kubeReserved"], config["systemReserved"] = kube, system
	if static {
		var entries []any
		for _, n := range m.Nodes() {
			part := left
			if nodes--; nodes > 0 {
				part = rapid.IntRange(0, left).Draw(t, "part")
			}
			if left -= part; part > 0 {
				entries = append(entries, map[string]any{"numaNode": n.ID, "limits": map[string]any{"memory": fmt.Sprintf("%dMi", part)}})
			}
		}
		config["memoryManagerPolicy"], config["reservedMemory"] = "Static", entries
	}
}

func drawMachine(t *rapid.T, tt *testing.T) *machine.Machine {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(plans))).Draw(t, "machine")
	return plans[name].machine(tt)
}

func fromMap(t *rapid.T, config map[string]any) *Config {
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A legal configuration resolves. Resolving it twice, after a round trip through YAML, and after an
// empty patch yields the same policy.
func TestLegalResolves(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		m := drawMachine(t, tt)
		config := legal(t, m)
		c := fromMap(t, config)
		policy, err := c.Resolve(m)
		if err != nil {
			t.Fatal(err)
		}
		if policy.StaticCPU == policy.ReservedCPUs.IsEmpty() || !m.AllCPUs().Contains(policy.ReservedCPUs) {
			t.Fatalf("reserved CPUs %q", policy.ReservedCPUs)
		}
		text, err := yaml.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		read, err := Read("kubelet.yaml", append([]byte(header), text...))
		if err != nil {
			t.Fatal(err)
		}
		patched, err := c.Patch(json.RawMessage("{}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []*Config{c, read, patched} {
			again, err := other.Resolve(m)
			if err != nil || !reflect.DeepEqual(policy, again) {
				t.Fatalf("%s\nand then %s, %v", Describe(policy), Describe(again), err)
			}
			if !slices.Equal(c.Warnings(m), other.Warnings(m)) {
				t.Fatalf("warnings %v\nand then %v", c.Warnings(m), other.Warnings(m))
			}
		}
	})
}

// faults are invalid settings that always lead to a rejection. Each has a field, its invalid value,
// and the prefix of the field that the rejection must name.
var faults = []struct {
	field string
	value any
	names string
}{
	{"topologyManagerPolicy", "loose", "topologyManagerPolicy"},
	{"topologyManagerScope", "node", "topologyManagerScope"},
	{"cpuManagerPolicy", "lively", "cpuManagerPolicy"},
	{"cpuManagerPolicyOptions", map[string]any{"x": "true"}, "cpuManagerPolicyOptions"},
	{"memoryManagerPolicy", "BestEffort", "memoryManagerPolicy"},
	{"reservedSystemCPUs", "0-4000", "reservedSystemCPUs"},
	{"reservedSystemCPUs", "3-1", "reservedSystemCPUs"},
	{"featureGates", map[string]any{"X": true}, "featureGates[X]"},
	{"featureGates", map[string]any{gateDeclaredFeatures: false}, "featureGates[" + gateInPlacePodLevel},
	{"kubeReserved", map[string]any{"hugepages-2Mi": "2Mi"}, "kubeReserved[hugepages-2Mi]"},
	{"systemReserved", map[string]any{"memory": "1Ei"}, "kubeReserved[memory]"},
	{"evictionHard", map[string]any{signalMemory: "-1%"}, "evictionHard"},
	{"reservedMemory", []any{map[string]any{"numaNode": 0, "limits": map[string]any{"disk": "1"}}}, "reservedMemory[0]"},
}

// A fault in an otherwise legal configuration is rejected, and its field is among those that the
// rejection names.
func TestFaultIsNamed(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		m := drawMachine(t, tt)
		config := legal(t, m)
		fault := rapid.SampledFrom(faults).Draw(t, "fault")
		config[fault.field] = fault.value
		_, err := fromMap(t, config).Resolve(m)
		var rejected *RejectedError
		if !errors.As(err, &rejected) || !errors.Is(err, ErrRejected) {
			t.Fatalf("not refused: %v", err)
		}
		for _, p := range rejected.Problems {
			if strings.HasPrefix(p.Field, fault.names) {
				return
			}
		}
		t.Fatalf("%s is not named in %v", fault.names, err)
	})
}
