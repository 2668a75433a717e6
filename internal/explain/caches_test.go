package explain_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestCachesAddUp checks, over histories of pods, that every way and every percent of the bandwidth
// is counted once, and that a pod that asks for the largest class is admitted, and one that asks
// for more is not.
func TestCachesAddUp(t *testing.T) {
	setChecks(t, "100")
	m := classtest.Machine(t)
	rapid.Check(t, func(t *rapid.T) {
		s, err := node.New(m, classtest.Policy())
		if err != nil {
			t.Fatal(err)
		}
		pod := func(name string, cpus int, asks request.Cache) request.Pod {
			p := classtest.Pods()[0]
			p.UID, p.Name = name, name
			c := p.Containers[0]
			c.CPUs, c.CPURequest, c.CPULimit, c.Cache = cpus, int64(cpus)*1000, int64(cpus)*1000, asks
			p.Containers = []request.Container{c}
			return p
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			if grants := s.Grants(); len(grants) > 0 && rapid.IntRange(0, 2).Draw(t, "end") == 0 {
				s = s.Release(rapid.SampledFrom(grants).Draw(t, "which").Pod.UID)
				continue
			}
			asks := request.Cache{Ways: rapid.IntRange(0, 4).Draw(t, "ways"), Bandwidth: rapid.IntRange(0, 4).Draw(t, "tens") * 10}
			if s, err = s.Apply(s.Plan(pod(fmt.Sprint("p", i), 2, asks))); err != nil {
				t.Fatal(err)
			}
		}
		c := explain.CachesOf(s)
		most, classes := 0, map[string]bool{}
		for _, l := range c.L3 {
			ways, bandwidth := l.FreeWays, l.FreeBandwidth
			for _, o := range l.Owners {
				ways, bandwidth = ways+o.Set.Len(), bandwidth+o.Bandwidth
				classes[o.UID+"/"+o.Container] = true
			}
			if ways != 9 || l.ClassWays != 9 || l.Ways != 11 || bandwidth != 90 || l.Bandwidth != 90 {
				t.Fatalf("%+v adds up to %d ways and %d%%", l, ways, bandwidth)
			}
			most = max(most, l.LargestClass)
		}
		if len(classes) != c.UsedClasses || c.Classes != 15 {
			t.Fatalf("%d of %d classes, and %d have shares", c.UsedClasses, c.Classes, len(classes))
		}
		if most > 0 && s.Plan(pod("most", 2, request.Cache{Ways: most})).Rejection != nil && s.AvailableCPUs().Len() > 26 {
			t.Fatalf("a class of %d ways is rejected", most)
		}
		if s.Plan(pod("more", 2, request.Cache{Ways: most + 1})).Rejection == nil {
			t.Fatalf("a class of %d ways is admitted", most+1)
		}
	})
}

// TestCachesOfOthers checks that a node without the option has no such report.
func TestCachesOfOthers(t *testing.T) {
	p := classtest.Policy()
	p.CPU.DividesCaches = false
	s, err := node.New(classtest.Machine(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if c := explain.CachesOf(s); c != nil {
		t.Errorf("%+v", c)
	}
}

// TestWithoutClass checks that containers and pools that ask for a part of the caches and have none
// are named, and nothing else.
func TestWithoutClass(t *testing.T) {
	s := classtest.State(t)
	if lines := explain.WithoutClass(s); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
	grants := slices.Clone(s.Grants())
	for i, g := range grants {
		without := *g
		without.PoolCache, without.Containers = nil, slices.Clone(g.Containers)
		for k := range without.Containers {
			without.Containers[k].Cache = nil
		}
		grants[i] = &without
	}
	bare, err := node.Restore(s.Machine(), s.Policy(), grants)
	if err != nil {
		t.Fatal(err)
	}
	const do = " of the caches and is in the default class; delete the pod when that is acceptable, so that it is created again"
	want := []string{
		"prod/db (uid db): container main asks for l3=4ways,mb=20%" + do, "prod/packets (uid packets): container worker asks for l3=25%" + do,
		"prod/packets (uid packets): its pool asks for l3=2ways" + do,
	}
	if lines := explain.WithoutClass(bare); !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	p := s.Policy()
	p.CPU.DividesCaches = false
	if bare, err = node.Restore(s.Machine(), p, grants); err != nil || explain.WithoutClass(bare) != nil {
		t.Errorf("%v: without the option, pods are named", err)
	}
}

// TestCachesOfMovingPod checks that both places of a pod that is being moved are in the report.
func TestCachesOfMovingPod(t *testing.T) {
	s := classtest.State(t)
	g, _ := s.Grant("db")
	to := scenario.Elsewhere(s, g)
	if to.Rejection != nil {
		t.Fatal(to.Rejection)
	}
	before := explain.CachesOf(s)
	s, err := s.BeginMove(to.Grant)
	if err != nil {
		t.Fatal(err)
	}
	now := explain.CachesOf(s)
	for i, l := range now.L3 {
		var found []string
		for _, o := range l.Owners {
			if o.UID == "db" {
				found = append(found, fmt.Sprintf("%s of L3 %d, moving %t", o.Ways, l.ID, o.Moving))
			}
		}
		var want []string
		if i == 0 { // The other CPUs use the same cache.
			want = []string{"0-3 of L3 0, moving false", "4-7 of L3 0, moving true"}
		}
		if !slices.Equal(found, want) {
			t.Errorf("%q, want %q", found, want)
		}
	}
	if now.UsedClasses != before.UsedClasses || now.L3[0].FreeWays != before.L3[0].FreeWays-4 || now.L3[0].FreeBandwidth != before.L3[0].FreeBandwidth {
		t.Errorf("%+v, before %+v", now, before)
	}
}
