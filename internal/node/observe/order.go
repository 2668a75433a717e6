package observe

import "slices"

// greedy looks for an order of many decisions. In each step it takes the first remaining decision
// that is as predicted. found is false if no remaining decision is, although there may be an order.
func greedy(base position, now *Sight, decided []Decision) (all []Comparison, found bool) {
	if len(decided) <= mostOrdered {
		return nil, false
	}
	predicted, at, left := map[string]prediction{}, base, slices.Clone(decided)
	inOrder := true
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(d Decision) bool {
			if len(d.Doubts) > 0 {
				return false
			}
			p := at.predict(&d)
			return d.matches(&p, now)
		})
		if i < 0 {
			return nil, false
		}
		d := left[i]
		p := at.predict(&d)
		predicted[d.Pod.UID] = p
		var err error
		if at, err = p.then(&d); err != nil {
			return nil, false
		}
		inOrder = inOrder && i == 0
		left = slices.Delete(left, i, i+1)
	}
	return labelled(predicted, decided, inOrder), true
}

// try predicts decisions in a given order, and returns the predictions by UID. It reports false if
// a decision is not as predicted. If run is set, the containers of a pod run before the kubelet
// decides about the next pod, so the memory of its init containers is free by then.
func try(base position, now *Sight, order []Decision, run bool) (map[string]prediction, bool) {
	predicted, at := map[string]prediction{}, base
	for i := range order {
		d := &order[i]
		p := at.predict(d)
		if len(d.Doubts) > 0 || !d.matches(&p, now) {
			return nil, false
		}
		predicted[d.Pod.UID] = p
		var err error
		if at, err = p.then(d); err != nil {
			return nil, false
		}
		if run && d.Reason == "" {
			at.state = at.state.ContainerCreated(d.Pod.UID, d.Pod.Containers[len(d.Pod.Containers)-1].Name)
		}
	}
	return predicted, true
}

// labelled returns the comparisons of decisions that are all as predicted.
func labelled(predicted map[string]prediction, decided []Decision, inOrder bool) []Comparison {
	result := AsPredicted
	if !inOrder {
		result = Reordered
	}
	var all []Comparison
	for i := range decided {
		d := &decided[i]
		if p := predicted[d.Pod.UID]; d.matters(&p) {
			all = append(all, d.comparison(&p, result))
		}
	}
	return all
}

// ordersOf returns all orders of up to mostOrdered decisions, the given one first. Of more
// decisions it returns only the given order.
func ordersOf(decided []Decision) [][]Decision {
	if len(decided) > mostOrdered {
		return [][]Decision{decided}
	}
	if len(decided) == 0 {
		return [][]Decision{nil}
	}
	var all [][]Decision
	for i := range decided {
		rest := slices.Concat(decided[:i], decided[i+1:])
		for _, order := range ordersOf(rest) {
			all = append(all, append([]Decision{decided[i]}, order...))
		}
	}
	return all
}
