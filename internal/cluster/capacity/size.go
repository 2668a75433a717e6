package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// apart returns the items that a node of some kind takes if it has no pods, and a result with the
// others as rejected pods.
func apart(kinds []Kind, items []Item, o Options) (fitting []Item, left *Result, err error) {
	kinds, o.Rules = slices.Clone(kinds), nil // Rules depend on many nodes and the pods on them.
	for i := range kinds {
		kinds[i].Count = 1
	}
	r, err := begin(kinds, items, o)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		_, found, why, err := r.Fleet.Best(item.Pod)
		if err != nil {
			return nil, nil, err
		}
		if found {
			fitting = append(fitting, item)
			continue
		}
		r.Rejected += item.Count
		r.shapeOf(r.Fleet.Class(item.Pod), item.Pod, nil).pods += item.Count
		r.AskedMilli += item.Count * item.Pod.Asks.Milli
		if _, err := r.reject(nil, item.Pod, why, item.Count); err != nil {
			return nil, nil, err
		}
	}
	r.Asked, r.LeftOut, r.Nodes, r.Order = r.Rejected, r.Rejected, 0, cmp.Or(o.Order, Given)
	if left, err = r.end(); left != nil {
		left.empty = true
	}
	return fitting, left, err
}

// leaveOut adds pods that were left out.
func (r *Result) leaveOut(left *Result) {
	r.Asked += left.Asked
	r.AskedMilli += left.AskedMilli
	r.Rejected += left.Rejected
	r.Never += left.Never
	r.NeverMilli += left.NeverMilli
	r.LeftOut, r.left = left.LeftOut, left
	r.Causes = append(slices.Clip(left.Causes), r.Causes...)
}

// never returns an error if pods were left out.
func (r *Result) never() error {
	if r.LeftOut == 0 {
		return nil
	}
	return fmt.Errorf("%d pods: %w", r.LeftOut, ErrNever)
}

// ErrNever is wrapped by the error of Size if no number of nodes takes some pods.
var ErrNever = errors.New("no node of the kind takes them, however empty")

// ErrTooFew is wrapped by the error of Size if the largest allowed number of nodes is not enough.
var ErrTooFew = errors.New("not all pods fit")

// sumsBound returns the number of nodes of a kind below which the sums of the pods' requests cannot
// fit, whatever the placement is.
func sumsBound(kind Kind, items []Item) int {
	var milli, mib, pods float64
	for _, i := range items {
		n, asks := float64(i.Count), i.Pod.On(&fleet.Node{State: kind.State}).Asks
		milli += n * float64(asks.Milli)
		mib += n * float64(asks.Memory) / (1 << 20)
		pods += n
	}
	least := 0.0
	for _, x := range [][2]float64{
		{milli, float64(kind.Allocatable.Milli - kind.Used.Milli)},
		{mib, float64(kind.Allocatable.Memory-kind.Used.Memory) / (1 << 20)},
		{pods, float64(kind.Allocatable.Pods - kind.Used.Pods)},
	} {
		if x[0] > 0 && x[1] > 0 {
			least = max(least, x[0]/x[1])
		}
	}
	n := int(least)
	if float64(n) < least {
		n++
	}
	return n
}
