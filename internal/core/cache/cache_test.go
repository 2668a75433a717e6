package cache_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// newMachine returns a machine with L3 caches of two CPUs each.
func newMachine(t testing.TB, caches int, c machine.Caches) *machine.Machine {
	t.Helper()
	n := machine.NodeDescription{Memory: 1 << 30}
	for id := range caches {
		for k := range 2 {
			n.Cores = append(n.Cores, machine.CoreDescription{Uncore: id, Threads: []int{2*id + k}})
		}
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{n}, Caches: c})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWays(t *testing.T) {
	for _, c := range []struct {
		ways       cache.Ways
		text, hex  string
		contiguous bool
	}{
		{0, "none", "0", true},
		{1, "0", "1", true},
		{0xf0, "4-7", "f0", true},
		{0xc01, "0,10-11", "c01", false},
		{0xffffffff, "0-31", "ffffffff", true},
		{1 << 31, "31", "80000000", true},
	} {
		if c.ways.String() != c.text || c.ways.Hex() != c.hex || c.ways.Contiguous() != c.contiguous {
			t.Errorf("%b is %s, %s, contiguous %t", c.ways, c.ways, c.ways.Hex(), c.ways.Contiguous())
		}
	}
	if cache.Run(0, 32) != 0xffffffff || cache.Run(3, 0) != 0 {
		t.Error("runs of all ways and of none are wrong")
	}
}

// TestResolve has what asks mean on a machine with 11 ways, of which hardware uses two, and limits
// of the bandwidth in steps of 10 %.
func TestResolve(t *testing.T) {
	m := newMachine(t, 1, machine.Caches{Classes: 8, Ways: 11, LeastWays: 2, HardwareWays: 0x600, LeastBandwidth: 10, BandwidthStep: 10})
	for _, c := range []struct {
		ask  request.Cache
		want cache.Want
		err  string
	}{
		{request.Cache{}, cache.Want{}, ""},
		{request.Cache{Ways: 4}, cache.Want{Ways: 4}, ""},
		{request.Cache{Ways: 1}, cache.Want{Ways: 2}, ""},       // the least class
		{request.Cache{Percent: 20}, cache.Want{Ways: 3}, ""},   // 2.2 ways
		{request.Cache{Percent: 81}, cache.Want{Ways: 9}, ""},   // 8.91
		{request.Cache{Percent: 82}, cache.Want{}, "at most 9"}, // 9.02
		{request.Cache{Ways: 10}, cache.Want{}, "at most 9"},
		{request.Cache{Bandwidth: 5}, cache.Want{Bandwidth: 10}, ""},
		{request.Cache{Bandwidth: 81}, cache.Want{Bandwidth: 90}, ""},
		{request.Cache{Bandwidth: 91}, cache.Want{}, "at most 90%"},
		{request.Cache{Ways: 3, Bandwidth: 20}, cache.Want{Ways: 3, Bandwidth: 20}, ""},
	} {
		got, err := cache.Resolve(c.ask, m)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s is %+v, error %v: want %+v, %q", c.ask, got, err, c.want, c.err)
		}
	}
}

// TestResolveWithout has machines that lack something.
func TestResolveWithout(t *testing.T) {
	ways, bandwidth := request.Cache{Ways: 1}, request.Cache{Bandwidth: 10}
	for _, c := range []struct {
		caches machine.Caches
		ask    request.Cache
		err    string
	}{
		{machine.Caches{}, ways, "cannot be divided"},
		{machine.Caches{}, bandwidth, "cannot limit memory bandwidth"},
		{machine.Caches{Classes: 1, Ways: 8, LeastWays: 1}, ways, "cannot be divided"},
		{machine.Caches{Classes: 16, Ways: 16, LeastWays: 1, AbsoluteBandwidth: true}, bandwidth, "in GB/s and not in percent"},
		{machine.Caches{Classes: 16, Ways: 16, LeastWays: 1}, bandwidth, "cannot limit memory bandwidth"},
		{machine.Caches{Classes: 16, LeastBandwidth: 10, BandwidthStep: 10}, ways, "cannot be divided"},
		{machine.Caches{Classes: 16, Ways: 2, LeastWays: 2}, ways, "at most 0 of the 2 ways"},
	} {
		if _, err := cache.Resolve(c.ask, newMachine(t, 1, c.caches)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s on %+v: error %v, want %q", c.ask, c.caches, err, c.err)
		}
	}
}

