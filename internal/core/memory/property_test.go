package memory_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

const (
	mib  = int64(1) << 20
	huge = "hugepages-2Mi"
)

// world is a machine with up to six NUMA nodes and the memory assigned on it.
type world struct {
	t        *rapid.T
	capacity *memory.Capacity
	usage    memory.Usage
	assigned [][]memory.Block
	reuse    memory.Reuse
	// left is the expected reuse, by mask and type, computed by the test.
	left map[mask.Mask]map[string]int64
}

func drawWorld(t *rapid.T) *world {
	var d machine.Description
	id := -1
	for range rapid.IntRange(1, 6).Draw(t, "nodes") {
		id += rapid.IntRange(1, 3).Draw(t, "gap")
		n := machine.NodeDescription{ID: id, Memory: 64 * mib * rapid.Int64Range(0, 8).Draw(t, "memory")}
		if pages := rapid.Int64Range(0, 4).Draw(t, "pages"); n.Memory >= 2*mib*pages && rapid.Bool().Draw(t, "huge pages") {
			n.HugePages = []machine.HugePages{{SizeKiB: 2048, Count: pages}}
		}
		if len(d.Nodes) == 0 {
			n.Cores = []machine.CoreDescription{{Threads: []int{0}}}
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	reserved := map[int]map[string]int64{}
	if first := d.Nodes[0]; first.Memory >= 64*mib {
		reserved[first.ID] = map[string]int64{machine.Memory: 32 * mib}
	}
	capacity, err := memory.NewCapacity(m, reserved)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, capacity: capacity, usage: memory.NewUsage(capacity), left: map[mask.Mask]map[string]int64{}}
	for range rapid.IntRange(0, 6).Draw(t, "steps") {
		w.step()
	}
	return w
}

func (w *world) nodes() mask.Mask {
	var all mask.Mask
	for _, n := range w.capacity.Nodes() {
		all = all.With(n.ID)
	}
	return all
}

func (w *world) drawMask(label string) mask.Mask {
	var m mask.Mask
	ids := w.nodes().Nodes()
	bits := rapid.IntRange(1, 1<<len(ids)-1).Draw(w.t, label)
	for i, id := range ids {
		if bits>>i&1 == 1 {
			m = m.With(id)
		}
	}
	return m
}

func (w *world) drawAmounts() request.Amounts {
	var a request.Amounts
	if slices.Contains(w.capacity.Types(), huge) && rapid.Bool().Draw(w.t, "wants huge pages") {
		a = a.With(huge, 2*mib*rapid.Int64Range(0, 8).Draw(w.t, "wanted pages"))
	}
	return a.With(machine.Memory, 16*mib*rapid.Int64Range(0, 40).Draw(w.t, "wanted"))
}

func (w *world) drawChoice() hint.Choice {
	c := hint.Choice{Mask: w.nodes(), Preferred: rapid.Bool().Draw(w.t, "preferred")}
	if rapid.Bool().Draw(w.t, "aligned") {
		c.Mask, c.HasMask = w.drawMask("aligned to"), true
	}
	return c
}

// step places and charges something, as the memory of an init container or of an app container, or
// releases something.
func (w *world) step() {
	if len(w.assigned) > 0 && rapid.IntRange(0, 3).Draw(w.t, "release") == 3 {
		w.release(rapid.IntRange(0, len(w.assigned)-1).Draw(w.t, "which"))
		return
	}
	amounts, choice := w.drawAmounts(), w.drawChoice()
	nodes, err := w.usage.Place(amounts, choice, nil)
	if err != nil {
		var placement *memory.PlacementError
		if !errors.As(err, &placement) || err.Error() == "" {
			w.t.Fatalf("error %v", err)
		}
		return
	}
	blocks := make([]memory.Block, len(amounts))
	for i, a := range amounts {
		blocks[i] = memory.Block{Type: a.Resource, Size: a.Value, Nodes: nodes}
	}
	w.usage = w.usage.Charge(blocks, nil)
	w.assigned = append(w.assigned, blocks)
	w.remember(rapid.SampledFrom([]request.ContainerType{request.Init, request.App}).Draw(w.t, "lane"), blocks)
}

// remember implements R-MEM-40.
func (w *world) remember(containerType request.ContainerType, blocks []memory.Block) {
	w.reuse = w.reuse.After(containerType, blocks)
	for _, b := range blocks {
		if w.left[b.Nodes] == nil {
			w.left[b.Nodes] = map[string]int64{}
		}
		old := w.left[b.Nodes][b.Type]
		if containerType == request.Init {
			w.left[b.Nodes][b.Type] = max(old, b.Size)
		} else {
			w.left[b.Nodes][b.Type] = max(0, old-b.Size)
		}
	}
}

func (w *world) release(i int) {
	w.usage = w.usage.Release(w.assigned[i])
	w.assigned = slices.Delete(w.assigned, i, i+1)
}

// literal implements R-HINT-32 word for word. It returns the masks on which the amounts fit and the
// size of a preferred one.
func (w *world) literal(amounts request.Amounts) (masks []mask.Mask, preferred int) {
	nodes, usage := w.capacity.Nodes(), w.usage.Nodes()
	preferred = len(nodes)
	for subset := 1; subset < 1<<len(nodes); subset++ {
		var m mask.Mask
		for i, n := range nodes {
			if subset>>i&1 == 1 {
				m = m.With(n.ID)
			}
		}
		if !w.enough(amounts, m, func(i, t int) int64 { return nodes[i].Types[t].Allocatable }, nil) {
			continue
		}
		preferred = min(preferred, m.Len())
		if allowed(m, usage) && w.enough(amounts, m, func(i, t int) int64 { return usage[i].Free[t] }, w.left[m]) {
			masks = append(masks, m)
		}
	}
	return masks, preferred
}

func (w *world) enough(amounts request.Amounts, m mask.Mask, of func(node, typ int) int64, more map[string]int64) bool {
	for _, a := range amounts {
		sum := more[a.Resource]
		for i, n := range w.capacity.Nodes() {
			if m.Has(n.ID) {
				sum += of(i, slices.Index(w.capacity.Types(), a.Resource))
			}
		}
		if sum < a.Value {
			return false
		}
	}
	return true
}

// allowed implements steps 3 and 4 of R-HINT-32.
func allowed(m mask.Mask, usage []memory.NodeUsage) bool {
	for _, n := range usage {
		if !m.Has(n.ID) {
			continue
		}
		if m.Len() == 1 && n.Group.Len() > 1 {
			return false
		}
		if m.Len() > 1 && n.Assignments > 0 && (n.Group.Len() == 1 || n.Group != m) {
			return false
		}
	}
	return true
}

func TestHintsAreTheLiteralEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		amounts := w.drawAmounts()
		f := w.usage.Hints(amounts, w.reuse)
		masks, preferred := w.literal(amounts)
		if (f.Kind == hint.Any) != (len(masks) == 0) || f.Kind == hint.None {
			t.Fatalf("%s: kind %v, and %v fit", amounts, f.Kind, masks)
		}
		if f.Kind == hint.Any {
			return
		}
		if f.Preferred != preferred || f.Copies != len(amounts) {
			t.Fatalf("%s: preferred size %d in %d lists, want %d in %d", amounts, f.Preferred, f.Copies, preferred, len(amounts))
		}
		for subset := mask.Mask(1); subset <= w.nodes(); subset++ {
			if got, want := f.Has(subset), slices.Contains(masks, subset); got != want {
				t.Fatalf("%s: %s fits: %v, want %v", amounts, subset, got, want)
			}
		}
	})
}

