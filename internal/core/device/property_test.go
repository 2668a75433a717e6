package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

const gpu = "example.com/gpu"

func machineOf(t failer, nodes ...int) *machine.Machine {
	t.Helper()
	d := machine.Description{}
	for i, id := range nodes {
		d.Nodes = append(d.Nodes, machine.NodeDescription{ID: id, Cores: []machine.CoreDescription{{Threads: []int{i}}}})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type failer interface {
	Helper()
	Fatal(args ...any)
}

// world is a machine with devices of one resource. Some are assigned to other pods, and some are
// assigned to the pod itself and reusable.
type world struct {
	machine            *machine.Machine
	devices            []Device // ascending by id
	usage              Usage
	assigned, reusable []string
}

func aWorld(t *rapid.T) world {
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, mask.MaxNode), 1, 6, rapid.ID).Draw(t, "nodes")
	if rapid.Bool().Draw(t, "dense") {
		for i := range ids {
			ids[i] = i
		}
	}
	w := world{machine: machineOf(t, ids...)}
	located := rapid.IntRange(0, 9).Draw(t, "located") > 0
	for i := range rapid.IntRange(0, 12).Draw(t, "devices") {
		d := Device{ID: fmt.Sprintf("d%02d", i), Healthy: rapid.IntRange(0, 4).Draw(t, "health") > 0}
		for range rapid.SampledFrom([]int{1, 1, 1, 2, 3, 0}).Draw(t, "spans") {
			if located {
				d.Nodes = d.Nodes.With(rapid.SampledFrom(ids).Draw(t, "node"))
			}
		}
		switch rapid.IntRange(0, 5).Draw(t, "held") {
		case 0:
			w.assigned = append(w.assigned, d.ID)
		case 1:
			w.assigned, w.reusable = append(w.assigned, d.ID), append(w.reusable, d.ID)
		}
		w.devices = append(w.devices, d)
	}
	inv, err := NewInventory(w.machine, map[string][]Device{gpu: rapid.Permutation(w.devices).Draw(t, "order")})
	if err != nil {
		t.Fatal(err)
	}
	if w.usage, err = NewUsage(inv).Take(gpu, w.assigned); err != nil {
		t.Fatal(err)
	}
	return w
}

func aMask(t *rapid.T, m *machine.Machine) mask.Mask {
	return mask.Mask(rapid.Uint64().Draw(t, "mask")) & m.NodeMask()
}

// TestHintsAreTheRule compares Hints with the literal rule: the kind, every mask and the preferred
// size.
func TestHintsAreTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := aWorld(t)
		n := rapid.IntRange(1, 13).Draw(t, "request")
		f := w.usage.Hints(gpu, int64(n), w.reusable)
		want := literalHints(w.devices, w.assigned, w.reusable, n)
		if f.Kind != want.kind {
			t.Fatalf("kind %s (%s), want %s", f.Kind, f.Why, want.kind)
		}
		if (f.Why != "") != (f.Kind == hint.None) {
			t.Fatalf("kind %s with reason %q", f.Kind, f.Why)
		}
		if f.Kind != hint.Fits {
			return
		}
		if f.Preferred != want.preferred {
			t.Fatalf("preferred on %d nodes, want %d", f.Preferred, want.preferred)
		}
		nodes := w.machine.NodeMask()
		for m := nodes; m != 0; m = (m - 1) & nodes {
			if got, want := f.Has(m), slices.Contains(want.masks, m); got != want {
				t.Fatalf("%s is in the hint set: %t, want %t", m, got, want)
			}
		}
	})
}