// TestSmallestRun shows where classes are placed: in the smallest run that has room, and beside the
// default class only if no other run has.
func TestSmallestRun(t *testing.T) {
	m := newMachine(t, 1, machine.Caches{Classes: 16, Ways: 12, LeastWays: 1})
	u := cache.NewUsage(m)
	var classes []cache.Class
	for _, n := range []int{3, 1, 2, 1} { // ways 0-2, 3, 4-5, 6
		l := u.Layout([]cache.Want{{Ways: n}})
		c := l.Class(0, cpuset.Of(0))
		var err error
		if u, err = u.Take(c); err != nil {
			t.Fatal(err)
		}
		classes = append(classes, c)
	}
	u = u.Return(classes[0]).Return(classes[2]) // free: 0-2, 4-5, and 7-9 beside the default class
	for n, want := range []string{1: "4", 2: "4-5", 3: "0-2"} {
		if n == 0 {
			continue
		}
		if c := u.Layout([]cache.Want{{Ways: n}}).Class(0, cpuset.Of(0)); c[0].Ways.String() != want {
			t.Errorf("%d ways are %s, want %s", n, c[0].Ways, want)
		}
	}
	if free, all := u.FreeWays(0); free != 3 || all != 10 {
		t.Errorf("%d of %d ways are free, want 3 of 10", free, all)
	}
	if rest := u.Rest()[0].Ways.String(); rest != "7-11" {
		t.Errorf("the default class has ways %s, want 7-11", rest)
	}
	if l := u.Layout([]cache.Want{{Ways: 4}}); !l.CPUs().IsEmpty() || !l.WithWays().IsEmpty() || l.Short() {
		t.Error("4 ways fit where 3 are free in a row")
	}
}

// TestHardwareWays has hardware ways at both ends and in the middle. The default class always has
// them.
func TestHardwareWays(t *testing.T) {
	for hardware, want := range map[uint32][2]string{0xc00: {"0-3", "4-11"}, 0x003: {"8-11", "0-7"}, 0x030: {"0-3", "4-11"}, 0: {"0-3", "4-11"}} {
		u := cache.NewUsage(newMachine(t, 1, machine.Caches{Classes: 4, Ways: 12, LeastWays: 1, HardwareWays: hardware}))
		c := u.Layout([]cache.Want{{Ways: 4}}).Class(0, cpuset.Of(0))
		next, err := u.Take(c)
		if err != nil || c[0].Ways.String() != want[0] || next.Rest()[0].Ways.String() != want[1] {
			t.Errorf("hardware uses %x: the class has %s and the default class %s, want %s: %v", hardware, c, next.Rest()[0].Ways, want, err)
		}
	}
}

