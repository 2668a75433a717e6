package request

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// full returns a pod with a value in every field, and in every list.
func full() Pod {
	return Pod{
		Identity: Identity{UID: "u", Namespace: "n", Name: "p"},
		Ask: Ask{
			QoS: Guaranteed, Kind: PodLevel, BudgetCPUs: 1, BudgetMemory: Amounts{{"memory", 1}}, BudgetCPUMilli: 1, CPULimit: 1,
			SharesIsolated: true, PoolCache: Cache{Ways: 1, Percent: 1, Bandwidth: 1}, CacheUnclear: "no number",
			Estimated: true, FractionalMemory: true, DevicesUnknown: "no answer",
			Containers: []Container{{
				Name: "c", Type: App, CPUs: 1, Sharing: GateOff, Memory: Amounts{{"memory", 1}}, Equivalent: true,
				HugePages: []Resource{"hugepages-2Mi"}, Devices: Amounts{{"example.com/gpu", 1}}, CPURequest: 1, CPULimit: 1, FractionalMemory: true,
				Cache:          Cache{Ways: 1, Percent: 1, Bandwidth: 1},
				Given:          []Given{{Resource: "example.com/gpu", Claim: "train", Driver: "gpu", Pool: "p", Name: "gpu0", Nodes: 1}},
				ContainerNotes: ContainerNotes{Claims: []string{"nic"}, MemoryRequest: Amounts{{"memory", 1}}, MemoryLimit: Amounts{{"memory", 1}}},
			}},
			Stock: []Stock{{Of: "example.com/gpu", Places: []Place{{Nodes: 1, Devices: 2}}}},
		},
		Notes: Notes{Priority: 1, Created: 1, Moves: MoveMemory, VirtualMachine: true, ResourceClaims: []Claim{{
			Name: "p-nic", Uses: []ClaimUse{{"c", "r"}}, Devices: []ClaimDevice{{"d", "p", "n", "s", []string{"r"}, []string{"x"}}},
		}}},
	}
}

// walk visits every field below v, every list, and every element.
func walk(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		visit(path, v)
		for i := range v.Len() {
			walk(v.Index(i), path+"[]", visit)
		}
	default:
		visit(path, v)
	}
}

// change sets a field to another value: one more, or a list with one more element.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
}

// TestKeySeesEveryField changes the fields of a full pod one by one. Only fields in the Ask change
// the key: a new field has to be in the key, or among the notes.
func TestKeySeesEveryField(t *testing.T) {
	of, paths := full(), []string(nil)
	walk(reflect.ValueOf(&of).Elem(), "", func(path string, v reflect.Value) {
		paths = append(paths, path)
		if v.IsZero() {
			t.Errorf("%s is empty in the full pod: give it a value there", path)
		}
	})
	for _, how := range []func(reflect.Value){change, reflect.Value.SetZero} {
		for field, path := range paths {
			p, i := full(), 0
			walk(reflect.ValueOf(&p).Elem(), "", func(_ string, v reflect.Value) {
				if i == field {
					how(v)
				}
				i++
			})
			checkChange(t, path, p)
		}
	}
}

// checkChange compares a pod that differs from the full pod in one field.
func checkChange(t *testing.T, path string, p Pod) {
	t.Helper()
	was := full()
	identity, notes := strings.HasPrefix(path, ".Identity"), strings.HasPrefix(path, ".Notes") || strings.Contains(path, ".ContainerNotes")
	given := strings.HasPrefix(path, ".Ask.Stock") || strings.HasPrefix(path, ".Ask.Containers[].Given") || path == ".Ask.DevicesUnknown"
	// Only the reason, which is for people, is another one.
	reason := given && p.DevicesUnknown != "" && p.DevicesUnknown != was.DevicesUnknown
	unclear := p.CacheUnclear != "" && p.CacheUnclear != was.CacheUnclear
	key, own := identity || notes || reason || unclear, identity || notes || given || unclear
	wasOwn, isOwn := was.Own(), p.Own()
	for what, c := range map[string]struct{ got, want bool }{
		"Key":            {was.Key() == p.Key(), key},
		"the Key of Own": {wasOwn.Key() == isOwn.Key(), own},
		"Equal":          {was.Equal(p), own && !identity},
		"SameQuestion":   {p.SameQuestion(was), key && !identity},
	} {
		if c.got != c.want {
			t.Errorf("pods that differ in %s: %s is the same: %t, want %t", path, what, c.got, c.want)
		}
	}
}

