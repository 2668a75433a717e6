package slide_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/slide"
	"github.com/paddock-project/paddock/internal/ui/view"
)

const gib = int64(1) << 30

func kindOf(t *testing.T, name string, count int) capacity.Kind {
	t.Helper()
	m := scenario.Machine("sockets=2 cores=8 memory=32Gi")
	s, err := node.New(m, node.Policy{
		Topology: node.TopologySingleNUMANode, Scope: node.PodScope, StaticCPU: true, ReservedCPUs: m.Cores()[0].CPUs,
		StaticMemory: true, ReservedMemory: map[int]map[string]int64{0: {request.Memory: gib}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return capacity.Kind{Name: name, Count: count, State: s, Allocatable: fleet.Amounts{Milli: 15_000, Memory: 63 * gib, Pods: 110}}
}

func items(sizes []int, bytes int64, count int64) (all []capacity.Item) {
	for i, cpus := range sizes {
		name, milli := fmt.Sprintf("p%d", i), int64(cpus)*1000
		all = append(all, capacity.Item{Name: name, Count: count, Pod: fleet.Pod{
			Pod: request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{
				Name: "c", Type: request.App, CPUs: cpus, Equivalent: true, CPURequest: milli, CPULimit: milli, Memory: request.Amounts{{Resource: request.Memory, Value: bytes}},
			}}}},
			Asks: fleet.Amounts{Milli: milli, Memory: bytes, Pods: 1},
		}})
	}
	return all
}

