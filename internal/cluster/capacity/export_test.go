package capacity

import "context"

// Size is Fewest with the way of the options.
func Size(ctx context.Context, kind Kind, items []Item, most int, o Options) (*Result, error) {
	r, _, err := Fewest(ctx, kind, items, most, []Way{{o.Scoring, o.Order}}, o)
	return r, err
}
