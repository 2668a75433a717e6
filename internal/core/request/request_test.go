package request

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAmountsAgainstMap(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "cpu", "example.com/gpu", "hugepages-1Gi", "hugepages-2Mi", "memory", "memorz"})
	rapid.Check(t, func(t *rapid.T) {
		var amounts Amounts
		twin := map[Resource]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"with": func(t *rapid.T) {
				r, v := name.Draw(t, "resource"), rapid.Int64Range(0, 5).Draw(t, "value")
				before := slices.Clone(amounts)
				next := amounts.With(r, v)
				if !slices.Equal(amounts, before) {
					t.Fatalf("With changed its receiver from %v to %v", before, amounts)
				}
				amounts, twin[r] = next, v
			},
			"": func(t *rapid.T) {
				r := name.Draw(t, "asked")
				want, named := twin[r]
				if got, ok := amounts.Get(r); got != want || ok != named {
					t.Fatalf("%v has %d of %s, %v; want %d, %v", amounts, got, r, ok, want, named)
				}
				if !slices.EqualFunc(amounts, slices.Sorted(maps.Keys(twin)), func(a Amount, r Resource) bool { return a.Resource == r }) {
					t.Fatalf("%v is not in order, or not once each, of %v", amounts, twin)
				}
			},
		})
	})
}