func pictureOf(t *testing.T, kinds []capacity.Kind, pods []capacity.Item) *slide.Picture {
	t.Helper()
	r, err := capacity.Fit(t.Context(), kinds, pods, capacity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	answer := view.FleetOf("fit", "least-stranded", r, map[string]string{})
	return slide.Fleet("Fleet <test>", &answer, r.Fleet.Views())
}

func svgOf(t *testing.T, p *slide.Picture) string {
	t.Helper()
	var svg, raster bytes.Buffer
	if err := errors.Join(p.SVG(&svg), p.PNG(&raster)); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&raster); err != nil || img.Bounds().Dx() != slide.Width || img.Bounds().Dy() != slide.Height {
		t.Fatalf("%v", err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return svg.String()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFleet checks that equal nodes are one tile, and that memory is shown where more of it is
// assigned than of the CPUs.
func TestFleet(t *testing.T) {
	svg := svgOf(t, pictureOf(t, []capacity.Kind{kindOf(t, "small", 200)}, items([]int{2}, 24*gib, 3)))
	for _, part := range []string{">Fleet &lt;test&gt;<", ">small × 200<", "× 19", "memory, where it is the limit", "a tile that many equal nodes"} {
		if !strings.Contains(svg, part) {
			t.Errorf("it has no %q", part)
		}
	}
	if svg = svgOf(t, pictureOf(t, []capacity.Kind{kindOf(t, "small", 3)}, items([]int{6}, gib, 3))); strings.Contains(svg, "memory, where") {
		t.Error("memory is not the limit")
	}
}

// TestFleetWithManyKinds checks that a kind is one tile if there are many.
func TestFleetWithManyKinds(t *testing.T) {
	var kinds []capacity.Kind
	for i := range 40 {
		kinds = append(kinds, kindOf(t, fmt.Sprintf("kind%d", i), 2))
	}
	svg := svgOf(t, pictureOf(t, kinds, items([]int{1, 3, 5}, gib, 4)))
	if !strings.Contains(svg, "40 kinds × 80") || !strings.Contains(svg, ">kind39 × 2<") || strings.Contains(svg, "not shown") {
		t.Errorf("%d shapes: %s", strings.Count(svg, "<rect"), svg[len(svg)-400:])
	}
}

// TestTrials checks that the best setting comes first, and that equal ones are one bar.
func TestTrials(t *testing.T) {
	trial := func(policy string, placed, aligned float64) view.Trial {
		return view.Trial{Nodes: "n", Policy: policy, Scope: "pod", Scoring: "least-stranded", Pods: &view.FleetPods{Placed: 1}, CPUs: &view.FleetAllCPUs{FleetCPUs: view.FleetCPUs{Placed: placed, Aligned: aligned, Allocatable: 100}, Asked: placed}}
	}
	trials := []view.Trial{trial("best-effort", 90, 30), trial("restricted", 80, 80), trial("single-numa-node", 80, 80)}
	view.MarkBest(trials)
	svg := svgOf(t, slide.Trials("Settings", trials))
	best, other := strings.Index(svg, ">restricted or single-numa-node, scope pod<"), strings.Index(svg, ">best-effort, scope pod<")
	if best < 0 || other < best || !strings.Contains(svg, "aligns the most CPUs, 80") {
		t.Errorf("%d, %d: %s", best, other, svg)
	}
	always := trial("odd", 95, 95) // It aligns more, because it rejects some pods always.
	always.Pods.Never = 7
	trials = []view.Trial{always, trial("restricted", 80, 80)}
	view.MarkBest(trials)
	svg = svgOf(t, slide.Trials("Settings", trials))
	if best, other := strings.Index(svg, ">restricted, scope pod<"), strings.Index(svg, ">odd, scope pod<"); best < 0 || other < best {
		t.Errorf("%d, %d: %s", best, other, svg)
	}
	for _, part := range []string{">CPUs that the pods request<", ">60<", ">rejected, on an empty node as well<", "0 pods rejected, 7 never fit"} {
		if !strings.Contains(svg, part) {
			t.Errorf("it has no %q: %s", part, svg)
		}
	}
	trials = []view.Trial{trial("restricted", 80, 0)} // It places pods and aligns none.
	trials[0].Now = true
	view.MarkBest(trials)
	if svg = svgOf(t, slide.Trials("Settings", trials)); !strings.Contains(svg, ">now: restricted, scope pod<") || !strings.Contains(svg, "none is best") {
		t.Error(svg)
	}
	trials[0].Interrupted = "after 1 of 20 settings"
	if svg = svgOf(t, slide.Trials("Settings", trials)); !strings.Contains(svg, ">Interrupted after 1 of 20 settings: ") {
		t.Error(svg)
	}
	if svg = svgOf(t, slide.Trials("Settings", nil)); !strings.Contains(svg, "none is best") {
		t.Error(svg)
	}
}

// TestSizes checks that a bar has the CPUs of the nodes by what they are for, and that a kind that
// takes no pod has a row without a bar.
func TestSizes(t *testing.T) {
	price := 12.5
	answers := []view.Fleet{
		{
			Question: "size", Scoring: "most-allocated", Order: "largest-first", Nodes: 40, LowerBound: 38, LeftOut: 7, Price: &price, Kinds: []view.FleetKind{{Kind: "small"}},
			Pods: view.FleetPods{Asked: 107}, CPUs: view.FleetAllCPUs{FleetCPUs: view.FleetCPUs{Allocatable: 600, Placed: 300, Aligned: 200, Stranded: 100}},
		},
		{Question: "size", Kinds: []view.FleetKind{{Kind: "none"}}, LeftOut: 107},
		{Question: "size", Kinds: []view.FleetKind{{Kind: "few"}}, Nodes: 10, TooFew: true},
		{Question: "mix", Nodes: 3, Kinds: []view.FleetKind{{Kind: "small", Nodes: 1}, {Kind: "wide", Nodes: 2}}},
	}
	svg := svgOf(t, slide.Sizes("Nodes", answers))
	for _, part := range []string{">small: 40 nodes<", ">at least 38 needed, most-allocated<", ">price 12.5<", ">7 pods left out, which never fit<", ">none: no number<", ">few: more than 10 nodes<", ">1 small and 2 wide", ">CPUs that the nodes have for pods<", ">600<", "largest first"} {
		if !strings.Contains(svg, part) {
			t.Errorf("it has no %q: %s", part, svg)
		}
	}
	if strings.Contains(svg, "Interrupted") {
		t.Error(svg)
	}
	interrupted := []view.Fleet{answers[0]}
	interrupted[0].Interrupted = "no answer yet for none"
	if svg := svgOf(t, slide.Sizes("Nodes", interrupted)); !strings.Contains(svg, ">Interrupted: no answer yet for none. ") {
		t.Error(svg)
	}
	if orange := strings.Count(svg, "fill=\"#e8a33d\""); orange != 2 {
		t.Errorf("%d shapes are orange, expected the stranded CPUs of one bar, and the legend", orange)
	}
	if svg = svgOf(t, slide.Sizes("Nodes", nil)); !strings.Contains(svg, "free, stranded") {
		t.Error(svg)
	}
}