// TestPlaceIsTheNarrowest checks that a placement fits, respects the groups, contains the aligned
// NUMA nodes if possible, and is no wider than necessary. An error must be justified.
func TestPlaceIsTheNarrowest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		amounts, choice := w.drawAmounts(), w.drawChoice()
		got, err := w.usage.Place(amounts, choice, w.reuse)
		want, ok := w.place(amounts, choice)
		if ok != (err == nil) || got != want {
			t.Fatalf("%s aligned to %+v: got %s, %v, want %s, %v", amounts, choice, got, err, want, ok)
		}
	})
}

// place implements R-MEM-32, 33, 35 and 38 over the literal list, and applies the rule of groups to
// single NUMA nodes too.
func (w *world) place(amounts request.Amounts, choice hint.Choice) (mask.Mask, bool) {
	masks, preferred := w.literal(amounts)
	best := func(within mask.Mask) (mask.Mask, bool) {
		var found mask.Mask
		for _, m := range masks {
			better := found == 0 || (m.Len() == preferred) && found.Len() != preferred ||
				(m.Len() == preferred) == (found.Len() == preferred) && m.NarrowerThan(found)
			if m.Contains(within) && better {
				found = m
			}
		}
		return found, found != 0 && (!choice.Preferred || found.Len() == preferred)
	}
	nodes := choice.Mask
	if !choice.HasMask {
		var ok bool
		if nodes, ok = best(0); !ok {
			return 0, false
		}
	}
	usage := w.usage.Nodes()
	if !w.enough(amounts, nodes, func(i, t int) int64 { return usage[i].Free[t] }, nil) {
		var ok bool
		if nodes, ok = best(nodes); !ok {
			return 0, false
		}
	}
	if !allowed(nodes, usage) {
		return 0, false
	}
	return nodes, true
}

