package fleetpage

import (
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// total adds up the nodes of a kind.
type total struct {
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Assigned counts exclusive CPUs and CPUs in pools. Shared counts the CPUs that only the node
	// shared pool can use, and Free those that could become exclusive. Stranded is the part of Free
	// that typical requests leave over, in hundredths of a CPU.
	Assigned int `json:"assigned"`
	Shared   int `json:"shared"`
	Free     int `json:"free"`
	Stranded int `json:"stranded"`
	// Memory, in bytes, and Others are requested and allocatable amounts, as schedulers count them.
	// Others are devices and huge pages.
	Memory [2]int64      `json:"memory"`
	Others []otherAmount `json:"others"`
	// Largest is the number of CPUs of the largest pod with one container that fits, and On is a
	// node on which it fits. The amounts of the node count as well.
	Largest int    `json:"largest"`
	On      string `json:"on"`

	largest *fleet.View // nil: none
}

type otherAmount struct {
	Resource    string `json:"resource"`
	Requested   int64  `json:"requested"`
	Allocatable int64  `json:"allocatable"`
}

// sum returns the totals of the kinds. was has the positions of the views in the earlier snapshot,
// or -1.
func (s *snapshot) sum(before *snapshot, was []int) []total {
	totals := make([]total, len(s.Answer.Kinds))
	for k := range totals {
		totals[k].Others = []otherAmount{}
	}
	known := s.largestBefore(before, was, totals)
	for i, v := range s.Views {
		t, k := &s.tiles[i], s.tiles[i].Kind
		if k >= len(totals) {
			continue // A fleet that is being read has no kinds.
		}
		sum := &totals[k]
		sum.Nodes++
		sum.Pods += t.Pods
		for _, n := range t.NUMA {
			sum.Shared += n[1]
			sum.Assigned += n[2] + n[3]
			sum.Free += n[4]
			sum.Stranded += n[5]
		}
		sum.Memory[0] += v.Used.Memory
		sum.Memory[1] += v.Allocatable.Memory
		sum.addOthers(v)
		if was[i] < 0 || !known[k] {
			sum.enlarge(v)
		}
	}
	for k := range totals {
		if sum := &totals[k]; sum.largest != nil {
			sum.On = sum.largest.Name
		}
	}
	return totals
}

// largestBefore sets the largest pods that are already known because their nodes have not changed.
// It returns the kinds to which these pods belong. For such a kind, only a changed node can take a
// larger pod.
func (s *snapshot) largestBefore(before *snapshot, was []int, totals []total) []bool {
	known := make([]bool, len(totals))
	if before == nil {
		return known
	}
	for i, v := range s.Views {
		k := s.tiles[i].Kind
		if was[i] < 0 || k >= len(totals) || before.tiles[was[i]].Kind != k || k >= len(before.totals) || before.totals[k].largest != v {
			continue
		}
		totals[k].largest, totals[k].Largest, known[k] = v, before.totals[k].Largest, true
	}
	return known
}

// addOthers adds the devices and huge pages of a node, which lists few resources.
func (t *total) addOthers(v *fleet.View) {
	for _, o := range v.Allocatable.Others {
		i := slices.IndexFunc(t.Others, func(a otherAmount) bool { return a.Resource == o.Resource })
		switch {
		case o.Value == 0:
			continue
		case i < 0:
			i = len(t.Others)
			t.Others = append(t.Others, otherAmount{Resource: o.Resource})
		}
		t.Others[i].Allocatable += o.Value
		t.Others[i].Requested += v.Used.Of(o.Resource)
	}
}

// enlarge takes a node into account. It skips most nodes, or plans once.
func (t *total) enlarge(v *fleet.View) {
	left := int((v.Allocatable.Milli - v.Used.Milli) / 1000)
	if left <= t.Largest {
		return
	}
	cpus := left // of a pod that shares CPUs
	if v.State.Policy().StaticCPU {
		cpus = min(left, v.State.LargestPod(t.Largest))
	}
	if cpus > t.Largest {
		t.Largest, t.largest = cpus, v
	}
}
