package statefile_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/golden"
)

// TestClassesForm checks the bytes of classes, and that they survive.
func TestClassesForm(t *testing.T) {
	s := classtest.State(t)
	data := encoded(t, s)
	golden.Compare(t, "testdata/v1-classes.json", string(data))
	f, err := statefile.Decode("f", data)
	if err != nil {
		t.Fatal(err)
	}
	back, err := node.Restore(s.Machine(), f.Policy, f.Grants)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range s.Grants() {
		if now, _ := back.Grant(g.Pod.UID); !equalGrants(g, now) {
			t.Errorf("read %s as %+v", g.Pod.ID(), now)
		}
	}
	if changes := f.Changes(s.Machine(), s.Policy()); changes != nil {
		t.Errorf("changed: %q", changes)
	}
}

// TestNoClasses checks that a node without the option writes what it wrote before there were
// classes, whatever its machine can divide.
func TestNoClasses(t *testing.T) {
	p := podScope()
	d := classtest.Description()
	d.Caches = machine.Caches{}
	before, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	var files [][]byte
	for _, m := range []*machine.Machine{before, classtest.Machine(t)} {
		s := withDevices(t, m, p)
		if s, err = s.Apply(s.Plan(estimated("u", 2, 1))); err != nil {
			t.Fatal(err)
		}
		files = append(files, encoded(t, s))
	}
	if !bytes.Equal(files[0], files[1]) || bytes.Contains(files[0], []byte("ache")) {
		t.Errorf("without the option, a machine whose caches can be divided writes\n%s, another\n%s", files[1], files[0])
	}
}

// TestClassesThatAreNone decodes files with a correct checksum and classes that Paddock would not
// have written.
func TestClassesThatAreNone(t *testing.T) {
	good := encoded(t, classtest.State(t))
	const class = `"cache":[{"l3":0,"ways":"0-3","bandwidth":20}]`
	if !bytes.Contains(good, []byte(class)) {
		t.Fatalf("there is no %s in\n%s", class, good)
	}
	for _, c := range []struct {
		class string
		kind  error
		says  string
	}{
		{`"cache":[{"l3":0,"ways":"0-1,3","bandwidth":20}]`, statefile.ErrDamaged, "cache"},
		{`"cache":[{"l3":0,"ways":"0-32"}]`, statefile.ErrDamaged, "way 32 of a cache is outside 0..31"},
		{`"cache":[{"l3":0,"ways":"4000000000"}]`, statefile.ErrDamaged, "4000000000"},
		{`"cache":[{"l3":0,"ways":"-1"}]`, statefile.ErrDamaged, "-1"},
		{`"cache":[{"l3":0,"ways":15}]`, statefile.ErrDamaged, "expected a string"},
		{`"cache":[{"l3":-1,"ways":"0-3"}]`, statefile.ErrDamaged, "l3"},
		{`"cache":[{"l3":0,"ways":"0-3","bandwidth":-20}]`, statefile.ErrDamaged, "bandwidth"},
		{`"cache":[{"l3":0,"ways":"0-3","bandwidth":101}]`, statefile.ErrDamaged, "cache"},
		{`"cache":[{"l3":0}]`, statefile.ErrDamaged, "cache"},
		{`"cache":[]`, statefile.ErrDamaged, "where"},
		{`"cache":[{"l3":1,"ways":"0"},{"l3":0,"ways":"0"}]`, statefile.ErrDamaged, "cache"},
		{`"cache":[{"l3":0,"ways":"0"},{"l3":0,"ways":"1"}]`, statefile.ErrDamaged, "cache"},
		{`"cache":[{"l3":0,"ways":"0,1,2,3"}]`, statefile.ErrDamaged, "where"},
		{`"cache":[{"l3":0,"l2":1,"ways":"0-3"}]`, statefile.ErrNewer, `a member "l2"`},
		{`"cache":null`, statefile.ErrDamaged, "where"},
	} {
		data := sealed(bytes.Replace(good, []byte(class), []byte(c.class), 1))
		check(t, c.class, data, c.kind)
		if _, err := statefile.Decode("f", data); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q does not say %q", c.class, err, c.says)
		}
	}
}

// TestOlderProgram checks that a program that knows no classes does not read a file with them: its
// next write would lose them. Such a program rejects members that it does not know, and this one
// writes all of them as members and options of their own.
func TestOlderProgram(t *testing.T) {
	data := string(encoded(t, classtest.State(t)))
	for _, new := range []string{`"cpuManagerPolicyOptions":["cache-allocation",`, `"caches":{`, `"poolCacheAsked":{`, `"poolCache":[`, `"cache":{`, `"cache":[`} {
		if !strings.Contains(data, new) {
			t.Errorf("there is no %s in\n%s", new, data)
		}
		later := strings.Replace(strings.Replace(new, `cache"`, `cache-of-2030"`, 1), "allocation", "allocation-of-2030", 1)
		later = strings.NewReplacer(`caches"`, `caches-of-2030"`, `poolCacheAsked"`, `poolCacheAsked-of-2030"`, `poolCache"`, `poolCache-of-2030"`).Replace(later)
		check(t, later, sealed([]byte(strings.Replace(data, new, later, 1))), statefile.ErrNewer)
	}
}