// TestReleaseUndoesCharge checks that, whatever the order is, the usage is empty after everything
// is released, and that nothing is ever negative or assigned twice.
func TestReleaseUndoesCharge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.checkSums()
		for len(w.assigned) > 0 {
			w.release(rapid.IntRange(0, len(w.assigned)-1).Draw(t, "which"))
			w.checkSums()
		}
		if fresh := memory.NewUsage(w.capacity); !w.usage.Equal(fresh) || !fresh.Equal(w.usage) {
			t.Fatalf("nothing is held, and the books say %+v", w.usage.Nodes())
		}
	})
}

// TestUsageFollowsFromTheBlocks checks that the same blocks give the same usage, whatever was
// charged and released before and in whatever order. This includes how the bytes of a group are
// spread over its NUMA nodes, for which the reference keeps a history.
func TestUsageFollowsFromTheBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		again := memory.NewUsage(w.capacity)
		for _, blocks := range rapid.Permutation(w.assigned).Draw(t, "order") {
			again = again.Charge(blocks, nil)
		}
		if got, want := w.usage.Nodes(), again.Nodes(); !reflect.DeepEqual(got, want) || !again.Equal(w.usage) {
			t.Fatalf("%v make %+v, and after other blocks came and went %+v", w.assigned, want, got)
		}
	})
}

// TestExcess checks that adding the excess of one usage over another to the latter gives the
// former, and that the parts of a divided list add up to the list.
func TestExcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		other := memory.NewUsage(w.capacity)
		for _, blocks := range w.assigned {
			if rapid.Bool().Draw(t, "in both") {
				other = other.Charge(blocks, nil)
			}
			if rapid.Bool().Draw(t, "twice") {
				other = other.Charge(blocks, nil)
			}
		}
		beyond := w.usage.Beyond(other)
		if got := other.Plus(beyond); !got.Equal(w.usage) {
			t.Fatalf("%+v with %+v is %+v, want %+v", other.Nodes(), beyond, got.Nodes(), w.usage.Nodes())
		}
		if got := w.usage.Less(beyond); !got.Equal(other) {
			t.Fatalf("%+v without %+v is %+v, want %+v", w.usage.Nodes(), beyond, got.Nodes(), other.Nodes())
		}
		if (len(beyond) == 0) != w.usage.Equal(other) {
			t.Fatalf("%+v is beyond, and equal is %t", beyond, w.usage.Equal(other))
		}
		earlier := memory.NewUsage(w.capacity).Beyond(other)
		shared, rest := memory.Shared(earlier, beyond)
		if got := other.Plus(shared).Plus(rest); !got.Equal(w.usage) {
			t.Fatalf("%+v and %+v are not %+v", shared, rest, beyond)
		}
	})
}

