package request

import (
	"maps"
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
			"plus": func(t *rapid.T) {
				before := slices.Clone(amounts)
				var more Amounts
				for _, r := range rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "more") {
					v := rapid.Int64Range(0, 5).Draw(t, "value")
					more, twin[r] = more.With(r, v), twin[r]+v
				}
				added := slices.Clone(more)
				next := amounts.Plus(more)
				if !slices.Equal(amounts, before) || !slices.Equal(more, added) {
					t.Fatalf("Plus changed %v to %v, or %v to %v", before, amounts, added, more)
				}
				amounts = next
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

// TestAmountsFork checks that two lists that come from the same list do not write into each other.
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
	p := Pod{Ask: Ask{Containers: []Container{{Name: "init"}, {Name: "side", Type: Sidecar}, {Name: "app", Type: App, CPUs: 2}}}}
	for i, want := range p.Containers {
		if got, at := p.Container(want.Name); at != i || got.Name != want.Name || got.Exclusive() != (want.Name == "app") {
			t.Errorf("%s is %+v at %d", want.Name, got, at)
		}
	}
	if got, at := p.Container("other"); at != -1 || got.Name != "" {
		t.Errorf("found %+v at %d", got, at)
	}
}

// TestAnyContainerStandsForAll checks a pod whose request is estimated, so that the names of its
// containers are not known.
func TestAnyContainerStandsForAll(t *testing.T) {
	p := Pod{Ask: Ask{Estimated: true, Containers: []Container{{Name: AnyContainer, Sharing: Estimated}}}}
	for _, name := range []string{"app", "debugger", AnyContainer} {
		if got, at := p.Container(name); at != 0 || got.Name != AnyContainer {
			t.Errorf("%s is %+v at %d", name, got, at)
		}
	}
	if _, at := p.Container(""); at != -1 {
		t.Errorf("no name is container %d", at)
	}
	if _, at := (Pod{Ask: Ask{Estimated: true}}).Container("app"); at != -1 {
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

// TestTotals checks what a pod counts: its budget, or what its containers need at the same time.
func TestTotals(t *testing.T) {
	const gib = 1 << 30
	memory := func(n int64) Amounts { return Amounts{{Memory, n * gib}} }
	plain := Ask{Containers: []Container{
		{Type: Init, CPURequest: 4500, Memory: memory(1)},
		{Type: Sidecar, CPURequest: 500, Memory: memory(1)},
		{Type: Init, CPURequest: 3000, Memory: memory(6)},
		{Type: App, CPURequest: 2000, Memory: memory(2), Devices: Amounts{{"example.com/gpu", 2}}},
		{Type: App, CPURequest: 1000, Devices: Amounts{{"example.com/gpu", 1}}},
	}}
	if got, want := plain.Totals(), (Totals{Milli: 4500, Memory: 7 * gib, Pods: 1, Others: Amounts{{"example.com/gpu", 3}}}); !got.Equal(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	pool := plain
	pool.BudgetCPUMilli, pool.BudgetMemory = 9000, memory(8)
	if got, want := pool.Totals(), (Totals{Milli: 9000, Memory: 8 * gib, Pods: 1, Others: Amounts{{"example.com/gpu", 3}}}); !got.Equal(want) {
		t.Errorf("with a budget: %+v, want %+v", got, want)
	}
	if got := (&Ask{}).Totals(); !got.Equal(Totals{Pods: 1}) {
		t.Errorf("of nothing: %+v", got)
	}
}
