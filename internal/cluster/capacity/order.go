package capacity

import (
	"cmp"
	"math"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Order is the order in which Fit places the items.
type Order string

// The orders. The zero value is Given.
const (
	// Given is the order of the question.
	Given Order = "given"
	// LargestFirst begins with the items whose pods take the largest share of a node. Large pods
	// that come last find the nodes full of small ones, so the order of a file would decide how
	// many nodes are needed.
	LargestFirst Order = "largest-first"
	// MostMemoryFirst and MostCPUsFirst begin with the items whose pods ask for the most memory or
	// CPUs. They differ from LargestFirst where pods are large in different resources.
	MostMemoryFirst Order = "most-memory-first"
	MostCPUsFirst   Order = "most-cpus-first"
	// Drawn is the order of Fill.
	Drawn Order = "drawn"
)

// Orders returns the orders that Options can have.
func Orders() []Order { return []Order{Given, LargestFirst, MostMemoryFirst, MostCPUsFirst} }

// sorted returns the items in the order. Items of the same size stay in the given order.
func (o Order) sorted(kinds []Kind, items []Item) []Item {
	var only request.Resource
	switch o {
	case MostMemoryFirst:
		only = request.Memory
	case MostCPUsFirst:
		only = request.CPU
	case LargestFirst:
	default:
		return items
	}
	has := map[request.Resource]int64{}
	for _, k := range kinds {
		for _, r := range resourcesOf(k.Allocatable) {
			has[r] = max(has[r], k.Allocatable.Of(r))
		}
	}
	type sized struct {
		Item
		first int64
		share float64
	}
	all := make([]sized, len(items))
	for i, item := range items {
		all[i] = sized{Item: item, share: share(item.Pod.Asks, has)}
		if only != "" {
			all[i].first = item.Pod.Asks.Of(only)
		}
	}
	slices.SortStableFunc(all, func(a, b sized) int { return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(b.share, a.share)) })
	out := make([]Item, len(all))
	for i, s := range all {
		out[i] = s.Item
	}
	return out
}

// share returns the dominant share of a request: the largest part of a resource of a node. It is
// infinite if no node has the resource.
func share(asks fleet.Amounts, has map[request.Resource]int64) (most float64) {
	for _, r := range resourcesOf(asks) {
		switch n := asks.Of(r); {
		case n > 0 && has[r] > 0:
			most = max(most, float64(n)/float64(has[r]))
		case n > 0:
			return math.Inf(1)
		}
	}
	return most
}

// resourcesOf returns the resources that a scheduler counts in amounts.
func resourcesOf(a fleet.Amounts) []request.Resource {
	all := []request.Resource{request.CPU, request.Memory}
	for _, o := range a.Others {
		all = append(all, o.Resource)
	}
	return all
}