// TestTake rejects what is not free, and adds nothing then.
func TestTake(t *testing.T) {
	u := cache.NewUsage(newMachine(t, 2, machine.Caches{Classes: 3, Ways: 8, LeastWays: 1, HardwareWays: 0x80, LeastBandwidth: 10, BandwidthStep: 10}))
	u, err := u.Take(cache.Class{{Cache: 0, Ways: 0b11, Bandwidth: 50}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class cache.Class
		err   string
	}{
		{cache.Class{{Cache: 0, Ways: 0b110}}, "another class has ways 1 of L3 0"},
		{cache.Class{{Cache: 0, Ways: 0x80}}, "cannot have ways 7"},
		{cache.Class{{Cache: 0, Ways: 0x100}}, "cannot have ways 8"},
		{cache.Class{{Cache: 0, Bandwidth: 50}}, "would have 100% of the memory bandwidth"},
		{cache.Class{{Cache: 1, Bandwidth: -1}}, "memory bandwidth"},
	} {
		if next, err := u.Take(c.class); !errors.Is(err, cache.ErrNotFree) || !strings.Contains(err.Error(), c.err) || !next.Equal(u) {
			t.Errorf("%s: error %v, want %q", c.class, err, c.err)
		}
	}
	full, err := u.Take(cache.Class{{Cache: 1, Ways: 0b11}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Take(cache.Class{{Cache: 1, Ways: 0b100}}); err == nil || !strings.Contains(err.Error(), "all 2 classes") {
		t.Errorf("a third class: error %v", err)
	}
	if l := full.Layout([]cache.Want{{Ways: 1}}); !l.Short() || !l.CPUs().IsEmpty() {
		t.Error("a third class has a place")
	}
	// A cache that the machine does not have now does not count, and its class does.
	if away, err := u.Take(cache.Class{{Cache: 9, Ways: 0xff}}); err != nil || fmt.Sprint(away.Rest()) != fmt.Sprint(u.Rest()) {
		t.Errorf("a class of an absent cache: %v, error %v", away.Rest(), err)
	}
}

const layoutCaches = 3

// TestLayouts places random classes and takes those whose CPUs use a cache. It compares the result
// with a literal reading of the rules, way by way.
func TestLayouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, rules := drawMachine(t)
		u, held := cache.NewUsage(m), []cache.Class(nil)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "return") {
				k := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				u = u.Return(held[k])
				held = slices.Delete(held, k, k+1)
				continue
			}
			var more []cache.Class
			u, more = place(t, u, rules.LeastWays)
			held = append(held, more...)
			checkHeld(t, u, rules, held)
		}
		for _, c := range held {
			u = u.Return(c)
		}
		if !u.Equal(cache.NewUsage(m)) {
			t.Fatal("something is left after all classes were returned")
		}
	})
}

// drawMachine draws a machine with one CPU for each cache.
func drawMachine(t *rapid.T) (*machine.Machine, machine.Caches) {
	intn := func(low, high int, label string) int { return rapid.IntRange(low, high).Draw(t, label) }
	ways := intn(1, 20, "ways")
	rules := machine.Caches{Classes: intn(2, 8, "classes"), Ways: ways, LeastWays: intn(1, min(ways, 2), "least"), LeastBandwidth: 10, BandwidthStep: 10}
	if rapid.Bool().Draw(t, "hardware") {
		rules.HardwareWays = uint32(cache.Run(intn(0, ways-1, "first"), 1))
	}
	n := machine.NodeDescription{Memory: 1 << 30}
	for id := range layoutCaches {
		n.Cores = append(n.Cores, machine.CoreDescription{Uncore: id, Threads: []int{id}})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{n}, Caches: rules})
	if err != nil {
		t.Fatal(err)
	}
	return m, rules
}

// place lays out a few classes with as many ways as Resolve gives, and takes those whose CPUs use a
// cache.
func place(t *rapid.T, u cache.Usage, least int) (cache.Usage, []cache.Class) {
	wants := make([]cache.Want, rapid.IntRange(1, 3).Draw(t, "wants"))
	for k := range wants {
		wants[k] = cache.Want{Ways: rapid.IntRange(0, 5).Draw(t, "want"), Bandwidth: 10 * rapid.IntRange(0, 4).Draw(t, "bandwidth")}
		if wants[k].Ways > 0 {
			wants[k].Ways = max(wants[k].Ways, least)
		}
	}
	l := u.Layout(wants)
	var placed []cache.Class
	for k := range wants {
		var cpus cpuset.Builder
		for id := range layoutCaches {
			if rapid.Bool().Draw(t, "uses") && l.CPUs().Has(id) {
				cpus.Add(id)
			}
		}
		c := l.Class(k, cpus.Set())
		if len(c) == 0 {
			continue
		}
		next, err := u.Take(c)
		if err != nil {
			t.Fatalf("class %d of %v has the place %s, and taking it fails: %v", k, wants, c, err)
		}
		u, placed = next, append(placed, c)
	}
	if len(placed) > 0 && l.Short() {
		t.Fatalf("%d classes were placed, and there are too few", len(placed))
	}
	return u, placed
}