func TestChangesOfCaches(t *testing.T) {
	d := classtest.Description()
	d.Caches.Ways, d.Caches.HardwareWays, d.Caches.Classes, d.Caches.Sparse, d.Caches.CodeAndData = 20, 0, 8, true, true
	d.Caches.LeastBandwidth, d.Caches.AbsoluteBandwidth = 0, true
	other, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	f, err := statefile.Decode("f", encoded(t, classtest.State(t)))
	if err != nil {
		t.Fatal(err)
	}
	const was = "16 classes, 11 ways from 1 on, hardware uses 9-10, memory bandwidth from 10% on in steps of 10%"
	want := "division of the L3 caches: was " + was + ", now 8 classes, 20 ways from 1 on, hardware uses none, ways with gaps, code and data apart, memory bandwidth in GB/s"
	if got := f.Changes(other, f.Policy); len(got) != 1 || got[0] != want {
		t.Errorf("%q, expected %q", got, want)
	}
	d.Caches = machine.Caches{}
	if other, err = machine.New(d); err != nil {
		t.Fatal(err)
	}
	if got := f.Changes(other, f.Policy); len(got) != 1 || got[0] != "division of the L3 caches: was "+was+", now none" {
		t.Errorf("%q", got)
	}
	off := f.Policy
	off.CPU.DividesCaches = false
	if got := f.Changes(other, off); len(got) != 1 || got[0] != "cpuManagerPolicyOptions: was cache-allocation, full-pcpus-only, now full-pcpus-only" {
		t.Errorf("%q", got)
	}
}

// someClass draws a class that a file can have.
func someClass(t *rapid.T) (class cache.Class) {
	for id := range 3 {
		if rapid.Bool().Draw(t, "has") {
			first := rapid.IntRange(0, 12).Draw(t, "first")
			class = append(class, cache.Share{Cache: id, Ways: cache.Run(first, rapid.IntRange(1, 4).Draw(t, "ways")), Bandwidth: rapid.IntRange(0, 100).Draw(t, "bandwidth")})
		}
	}
	return class
}

// TestLiesAboutClasses is TestLies for classes.
func TestLiesAboutClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := classtest.State(t)
		grants := make([]*node.Grant, 0, s.NumGrants())
		for g := range s.AllGrants() {
			changed := *g
			changed.Containers = append([]node.ContainerGrant(nil), g.Containers...)
			for i := range changed.Containers {
				if rapid.IntRange(0, 2).Draw(t, "container") == 0 {
					changed.Containers[i].Cache = someClass(t)
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "pool") == 0 {
				changed.PoolCache = someClass(t)
			}
			grants = append(grants, &changed)
		}
		data, err := statefile.EncodeFile(&statefile.File{Generation: s.Generation(), Machine: statefile.Describe(s.Machine(), s.Policy()), Policy: s.Policy(), Grants: grants})
		if err != nil {
			t.Fatal(err)
		}
		f, err := statefile.Decode("f", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		for i, g := range f.Grants {
			if !equalGrants(g, grants[i]) {
				t.Fatalf("read %+v of\n%s", g, data)
			}
		}
		if restored, err := node.Restore(s.Machine(), s.Policy(), f.Grants); err == nil {
			if wrong := sharedWays(restored); wrong != "" {
				t.Fatalf("restored, and %s\n%s", wrong, data)
			}
		}
		adopted, findings, err := node.Adopt(s.Machine(), s.Policy(), s.Devices().Inventory(), f.Grants)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := sharedWays(adopted); wrong != "" {
			t.Fatalf("adopted, and %s\n%v\n%s", wrong, findings, data)
		}
		for _, g := range f.Grants {
			now, kept := adopted.Grant(g.Pod.UID)
			named := false
			for _, x := range findings {
				named = named || x.UID == g.Pod.UID
			}
			if !named && (!kept || !equalGrants(g, now)) {
				t.Fatalf("pod %s is not as in the file, and not named\n%s", g.Pod.UID, data)
			}
		}
	})
}

// sharedWays names a way that two classes have, or a cache of which they have too much bandwidth.
func sharedWays(s *node.State) string {
	owner, bandwidth := map[[2]int]string{}, map[int]int{}
	for g := range s.AllGrants() {
		for _, class := range g.Classes() {
			for _, share := range class {
				if share.Cache >= len(s.Machine().Uncores()) {
					continue
				}
				bandwidth[share.Cache] += share.Bandwidth
				for way := range machine.MaxWays {
					if share.Ways&cache.Run(way, 1) == 0 {
						continue
					}
					at := [2]int{share.Cache, way}
					if other := owner[at]; other != "" || way > 8 {
						return "a way is shared by " + g.Pod.UID + " and " + other
					}
					owner[at] = g.Pod.UID
				}
				if bandwidth[share.Cache] > 90 {
					return "classes have more bandwidth than there is"
				}
			}
		}
	}
	return ""
}

// TestCacheUnclear checks that a node without the option can write what a pod with an annotation
// that cannot be read, or with any number in it, asks for.
func TestCacheUnclear(t *testing.T) {
	pod := request.Pod{Identity: request.Identity{UID: "u"}, Ask: request.Ask{
		QoS: request.Burstable, CacheUnclear: "l3=many: expected a number", PoolCache: request.Cache{Ways: 1 << 40},
		Containers: []request.Container{{Name: "c", Type: request.App, Sharing: request.QoSNotGuaranteed, Cache: request.Cache{Percent: 1000}}},
	}}
	p := podScope()
	p.ReservedCPUs = cpuset.Of(0, 16)
	s := withDevices(t, classtest.Machine(t), p)
	s, err := s.Apply(s.Plan(pod))
	if err != nil {
		t.Fatal(err)
	}
	f, err := statefile.Decode("f", encoded(t, s))
	if err != nil || !f.Grants[0].Pod.Equal(pod) || f.Grants[0].Pod.CacheUnclear != pod.CacheUnclear {
		t.Errorf("%v, read %+v", err, f)
	}
}