// TestKeyIsOfOneAsk draws asks of few different parts, so that texts and lists can be confused at
// their ends. It compares their keys with their fields.
func TestKeyIsOfOneAsk(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "1", "1 ", "1:1", "0 ", "2:1 "})
	number := rapid.SampledFrom([]int{0, 1, 10, 11})
	amounts := rapid.Custom(func(t *rapid.T) Amounts {
		var a Amounts
		for range rapid.IntRange(0, 2).Draw(t, "amounts") {
			a = a.With(text.Draw(t, "resource"), int64(number.Draw(t, "value")))
		}
		return a
	})
	container := rapid.Custom(func(t *rapid.T) Container {
		c := Container{Name: text.Draw(t, "name"), CPUs: number.Draw(t, "CPUs"), Memory: amounts.Draw(t, "memory"), Devices: amounts.Draw(t, "devices")}
		for range rapid.IntRange(0, 2).Draw(t, "given") {
			c.Given = append(c.Given, Given{Resource: text.Draw(t, "of"), Name: text.Draw(t, "device")})
		}
		for range rapid.IntRange(0, 2).Draw(t, "huge pages") {
			c.HugePages = append(c.HugePages, text.Draw(t, "size"))
		}
		return c
	})
	ask := rapid.Custom(func(t *rapid.T) Ask {
		a := Ask{BudgetMemory: amounts.Draw(t, "budget"), BudgetCPUs: number.Draw(t, "CPUs")}
		for range rapid.IntRange(0, 2).Draw(t, "containers") {
			a.Containers = append(a.Containers, container.Draw(t, "container"))
		}
		for range rapid.IntRange(0, 2).Draw(t, "stock") {
			a.Stock = append(a.Stock, Stock{Of: text.Draw(t, "of"), Places: []Place{{1, number.Draw(t, "devices")}}})
		}
		return a
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := ask.Draw(t, "a"), ask.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") { // two asks that differ in a container or in nothing
			b = a
			if b.Containers = nil; rapid.Bool().Draw(t, "with containers") {
				b.Containers = append(b.Containers, a.Containers...)
			}
		}
		if same := fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b); same != (a.Key() == b.Key()) {
			t.Fatalf("%+v and %+v: same %t, keys %q and %q", a, b, same, a.Key(), b.Key())
		}
		if a.Key() != b.Key() && bytes.HasPrefix(a.AppendKey(nil), b.AppendKey(nil)) {
			t.Fatalf("key %q begins with key %q", a.Key(), b.Key())
		}
	})
}

// TestNothingAndEmptyAreTheSame checks that nil and empty lists mean the same.
func TestNothingAndEmptyAreTheSame(t *testing.T) {
	a := Pod{Ask: Ask{Containers: []Container{{}}}}
	b := Pod{Ask: Ask{BudgetMemory: Amounts{}, Stock: []Stock{}, Containers: []Container{{Memory: Amounts{}, HugePages: []Resource{}, Given: []Given{}}}}}
	if !a.Equal(b) || !a.SameQuestion(b) {
		t.Error("a nil and an empty list differ")
	}
}

// BenchmarkKey measures the key of a pod of that many containers, and a comparison with an equal
// pod.
func BenchmarkKey(b *testing.B) {
	for _, n := range []int{1, 8, 400} {
		p := Pod{Identity: Identity{UID: "4cdf0f4e-0000-4000-8000-000000000000"}, Ask: Ask{QoS: Guaranteed}}
		for i := range n {
			p.Containers = append(p.Containers, Container{
				Name: fmt.Sprint("container-", i), Type: App, CPUs: 2, Equivalent: true, CPURequest: 2000, CPULimit: 2000,
				Memory: Amounts{{"memory", 4 << 30}}, Devices: Amounts{{"example.com/gpu", 1}}, Given: []Given{{Resource: "example.com/gpu", Name: "gpu0", Nodes: 1}},
			})
		}
		q := p
		b.Run(fmt.Sprintf("key/containers=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Key()
			}
		})
		b.Run(fmt.Sprintf("equal/containers=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Equal(q)
			}
		})
	}
}
