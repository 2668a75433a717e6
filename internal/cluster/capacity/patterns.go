package capacity

import (
	"context"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/packing"
)

// patterns returns a number of nodes of a kind below which pods cannot fit, whatever the placement
// is: the bound of package packing. An empty node takes each of the pods.
func patterns(ctx context.Context, kind Kind, items []Item) (int, error) {
	p, err := relaxed([]Kind{kind}, []float64{1}, items, nil)
	if err != nil {
		return 0, err
	}
	r := packing.Bound(p.nodes, p.items, packing.Budget, func() bool { return ctx.Err() != nil })
	return r.Nodes(p.items), nil
}

// problem is a question to package packing.
type problem struct {
	nodes []packing.Node
	items []packing.Item
}

// relaxed describes kinds with prices and pods as what the nodes can hold at most. takes reports
// whether an empty node of a kind takes an item. Nil means that each takes all.
func relaxed(kinds []Kind, prices []float64, items []Item, takes func(kind, item int) bool) (p problem, err error) {
	shapes := make([]fleet.Shape, len(items))
	p.items = make([]packing.Item, len(items))
	for i, item := range items {
		shapes[i] = fleet.Shape{Pod: item.Pod, Count: item.Count}
		p.items[i].Count, p.items[i].PerNode = item.Count, item.Pod.PerNode.Most
	}
	for k, kind := range kinds {
		n := &fleet.Node{Name: kind.Name, Kind: kind.Name, State: kind.State, Allocatable: kind.Allocatable, Used: kind.Used}
		r, err := fleet.Relax(n, shapes)
		if err != nil {
			return p, err
		}
		p.nodes = append(p.nodes, r.Node(prices[k]))
		for i := range items {
			p.items[i].On = append(p.items[i].On, r.Need(&items[i].Pod, takes != nil && !takes(k, i)))
		}
	}
	return p, nil
}
