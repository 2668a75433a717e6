package cpu_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// literalHints implements R-HINT-24 and R-HINT-25 word for word. It maps each mask that gets a hint
// to whether the hint is preferred.
func literalHints(m *machine.Machine, o cpu.Options, available, reusable []int, request int) map[mask.Mask]bool {
	var all mask.Mask
	for _, c := range m.CPUs() {
		all = all.With(c.Node)
	}
	count := func(ids []int, in mask.Mask) (n int) {
		for _, id := range ids {
			if c, ok := m.CPU(id); ok && in.Has(c.Node) {
				n++
			}
		}
		return n
	}
	least := all.Len()
	hints := map[mask.Mask]bool{}
	for a := mask.Mask(1); a <= all; a++ {
		if !all.Contains(a) {
			continue
		}
		total := 0
		for _, c := range m.CPUs() {
			if a.Has(c.Node) {
				total++
			}
		}
		if total >= request {
			least = min(least, a.Len())
		}
		reused := count(reusable, a)
		if reused < len(reusable) || reused+count(available, a) < request {
			continue
		}
		hints[a] = false
	}
	for a := range hints {
		hints[a] = a.Len() == least || o.AlignBySocket && literalBySocket(m, a, least)
	}
	return hints
}

func literalBySocket(m *machine.Machine, a mask.Mask, least int) bool {
	nodes, sockets := map[int]bool{}, map[int]bool{}
	for _, c := range m.CPUs() {
		nodes[c.Node] = true
		if a.Has(c.Node) {
			sockets[c.Socket] = true
		}
	}
	p := len(nodes) / m.NumSockets()
	return p > 0 && len(sockets) == (least+p-1)/p
}

// prefers reports whether the set prefers the mask, as package hint documents it.
func prefers(f hint.Set, a mask.Mask) bool {
	if a.Len() == f.Preferred {
		return true
	}
	if f.Sockets == nil {
		return false
	}
	touched := 0
	for _, s := range f.Sockets.Sockets {
		if s&a != 0 {
			touched++
		}
	}
	return touched == f.Sockets.Count
}

func TestHintsAreWhatTheEnumerationLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		o := cpu.Options{AlignBySocket: rapid.Bool().Draw(t, "align-by-socket")}
		available := drawAvailable(t, m)
		var reusable []int
		if rapid.Bool().Draw(t, "reuse") {
			all := rapid.Permutation(m.AllCPUs().IDs()).Draw(t, "reusable")
			reusable = all[:rapid.IntRange(0, min(4, len(all))).Draw(t, "reusable CPUs")]
		}
		request := rapid.IntRange(1, len(m.CPUs())+2).Draw(t, "request")
		want := literalHints(m, o, available, reusable, request)
		f := cpu.Hints(m, o, cpuset.Of(available...), cpuset.Of(reusable...), request)
		if (f.Kind == hint.None) != (len(want) == 0) || f.Kind == hint.Any {
			t.Fatalf("kind %s for %d masks: %+v", f.Kind, len(want), f)
		}
		if (f.Why == "") != (f.Kind == hint.Fits) {
			t.Fatalf("kind %s, why %q", f.Kind, f.Why)
		}
		for a := mask.Mask(1); a < 1<<16; a++ { // ids go up to 5·3
			preferred, listed := want[a]
			if f.Has(a) != listed {
				t.Fatalf("mask %s: listed %v, but the set says %v: %+v", a, listed, f.Has(a), f)
			}
			if listed && prefers(f, a) != preferred {
				t.Fatalf("mask %s: preferred %v, but the set says otherwise: %+v", a, preferred, f)
			}
		}
	})
}

func TestNoRequestIsNoHint(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{
		{Cores: []machine.CoreDescription{{Threads: []int{0}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []int{0, -1} {
		if f := cpu.Hints(m, cpu.Options{}, m.AllCPUs(), cpuset.Set{}, request); f.Kind != hint.Any {
			t.Errorf("Hints for %d CPUs is of kind %s, want any", request, f.Kind)
		}
	}
}
