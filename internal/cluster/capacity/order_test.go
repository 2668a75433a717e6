package capacity

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/request"
)

// TestLargestFirst checks that the order of items that differ in size does not change an answer,
// and that items of the same size stay in the given order.
func TestLargestFirst(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		items := []Item{item("a", 1, 9), item("b", 3, 4), item("c", 5, 3), item("d", 7, 2)}
		other := rapid.Permutation(items).Draw(t, "order")
		o := Options{Order: LargestFirst}
		one, err := Size(t.Context(), kind(t, 0), items, 50, o)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Size(t.Context(), kind(t, 0), other, 50, o)
		if err != nil || one.Nodes != two.Nodes || one.AlignedMilli != two.AlignedMilli || two.Order != LargestFirst {
			t.Fatalf("%d nodes in one order, %d in another: %v", one.Nodes, two.Nodes, err)
		}
	})
	few, many, same := item("few", 2, 1), item("many", 8, 1), item("same", 2, 1)
	wide := item("wide", 1, 1) // Its memory is the dominant share.
	wide.Pod.Asks.Memory = 60 * gib
	device := item("device", 1, 1) // No node has this resource.
	device.Pod.Asks.Others = request.Amounts{{Resource: "example.com/none", Value: 1}}
	given := []Item{few, many, same, wide, device}
	var names []string
	for _, i := range LargestFirst.sorted([]Kind{kind(tt, 1)}, given) {
		names = append(names, i.Name)
	}
	if want := []string{"device", "wide", "many", "few", "same"}; !slices.Equal(names, want) || given[0].Name != "few" {
		tt.Errorf("%v, expected %v", names, want)
	}
}