// checkSums compares the usage with the blocks, type by type and group by group, and with a usage
// that is built again from them.
func (w *world) checkSums() {
	again := memory.NewUsage(w.capacity)
	for _, blocks := range w.assigned {
		again = again.Charge(blocks, nil)
	}
	if !again.Equal(w.usage) {
		w.t.Fatalf("the books are not the sum of the blocks: %+v, want %+v", w.usage.Nodes(), again.Nodes())
	}
	for i, n := range w.usage.Nodes() {
		for t, name := range w.capacity.Types() {
			if n.Free[t] < 0 || n.Reserved[t] < 0 || n.Free[t]+n.Reserved[t] != w.capacity.Nodes()[i].Types[t].Allocatable {
				w.t.Fatalf("NUMA node %d: %d reserved and %d free of %s", n.ID, n.Reserved[t], n.Free[t], name)
			}
			var assigned int64
			for _, blocks := range w.assigned {
				for _, b := range blocks {
					if b.Type == name && b.Nodes == n.Group {
						assigned += b.Size
					}
				}
			}
			if all := w.allocatable(n.Group, t); w.usage.Free(n.Group, name) != all-assigned {
				w.t.Fatalf("group %s: %d free of %s, want %d-%d", n.Group, w.usage.Free(n.Group, name), name, all, assigned)
			}
		}
	}
}

func (w *world) allocatable(nodes mask.Mask, t int) int64 {
	var sum int64
	for _, n := range w.capacity.Nodes() {
		if nodes.Has(n.ID) {
			sum += n.Types[t].Allocatable
		}
	}
	return sum
}

// TestReuseIsByExactMaskAndType checks R-MEM-40 against the table that the test keeps.
func TestReuseIsByExactMaskAndType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		b := memory.Block{Type: machine.Memory, Size: 16 * mib * rapid.Int64Range(0, 40).Draw(t, "size"), Nodes: w.drawMask("on")}
		want := max(0, b.Size-w.left[b.Nodes][b.Type])
		if got := w.reuse.Charged([]memory.Block{b}); got[0] != want {
			t.Fatalf("%+v: %d bytes are new, want %d", b, got[0], want)
		}
	})
}

// TestKeys checks that keys are the same for equal usages only.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		blocks := rapid.Custom(func(t *rapid.T) memory.Block {
			nodes := w.capacity.Nodes()
			b := memory.Block{Type: rapid.SampledFrom(w.capacity.Types()).Draw(t, "type"), Size: mib * rapid.Int64Range(1, 2).Draw(t, "size")}
			for range rapid.IntRange(1, 2).Draw(t, "width") {
				b.Nodes = b.Nodes.With(nodes[rapid.IntRange(0, min(1, len(nodes)-1)).Draw(t, "node")].ID)
			}
			return b
		})
		one, other := rapid.SliceOfN(blocks, 0, 2).Draw(t, "one"), rapid.SliceOfN(blocks, 0, 2).Draw(t, "other")
		a, b := w.usage.Charge(one, nil), w.usage.Charge(other, nil)
		if x, y := string(a.AppendKey(nil)), string(b.AppendKey(nil)); (x == y) != a.Equal(b) {
			t.Fatalf("blocks %v have key %q, and %v have key %q", one, x, other, y)
		}
		if again := a.Charge(other, nil).Release(other); string(again.AppendKey(nil)) != string(a.AppendKey(nil)) {
			t.Fatalf("%v has another key after %v came and went", one, other)
		}
	})
}
