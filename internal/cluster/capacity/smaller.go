package capacity

import (
	"context"
	"slices"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/explain"
)

// smaller looks for smaller requests of the resource that is alone on the most places. No rule may
// apply to the pods, and no node may read them differently.
func (r *Result) smaller(ctx context.Context, s *shape, out *Scarce, first map[string]lacking, budget *int64) error {
	for i := range out.Missing {
		l := &out.Missing[i]
		if l.Alone == 0 {
			break
		}
		at := first[l.Resource]
		tried := int64(0)
		for _, amount := range l.worthTrying(s.pods) {
			lowered, change, ok := at.Lower(at.view.State, s.first.Pod, explain.Amount{Resource: l.Resource, Value: amount})
			if !ok || change.To == tried {
				continue
			}
			tried = change.To
			more, err := r.try(ctx, s, s.first.With(lowered), budget)
			if out.Empty && more.Pods > 0 { // There can be more nodes.
				more.Pods, more.AtLeast = s.pods, false
			}
			if err != nil {
				return err
			}
			if k := len(out.Smaller) - 1; more.Pods > 0 && (k < 0 || more.Pods > out.Smaller[k].Pods) {
				more.Change = change
				out.Smaller = append(out.Smaller, more)
			}
			if more.Pods == s.pods {
				break
			}
		}
		if len(out.Smaller) > 0 {
			break
		}
	}
	return nil
}

// worthTrying returns the amounts by which to lower a request: the smallest one, and the smallest
// one that gives half of the pods a place of their own, or half of the places a pod.
func (l *Lack) worthTrying(pods int64) []int64 {
	slices.Sort(l.amounts)
	half := (min(pods, int64(len(l.amounts))) + 1) / 2
	return slices.Compact([]int64{l.amounts[0], l.amounts[max(0, half-1)]})
}

// try places the pods of a shape with another request, and returns how many are placed.
func (r *Result) try(ctx context.Context, s *shape, pod fleet.Pod, budget *int64) (out Smaller, err error) {
	f := r.Fleet.Copy()
	class := f.Class(pod)
	for ; out.Pods < s.pods; out.Pods++ {
		if *budget <= 0 {
			out.AtLeast = true
			return out, nil
		}
		if *budget--; *budget%every == 0 && ctx.Err() != nil {
			return out, ctx.Err()
		}
		p, err := f.FitOf(class, numbered(Item{Pod: pod}, out.Pods, 0))
		if err != nil || p.Node == "" {
			return out, err
		}
	}
	return out, nil
}