// checkHeld reads the rules literally.
func checkHeld(t *rapid.T, u cache.Usage, rules machine.Caches, held []cache.Class) {
	if used, _ := u.Classes(); used != len(held) || used >= rules.Classes {
		t.Fatalf("%d classes, want %d of %d", used, len(held), rules.Classes-1)
	}
	for id := range layoutCaches {
		var owner [32]int // number of classes with the way
		sum := 0
		for _, c := range held {
			s, _ := c.Share(id)
			sum += s.Bandwidth
			for w := range 32 {
				owner[w] += int(uint32(s.Ways)>>w) & 1
			}
		}
		rest := u.Rest()[id]
		for w := range rules.Ways {
			hardware := rules.HardwareWays>>w&1 == 1
			if in := uint32(rest.Ways)>>w&1 == 1; owner[w] > 1 || in && owner[w] > 0 || hardware && !in {
				t.Fatalf("way %d of L3 %d has %d classes, the default class %t, hardware %t", w, id, owner[w], in, hardware)
			}
		}
		if sum+rest.Bandwidth > 100 || rest.Bandwidth < 10 || rest.Ways.Len() < rules.LeastWays || !rest.Ways.Contiguous() {
			t.Fatalf("L3 %d: classes have %d%%, and the default class %s", id, sum, rest)
		}
	}
}

// TestExtend keeps the shares of a class and adds those of the caches to which its CPUs come.
func TestExtend(t *testing.T) {
	u := cache.NewUsage(newMachine(t, 3, machine.Caches{Classes: 8, Ways: 8, LeastWays: 1}))
	own := cache.Class{{Cache: 0, Ways: 0b1100}}
	var err error
	for _, c := range []cache.Class{own, {{Cache: 1, Ways: 0b111}}, {{Cache: 2, Ways: 0b11111}}} {
		if u, err = u.Take(c); err != nil {
			t.Fatal(err)
		}
	}
	l := u.Extend([]cache.Want{{Ways: 2}}, []cache.Class{own})
	if got := l.CPUs().String(); got != "0-3" { // L3 2 has one way left.
		t.Errorf("CPUs %s have room, want 0-3", got)
	}
	if got := l.Class(0, cpuset.Of(0, 2)).String(); got != "L3 0: ways 2-3; L3 1: ways 3-4" {
		t.Errorf("the class is %s", got)
	}
}

// BenchmarkLayout places four classes in the 32 caches of a large machine.
func BenchmarkLayout(b *testing.B) {
	u := cache.NewUsage(newMachine(b, 32, machine.Caches{Classes: 16, Ways: 16, LeastWays: 1}))
	wants := []cache.Want{{Ways: 4}, {Ways: 2}, {}, {Ways: 1, Bandwidth: 0}}
	for b.Loop() {
		u.Layout(wants)
	}
}

// TestWiden checks that shares that are added to a class take no class, cannot be those of another
// class, and are taken away again.
func TestWiden(t *testing.T) {
	u := cache.NewUsage(newMachine(t, 2, machine.Caches{Classes: 2, Ways: 12, LeastWays: 2, LeastBandwidth: 10, BandwidthStep: 10}))
	old, place := cache.Class{{Cache: 0, Ways: 0x3, Bandwidth: 20}}, cache.Class{{Cache: 0, Ways: 0x6, Bandwidth: 30}, {Cache: 1, Ways: 0x3}}
	u, err := u.Take(old)
	if err != nil {
		t.Fatal(err)
	}
	more := old.With(place).Beyond(old)
	if want := (cache.Class{{Cache: 0, Ways: 0x4, Bandwidth: 10}, {Cache: 1, Ways: 0x3}}); !more.Equal(want) {
		t.Errorf("a move takes %s, want %s", more, want)
	}
	wide, free := u.TakeFree(more, true)
	both, taking := u.Return(old).Take(old.With(place))
	if !free.Equal(more) || taking != nil || !wide.Equal(both) {
		t.Errorf("widened by %s: %v, equal %t", free, taking, wide.Equal(both))
	}
	if !wide.Narrow(more).Equal(u) {
		t.Error("narrowed, it is another usage")
	}
	if _, free := u.TakeFree(place, true); len(free) != 1 || free[0].Cache != 1 {
		t.Errorf("free are %s: the ways of L3 0 are those of another class", free)
	}
	if _, free := u.TakeFree(more, false); len(free) != 0 {
		t.Errorf("free are %s, and all classes are in use", free)
	}
}