// TestAllocateKeepsItsWord checks that Allocate returns as many different devices as requested,
// reusable ones first, local ones before others. It must fail exactly if there are too few.
func TestAllocateKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := aWorld(t)
		n := rapid.IntRange(0, 13).Draw(t, "request")
		aligned := hint.Choice{Mask: aMask(t, w.machine), HasMask: rapid.Bool().Draw(t, "aligned")}
		free := w.usage.Free(gpu)
		ids, err := w.usage.Allocate(gpu, int64(n), aligned, w.reusable)
		var few *NotEnoughError
		if errors.As(err, &few) != (len(free)+len(w.reusable) < n) {
			t.Fatalf("%v, with %d free and %d reusable of %d", err, len(free), len(w.reusable), n)
		}
		if err != nil {
			if few.Available != len(free)+len(w.reusable) || few.Total != len(w.devices) || few.Available+few.Unhealthy > few.Total {
				t.Fatalf("account %+v", few)
			}
			return
		}
		if len(ids) != n || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != n {
			t.Fatalf("%d devices asked for, got %q", n, ids)
		}
		var fresh []string
		for _, id := range ids {
			if slices.Contains(free, id) {
				fresh = append(fresh, id)
			} else if !slices.Contains(w.reusable, id) {
				t.Fatalf("%s is neither free nor reusable", id)
			}
		}
		if len(fresh) != max(0, n-len(w.reusable)) {
			t.Fatalf("takes %q although %q can be reused", ids, w.reusable)
		}
		if aligned.HasMask {
			checkLocal(t, w, aligned.Mask, free, fresh)
		}
		if again, _ := w.usage.Allocate(gpu, int64(n), aligned, w.reusable); !slices.Equal(ids, again) {
			t.Fatalf("%q, and then %q", ids, again)
		}
	})
}

// checkLocal checks that no free device is left that is nearer than one that was taken.
func checkLocal(t *rapid.T, w world, aligned mask.Mask, free, fresh []string) {
	near := func(id string) int {
		d, _ := w.usage.Inventory().Device(gpu, id)
		switch {
		case d.Nodes != 0 && d.Nodes&^aligned == 0:
			return 0
		case d.Nodes&aligned != 0:
			return 1
		case d.Nodes != 0:
			return 2
		}
		return 3
	}
	for _, left := range free {
		for _, taken := range fresh {
			if !slices.Contains(fresh, left) && near(left) < near(taken) {
				t.Fatalf("on %s it takes %s and leaves %s", aligned, taken, left)
			}
		}
	}
}

// TestHintsPromiseAllocateDelivers checks that all devices allocated for a mask of the hint set are
// local to the mask if they report a NUMA node, unless devices without one are reused.
func TestHintsPromiseAllocateDelivers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := aWorld(t)
		n := int64(rapid.IntRange(1, 6).Draw(t, "request"))
		f := w.usage.Hints(gpu, n, w.reusable)
		m := aMask(t, w.machine)
		if f.Kind != hint.Fits || !f.Has(m) {
			return
		}
		ids, err := w.usage.Allocate(gpu, n, hint.Choice{Mask: m, HasMask: true}, w.reusable)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			d, _ := w.usage.Inventory().Device(gpu, id)
			if d.Nodes&m == 0 && !slices.Contains(w.reusable, id) {
				t.Fatalf("%s on %s is not local to %s", id, d.Nodes, m)
			}
		}
	})
}

func TestTakeAndReturnAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := aWorld(t)
		before := w.usage.Assigned()
		free := w.usage.Free(gpu)
		ids := free[:rapid.IntRange(0, len(free)).Draw(t, "taken")]
		taken, err := w.usage.Take(gpu, ids)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) > 0 && (taken.Equal(w.usage) || len(taken.Free(gpu)) != len(free)-len(ids)) {
			t.Fatalf("%q taken of %q, free are %q", ids, free, taken.Free(gpu))
		}
		for _, bad := range [][]string{ids[:min(1, len(ids))], {"d00", "d00"}, {"nobody"}} {
			if got, err := taken.Take(gpu, bad); len(bad) > 0 && (!errors.Is(err, ErrNotFree) || !got.Equal(taken)) {
				t.Fatalf("%q taken: %v", bad, err)
			}
		}
		if back := taken.Return(gpu, ids); !back.Equal(w.usage) || !back.Return(gpu, ids).Equal(w.usage) {
			t.Fatalf("%v after %q came back", back.Assigned(), ids)
		}
		if after := w.usage.Assigned(); len(after) != len(before) || len(after) > 0 && !slices.Equal(after[0].IDs, before[0].IDs) {
			t.Fatalf("a usage changed: %v was %v", after, before)
		}
	})
}