// TestAmountsFork: two lists that come of one do not write into each other.
func TestAmountsFork(t *testing.T) {
	base := make(Amounts, 0, 8).With("b", 1)
	x, y := base.With("c", 2), base.With("d", 3)
	z := base.With("b", 4)
	for _, c := range []struct {
		got  Amounts
		want string
	}{{base, "b=1"}, {x, "b=1 c=2"}, {y, "b=1 d=3"}, {z, "b=4"}} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestContainerIsFoundByName(t *testing.T) {
	p := Pod{Containers: []Container{{Name: "init"}, {Name: "side", Type: Sidecar}, {Name: "app", Type: App, CPUs: 2}}}
	for i, want := range p.Containers {
		if got, at := p.Container(want.Name); at != i || got.Name != want.Name || got.Exclusive() != (want.Name == "app") {
			t.Errorf("%s is %+v at %d", want.Name, got, at)
		}
	}
	if got, at := p.Container("other"); at != -1 || got.Name != "" {
		t.Errorf("found %+v at %d", got, at)
	}
}

// TestAnyContainerStandsForAll: of a pod whose request is estimated nobody knows the names.
func TestAnyContainerStandsForAll(t *testing.T) {
	p := Pod{Estimated: true, Containers: []Container{{Name: AnyContainer, Sharing: Estimated}}}
	for _, name := range []string{"app", "debugger", AnyContainer} {
		if got, at := p.Container(name); at != 0 || got.Name != AnyContainer {
			t.Errorf("%s is %+v at %d", name, got, at)
		}
	}
	if _, at := p.Container(""); at != -1 {
		t.Errorf("no name is container %d", at)
	}
	if _, at := (Pod{Estimated: true}).Container("app"); at != -1 {
		t.Errorf("of no containers one is found at %d", at)
	}
	p.Estimated = false
	if _, at := p.Container("app"); at != -1 {
		t.Errorf("it stands for a container of a pod that is known, at %d", at)
	}
}

func TestNames(t *testing.T) {
	var got []string
	for _, s := range []interface{ String() string }{
		BestEffort, Burstable, Guaranteed, Plain, PodLevel, Unmanaged, Init, Sidecar, App, QoS(3), ContainerType(-1),
	} {
		got = append(got, s.String())
	}
	want := "BestEffort Burstable Guaranteed plain pod-level unmanaged init sidecar app QoS(3) ContainerType(-1)"
	if strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	for s, want := range map[Sharing]struct{ text, rule string }{
		NotShared: {"exclusive", ""}, QoSNotGuaranteed: {"not Guaranteed", "R-DEM-20"}, NotEquivalent: {"equal", "R-DEM-22"},
		FractionalCPU: {"whole number", "R-DEM-23"}, NoCPURequest: {"requests no cpu", "R-DEM-23"},
		GateOff: {"PodLevelResourceManagers", "R-DEM-26"}, Estimated: {"estimated from cgroup numbers", ""},
	} {
		if !strings.Contains(s.String(), want.text) || s.Rule() != want.rule {
			t.Errorf("%q (%s), want %q in it (%s)", s, s.Rule(), want.text, want.rule)
		}
	}
}

func full() Pod {
	return Pod{
		UID: "u", Namespace: "n", Name: "p", QoS: Guaranteed, Kind: PodLevel, BudgetCPUs: 1, BudgetMemory: Amounts{{"memory", 1}},
		BudgetCPUMilli: 1, CPULimit: 1, Estimated: true, Priority: 1, Created: 1, Containers: []Container{{
			Name: "c", Type: App, CPUs: 1, Sharing: GateOff, Memory: Amounts{{"memory", 1}}, Equivalent: true, HugePages: []Resource{"hugepages-2Mi"},
			Devices:    Amounts{{"example.com/gpu", 1}},
			CPURequest: 1, CPULimit: 1,
			MemoryRequest: Amounts{{"memory", 1}}, MemoryLimit: Amounts{{"memory", 1}},
			Claims: []string{"nic"}, Given: []Given{{Resource: "example.com/gpu", Name: "gpu0", Nodes: 1}},
			FractionalMemory: true,
		}},
		DevicesUnknown: "no answer", Moves: MoveMemory,
		Stock:          []Stock{{Of: "example.com/gpu", Places: []Place{{Nodes: 1, Devices: 2}}}},
		ResourceClaims: []Claim{{Name: "p-nic"}}, FractionalMemory: true,
	}
}

// declared are the fields that ask the managers for nothing.
var declared = []string{"Container.MemoryRequest", "Container.MemoryLimit", "Container.Claims", "Container.Given", "Pod.Stock", "Pod.DevicesUnknown", "Pod.ResourceClaims", "Pod.Moves", "Container.FractionalMemory", "Pod.FractionalMemory"}

// TestEqualSeesEveryField empties the fields of a full pod one by one: a field that is new and
// forgotten in Equal fails here.
func TestEqualSeesEveryField(t *testing.T) {
	if !full().Equal(full()) {
		t.Fatal("a pod is not equal to itself")
	}
	empty := func(where string, change func(p *Pod) reflect.Value) {
		for i := range change(&Pod{Containers: make([]Container, 1)}).NumField() {
			p := full()
			field := change(&p).Field(i)
			name := where + change(&p).Type().Field(i).Name
			if field.IsZero() {
				t.Errorf("%s is empty in the full pod: give it a value there", name)
			}
			field.SetZero()
			if want := slices.Contains(declared, name); full().Equal(p) != want || p.Equal(full()) != want {
				t.Errorf("pods that differ in %s: equal is not %v", name, want)
			}
		}
	}
	empty("Pod.", func(p *Pod) reflect.Value { return reflect.ValueOf(p).Elem() })
	empty("Container.", func(p *Pod) reflect.Value { return reflect.ValueOf(p).Elem().Field(containersField()).Index(0) })
}

func containersField() int {
	f, _ := reflect.TypeFor[Pod]().FieldByName("Containers")
	return f.Index[0]
}

// TestNothingAndEmptyAreTheSame: nil and empty lists mean the same.
func TestNothingAndEmptyAreTheSame(t *testing.T) {
	a := Pod{Containers: []Container{{}}}
	b := Pod{BudgetMemory: Amounts{}, Containers: []Container{{Memory: Amounts{}, HugePages: []Resource{}}}}
	if !a.Equal(b) {
		t.Error("a nil and an empty list differ")
	}
}
