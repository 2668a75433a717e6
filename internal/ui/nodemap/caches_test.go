package nodemap_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/classtest"
	"github.com/paddock-project/paddock/internal/testing/golden"
)

// TestMapOfCaches checks the ways of the caches in every form of the map.
func TestMapOfCaches(t *testing.T) {
	m := mapOf("divided", classtest.State(t))
	var picture strings.Builder
	if err := m.SVG(&picture, true); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/caches.svg", picture.String())
	golden.Compare(t, "testdata/caches.txt", m.Term(terminal.Style{Width: 120})+m.Term(terminal.Style{Width: 60}))
	data, err := json.MarshalIndent(m.Caches, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/caches.json", string(data)+"\n")
	for _, part := range []string{
		"way 3 of L3 0: container main of pod prod/db has it alone", "way 3 of L3 1: the containers that share the pool of pod prod/packets have it alone",
		"way 9 of L3 0: hardware uses it beside the CPUs, and so does the default class", "way 8 of L3 1: free, and used by the default class",
		"3 of 15 classes of the caches in use", "container main of prod/db 20%",
	} {
		if !strings.Contains(picture.String(), part) {
			t.Errorf("the picture has no %q", part)
		}
	}
}

// TestMapOfCachesAddsUp checks that each way is in one cell, with the pod that has it.
func TestMapOfCachesAddsUp(t *testing.T) {
	s := classtest.State(t)
	m := mapOf("divided", s)
	for _, l := range m.Caches.L3 {
		free := 0
		for i, w := range l.Cells {
			if w.Way != i {
				t.Errorf("way %d is cell %d", w.Way, i)
			}
			owner := ""
			for g := range s.AllGrants() {
				for _, class := range g.Classes() {
					if share, has := class.Share(l.ID); has && share.Ways&cache.Run(i, 1) != 0 {
						owner += g.Pod.UID
					}
				}
			}
			if w.UID != owner || w.Default == (owner != "") {
				t.Errorf("way %d of L3 %d is of %q, the map has %+v", i, l.ID, owner, w)
			}
			if w.Use == "shared" {
				free++
			}
		}
		if free != l.FreeWays || len(l.Cells) != 11 {
			t.Errorf("L3 %d: %d of %d cells are free, and %d ways", l.ID, free, len(l.Cells), l.FreeWays)
		}
	}
}

// TestMapWithoutCaches checks that nothing of the caches is on the map of a node that does not
// divide them.
func TestMapWithoutCaches(t *testing.T) {
	d := classtest.Description()
	p := classtest.Policy()
	p.CPU.DividesCaches = false
	var texts []string
	for _, caches := range []machine.Caches{{}, d.Caches} {
		d.Caches = caches
		hardware, err := machine.New(d)
		if err != nil {
			t.Fatal(err)
		}
		s, err := node.New(hardware, p)
		if err != nil {
			t.Fatal(err)
		}
		m := mapOf("one", s)
		var picture strings.Builder
		if err := m.SVG(&picture, true); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, picture.String()+m.Term(terminal.Style{})+string(data))
	}
	if texts[0] != texts[1] || strings.Contains(texts[0], "L3") {
		t.Errorf("the maps differ, or have caches:\n%s\n%s", texts[0], texts[1])
	}
}
