package resctrl_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

func parse(t testing.TB, text string) resctrl.Schemata {
	t.Helper()
	s, err := resctrl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestParse covers schemata that public reports print.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		// intel/intel-cmt-cat#108, and with CDP as in the kernel's resctrl.rst.
		"    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n":                                       "L3:0=7ff;1=7ff MB:0=100;1=100",
		"L3DATA:0=fffff;1=fffff;2=3c0;3=fffff\nL3CODE:0=fffff;1=fffff;2=fffff;3=fffff\n": "L3CODE:0=fffff;1=fffff;2=fffff;3=fffff L3DATA:0=fffff;1=fffff;2=3c0;3=fffff",
		// koordinator#1777: ids with a gap. resctrl.rst: AMD's padded limits, and SMBA.
		"    L3:0=ffff;7=ffff;16=ffff\n    MB:0=2048;7=2048;16=2048\n":       "L3:0=ffff;7=ffff;16=ffff MB:0=2048;7=2048;16=2048",
		"  SMBA:0=2048;1=  64\n    MB:0=2048;1=  16\n    L3:0=ffff;1=ffff\n": "L3:0=ffff;1=ffff MB:0=2048;1=16",
		// The software controller, an older kernel, and resources of others.
		"MB:0=4294967295\nL3:0=0007f":       "L3:0=7f MB:0=4294967295",
		"L2:0=ff;1=ff\n L3:0=f;\nX:hello\n": "L3:0=f",
		"":                                  "",
	} {
		if got := parse(t, text); got.String() != want || !parse(t, got.String()).Equal(got) || !parse(t, strings.Join(got.Lines(), "\n")+"\n").Equal(got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"L3", "L3:", "L3:0", "L3:0=", "L3:x=f", "L3:0=g", "L3:-1=f", "L3:0=f;0=f", "L3:0=f L3:0=1", "L3:0=1ffffffff", "MB:0=-1", "L3:uninitialized", "L3:0=f;;1=f"} {
		if got, err := resctrl.Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n")
	f.Add("SMBA:0=2048;1=  64\n MB:0=2048;1=  16")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := resctrl.Parse(text)
		if err != nil {
			if s != nil {
				t.Errorf("%q: both %v and %v", text, s, err)
			}
			return
		}
		if again, err := resctrl.Parse(s.String()); err != nil || !again.Equal(s) {
			t.Errorf("%q: %v, and %v when it is written: %v", text, s, again, err)
		}
	})
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		resctrl.PoolName("0b9c4b1e-7b1c-4c7d-9d52-7a3f1e8f2c11"): true, resctrl.ContainerName("a1b2", "main-2"): true,
		"paddock-": false, "paddock-a.": false, "paddock-a.b.c": false, "paddock-a/b": false, "guaranteed": false, "info": false, "mon_data": false,
		"paddock-a b": false, "Paddock-a": false, "paddock-" + strings.Repeat("a", 250): false, "": false,
	} {
		if got := resctrl.IsOurs(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestMonitoring(t *testing.T) {
	for name, want := range map[string]bool{"mon_L3_00": true, "mon_L3_31": true, "mon_sub_L3_01": false, "mon_L3_": false, "mon_PERF_PKG_00": false} {
		if got := resctrl.IsMonitored(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for text, want := range map[string]string{"16234000\n": "16234000 true", "Unavailable\n": "0 false", "Error": "0 false", "Unassigned": "0 false", "": "0 false"} {
		n, known := resctrl.ParseEvent(text)
		if got := fmt.Sprint(n, " ", known); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

var xeon = machine.Caches{Classes: 8, Ways: 11, LeastWays: 1, HardwareWays: 0x600, LeastBandwidth: 10, BandwidthStep: 10}

func share(id int, ways cache.Ways, percent int) cache.Share {
	return cache.Share{Cache: id, Ways: ways, Bandwidth: percent}
}

func TestWant(t *testing.T) {
	own := cache.Class{{Cache: 0, Ways: 0xf, Bandwidth: 20}}
	amd := machine.Caches{Classes: 16, Ways: 16, LeastWays: 1, AbsoluteBandwidth: true}
	for name, c := range map[string]struct {
		base        string
		rules       machine.Caches
		rest        []cache.Share
		class       cache.Class
		root, group string
	}{
		"a cache without a class stays": {"L3:0=7ff;1=7ff MB:0=100;1=100", xeon, []cache.Share{share(0, 0x7f0, 80), share(1, 0x7ff, 100)}, own, "L3:0=7f0;1=7ff MB:0=80;1=100", "L3:0=f;1=7ff MB:0=20;1=100"},
		"code and data":                 {"L3CODE:0=7ff L3DATA:0=7ff", xeon, []cache.Share{share(0, 0x7f0, 80)}, own, "L3CODE:0=7f0 L3DATA:0=7f0", "L3CODE:0=f L3DATA:0=f"},
		"absolute limits stay":          {"L3:0=ffff MB:0=1000", amd, []cache.Share{share(0, 0xfff0, 0)}, own, "L3:0=fff0 MB:0=1000", "L3:0=f MB:0=1000"},
		"only bandwidth":                {"L3:0=7ff MB:0=100", xeon, []cache.Share{share(0, 0x7ff, 80)}, cache.Class{{Cache: 0, Bandwidth: 20}}, "L3:0=7ff MB:0=80", "L3:0=7ff MB:0=20"},
		"only ways":                     {"L3:0=7ff MB:0=100", xeon, []cache.Share{share(0, 0x7f0, 100)}, cache.Class{{Cache: 0, Ways: 0xf}}, "L3:0=7f0 MB:0=100", "L3:0=f MB:0=100"},
		"a smaller default stays":       {"L3:0=7c0 MB:0=60", xeon, []cache.Share{share(0, 0x7f0, 80)}, own, "L3:0=7c0 MB:0=60", "L3:0=f MB:0=20"},
		"but not without any way":       {"L3:0=f MB:0=60", xeon, []cache.Share{share(0, 0x7f0, 80)}, own, "L3:0=7f0 MB:0=60", "L3:0=f MB:0=20"},
		"mounted again with mba_MBps":   {"L3:0=7ff MB:0=4294967295", xeon, []cache.Share{share(0, 0x7f0, 80)}, own, "L3:0=7f0 MB:0=4294967295", "L3:0=f MB:0=4294967295"},
		"a cache that the agent lacks":  {"L3:0=7ff;1=7ff MB:0=100;1=100", xeon, []cache.Share{share(1, 0x7ff, 100)}, own, "L3:0=7ff;1=7ff MB:0=100;1=100", "L3:0=7ff;1=7ff MB:0=100;1=100"},
		"a cache that is offline":       {"L3:1=7ff", xeon, []cache.Share{share(0, 0x7f0, 80), share(1, 0x7ff, 100)}, own, "L3:1=7ff", "L3:1=7ff"},
	} {
		d := resctrl.Division{Rules: c.rules, Rest: c.rest, Groups: map[string]cache.Class{"paddock-a": c.class}}
		root, groups := d.Want(parse(t, c.base))
		if root.String() != c.root || groups["paddock-a"].String() != c.group {
			t.Errorf("%s: %s, %s, want %s, %s", name, root, groups["paddock-a"], c.root, c.group)
		}
	}
}

func TestOwn(t *testing.T) {
	class := cache.Class{{Cache: 0, Ways: 0xf, Bandwidth: 20}, {Cache: 3, Ways: 0xf0}}
	cdp := xeon
	cdp.CodeAndData = true
	for want, rules := range map[string]machine.Caches{
		"L3:0=f;3=f0 MB:0=20": xeon, "L3CODE:0=f;3=f0 L3DATA:0=f;3=f0 MB:0=20": cdp, "L3:0=f;3=f0": {Ways: 16, AbsoluteBandwidth: true}, "": {},
	} {
		if got := resctrl.Own(class, rules).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSteps plays the order of the package comment.
func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		now, wanted map[string]string
		want        string
	}{
		"nothing": {map[string]string{"": "L3:0=7ff"}, map[string]string{"": "L3:0=7ff"}, ""},
		"the default group shrinks before a group grows": {
			map[string]string{"": "L3:0=7ff"},
			map[string]string{"": "L3:0=7f0", "a": "L3:0=f"},
			"/: L3:0=7f0; a: L3:0=f",
		},
		"and grows after groups have left": {
			map[string]string{"": "L3:0=7f0", "a": "L3:0=f"},
			map[string]string{"": "L3:0=7ff"},
			"a removed; /: L3:0=7ff",
		},
		"one group takes what another had": {
			map[string]string{"": "L3:0=7f0", "a": "L3:0=f"},
			map[string]string{"": "L3:0=7f0", "a": "L3:0=3", "b": "L3:0=c"},
			"a: L3:0=3; b: L3:0=c",
		},
		"two groups exchange their ways": {
			map[string]string{"": "L3:0=700", "a": "L3:0=f", "b": "L3:0=f0"},
			map[string]string{"": "L3:0=700", "a": "L3:0=f0", "b": "L3:0=f"},
			"a: L3:0=700; b: L3:0=700; a: L3:0=f0; b: L3:0=f",
		},
		"limits of the bandwidth follow": {
			map[string]string{"": "MB:0=80", "a": "MB:0=20"},
			map[string]string{"": "MB:0=60", "a": "MB:0=40"},
			"/: MB:0=60; a: MB:0=40",
		},
		"without resctrl": {nil, map[string]string{"": "L3:0=7ff"}, ""},
	} {
		groups := func(texts map[string]string) resctrl.Groups {
			g := resctrl.Groups{}
			for name, text := range texts {
				g[name] = parse(t, text)
			}
			return g
		}
		var got []string
		for _, s := range resctrl.Steps(xeon, groups(c.now), groups(c.wanted)) {
			text := "/"
			if s.Group != "" {
				text = s.Group
			}
			if s.Schemata == nil {
				text += " removed"
			} else {
				text += ": " + s.Schemata.String()
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// aNode draws a machine with some L3 caches that can be divided.
func aNode(t *rapid.T) *machine.Machine {
	c := machine.Caches{Classes: rapid.IntRange(2, 9).Draw(t, "classes"), Ways: rapid.IntRange(4, 20).Draw(t, "ways"), LeastWays: rapid.IntRange(1, 2).Draw(t, "least")}
	c.Sparse, c.CodeAndData = rapid.Bool().Draw(t, "sparse"), rapid.Bool().Draw(t, "cdp")
	if rapid.Bool().Draw(t, "hardware") {
		c.HardwareWays = 3 << (c.Ways - 2)
	}
	if rapid.Bool().Draw(t, "bandwidth") {
		c.LeastBandwidth, c.BandwidthStep = 10, 10
	}
	d := machine.Description{Caches: c, Nodes: []machine.NodeDescription{{}}}
	for i := range 3 {
		d.Nodes[0].Cores = append(d.Nodes[0].Cores, machine.CoreDescription{Threads: []int{i}, Uncore: 4 * i})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// aDivision draws classes, of which some have the names of those of another division.
func aDivision(t *rapid.T, m *machine.Machine) *resctrl.Division {
	d := &resctrl.Division{Rules: m.Caches(), Groups: map[string]cache.Class{}}
	u := cache.NewUsage(m)
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 0, 6, rapid.ID).Draw(t, "names") {
		want := cache.Want{Ways: rapid.IntRange(0, 6).Draw(t, "ways")}
		if d.Rules.DividesBandwidth() {
			want.Bandwidth = 10 * rapid.IntRange(0, 4).Draw(t, "bandwidth")
		}
		if want.Ways > 0 {
			want.Ways = max(want.Ways, d.Rules.LeastWays)
		}
		var b cpuset.Builder
		for cpu := range 3 {
			if rapid.Bool().Draw(t, "cpu") {
				b.Add(cpu)
			}
		}
		cpus := b.Set()
		l := u.Layout([]cache.Want{want})
		if want.IsZero() || cpus.IsEmpty() || l.Short() || !l.CPUs().Contains(cpus) {
			continue
		}
		class := l.Class(0, cpus)
		next, err := u.Take(class)
		if err != nil {
			t.Fatal(err)
		}
		u, d.Groups["paddock-"+name] = next, class
	}
	d.Rest = u.Rest()
	return d
}

// TestStepsShareNothing goes from any division to any other, and checks that no step gives a group
// a way that another one has, if one of them has it for itself.
func TestStepsShareNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := aNode(t)
		from, to := aDivision(t, m), aDivision(t, m)
		base := full(m)
		now := groups(from, base)
		wanted := groups(to, base)
		for _, step := range resctrl.Steps(m.Caches(), now, wanted) {
			before := now[step.Group]
			if step.Schemata == nil {
				delete(now, step.Group)
			} else {
				now[step.Group] = step.Schemata
			}
			if step.Last != step.Schemata.Equal(wanted[step.Group]) {
				t.Fatalf("step %+v is the last: %v", step, step.Last)
			}
			for i, e := range step.Schemata {
				added := cache.Ways(e.Value)
				if i < len(before) {
					added &^= cache.Ways(before[i].Value)
				}
				for other, o := range now {
					common := added & cache.Ways(o[i].Value)
					if e.Resource != "MB" && other != step.Group && common != 0 && (owned(step.Group, e, now, from, to) || owned(other, o[i], now, from, to)) {
						t.Fatalf("step %+v: %q also has ways %s of L3 %d, from %v to %v", step, other, common, e.Cache, from.Groups, to.Groups)
					}
				}
			}
		}
		if !maps.EqualFunc(now, wanted, resctrl.Schemata.Equal) {
			t.Fatalf("got %v, want %v", now, wanted)
		}
		if again := resctrl.Steps(m.Caches(), now, wanted); len(again) > 0 {
			t.Fatalf("steps %+v although nothing changed", again)
		}
	})
}

// owned reports whether a group has ways for itself: those of its class, and not those of the
// default group.
func owned(name string, e resctrl.Entry, now resctrl.Groups, from, to *resctrl.Division) bool {
	for _, d := range []*resctrl.Division{from, to} {
		if share, _ := d.Groups[name].Share(e.Cache); share.Ways != 0 && cache.Ways(e.Value)&^share.Ways == 0 {
			return !slices.Contains(now[""], e)
		}
	}
	return false
}

func groups(d *resctrl.Division, base resctrl.Schemata) resctrl.Groups {
	root, all := d.Want(base)
	g := resctrl.Groups(all)
	g[""] = root
	return g
}

func full(m *machine.Machine) resctrl.Schemata {
	var s resctrl.Schemata
	for _, resource := range map[bool][]string{false: {"L3"}, true: {"L3CODE", "L3DATA"}}[m.Caches().CodeAndData] {
		for _, u := range m.Uncores() {
			s = append(s, resctrl.Entry{Resource: resource, Cache: u.ID, Value: 1<<m.Caches().Ways - 1})
		}
	}
	for _, u := range m.Uncores() {
		s = append(s, resctrl.Entry{Resource: "MB", Cache: u.ID, Value: 100})
	}
	return s
}

func TestCommon(t *testing.T) {
	a := parse(t, "L3CODE:0=f;1=f L3DATA:0=f;1=f MB:0=100")
	for other, want := range map[string]string{
		"L3CODE:0=f0;1=f0 L3DATA:0=f0;1=f0 MB:0=100": "", "L3CODE:0=18 L3DATA:0=10": "ways 3 of L3 0", "L3DATA:0=3;1=1": "ways 0-1 of L3 0, ways 0 of L3 1", "": "",
	} {
		if got := a.Common(parse(t, other)); got != want {
			t.Errorf("%q: %q, want %q", other, got, want)
		}
	}
}
