package capacity

import (
	"cmp"
	"context"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Now describes nodes as they are: the pods that they have count as placed. Aligned CPU time is
// that of the CPUs that these pods have.
func Now(ctx context.Context, kinds []Kind, o Options) (*Result, error) {
	r, err := Fit(ctx, kinds, nil, o)
	if err != nil {
		return nil, err
	}
	at := make(map[string]*KindResult, len(r.Kinds))
	for i := range r.Kinds {
		at[r.Kinds[i].Name] = &r.Kinds[i]
	}
	for _, k := range kinds {
		var each Alignment
		for g := range k.State.AllGrants() {
			each.add(alignmentOf(k.State, g, &fleet.Pod{Asks: fleet.Amounts{Milli: int64(g.CPUs().Len()) * 1000}}))
		}
		group, n := at[cmp.Or(k.Group, k.Name)], int64(k.Count)
		group.Pods += n * k.Used.Pods
		group.PlacedMilli += n * k.Used.Milli
		for range n {
			group.Alignment.add(each)
			r.Alignment.add(each)
		}
		r.Placed += n * k.Used.Pods
		r.PlacedMilli += n * k.Used.Milli
	}
	return r, nil
}

// Kinded returns each node of the final state as a kind of its own, with its pods.
func (r *Result) Kinded() []Kind {
	var kinds []Kind
	for _, v := range r.Fleet.Views() {
		kinds = append(kinds, Kind{Name: v.Name, Count: 1, Group: v.Kind, State: v.State, Allocatable: v.Allocatable, Used: v.Used})
	}
	return kinds
}
