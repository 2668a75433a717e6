package request

import (
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/core/mask"
)

func TestGivenIsInOrder(t *testing.T) {
	gpu := func(name, claim string) Given {
		return Given{Driver: "gpu.example.com", Pool: "a", Name: name, Claim: claim, Nodes: 1}
	}
	nic := Given{Resource: "example.com/nic", Name: "nic0", Nodes: mask.Of(0, 1)}
	got := []Given{nic, gpu("1", "y"), gpu("0", "x"), gpu("1", "x")}
	slices.SortFunc(got, func(a, b Given) int { return a.Compare(&b) })
	want := []Given{gpu("0", "x"), gpu("1", "x"), gpu("1", "y"), nic}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got[1].CompareDevice(&got[2]) != 0 || got[0].CompareDevice(&got[1]) == 0 {
		t.Error("a device that two claims share is one device, and two devices are two")
	}
	for g, want := range map[Given]string{nic: "example.com/nic=nic0@{0-1}", got[0]: "gpu.example.com/a/0@{0} claim=x"} {
		if g.String() != want {
			t.Errorf("%s, want %s", g, want)
		}
	}
}

func TestStockOf(t *testing.T) {
	s := StockOf("example.com/gpu", []mask.Mask{2, 0, 1, 3, 2, 2})
	if want := []Place{{1, 1}, {2, 3}, {3, 1}}; s.Of != "example.com/gpu" || !slices.Equal(s.Places, want) {
		t.Errorf("%v, want %v", s, want)
	}
}