// TestCountsAddUp compares the counts of every NUMA node with the individual devices.
func TestCountsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := aWorld(t)
		want := map[int]Count{}
		free := w.usage.Free(gpu)
		for _, d := range w.devices {
			nodes := d.Nodes.Nodes()
			if len(nodes) == 0 {
				nodes = []int{NoNode}
			}
			for _, n := range nodes {
				c := want[n]
				c.Node = n
				c.Total++
				if slices.Contains(w.assigned, d.ID) {
					c.Assigned++
				}
				if slices.Contains(free, d.ID) {
					c.Free++
				}
				want[n] = c
			}
		}
		got := w.usage.Counts(gpu)
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for _, c := range got {
			if c != want[c.Node] {
				t.Fatalf("%+v, want %+v", c, want[c.Node])
			}
		}
	})
}

// TestReuse runs the containers of a pod one after the other. Devices of containers that run at the
// same time must differ, and the pod must have no more devices than its aggregate (R-DEM-80).
func TestReuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []Device
		for i := range 24 {
			devices = append(devices, Device{ID: fmt.Sprintf("d%02d", i), Healthy: true, Nodes: mask.Of(i % 4)})
		}
		inv, err := NewInventory(machineOf(t, 0, 1, 2, 3), map[string][]Device{gpu: devices})
		if err != nil {
			t.Fatal(err)
		}
		u, reuse := NewUsage(inv), Reuse(nil)
		containerTypes := rapid.SliceOfN(rapid.SampledFrom([]request.ContainerType{request.Init, request.Sidecar}), 0, 4).Draw(t, "inits")
		containerTypes = append(containerTypes, rapid.SampledFrom([][]request.ContainerType{{request.App}, {request.App, request.App}}).Draw(t, "apps")...)
		var running []string // devices of containers that run until the pod ends
		sidecars, most, apps := 0, 0, 0
		for _, containerType := range containerTypes {
			n := rapid.IntRange(0, 4).Draw(t, "devices")
			ids, err := u.Allocate(gpu, int64(n), hint.Choice{Mask: aMask(t, machineOf(t, 0, 1, 2, 3)), HasMask: true}, reuse.IDs(gpu))
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(running, id) }) {
				t.Fatalf("%q for a %s container while %q are in use", ids, containerType, running)
			}
			if u, err = u.Take(gpu, reuse.New(gpu, ids)); err != nil {
				t.Fatal(err)
			}
			reuse = reuse.After(containerType, gpu, ids)
			if left := reuse.IDs(gpu); !slices.IsSorted(left) || len(slices.Compact(slices.Clone(left))) != len(left) {
				t.Fatalf("%q can be reused", left)
			}
			switch containerType {
			case request.Init:
				most = max(most, sidecars+n)
			case request.Sidecar:
				running, sidecars = append(running, ids...), sidecars+n
			case request.App:
				running, apps = append(running, ids...), apps+n
			}
		}
		if want := max(most, sidecars+apps); len(devices)-len(u.Free(gpu)) != want {
			t.Fatalf("%s hold %v, want %d", containerTypes, u.Assigned(), want)
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, name := range []string{gpu, "cpu", "kubernetes.io/x", "requests.a/b", "a/b/c", "A/b", "a/-", strings.Repeat("a", 64) + "/b", "a..b/c", "/", "a/é"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil {
			return
		}
		if strings.Count(name, "/") != 1 || strings.ContainsAny(name, " \t\n\"") || len(name) > 253+64 {
			t.Fatalf("%q is accepted", name)
		}
	})
}
