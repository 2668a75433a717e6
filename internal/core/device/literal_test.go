package device

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
)

// literal is the result of R-HINT-40, 42 and 43 taken literally: it lists every mask and looks at
// every device for each mask. Hints must agree with it.
type literal struct {
	kind  hint.Kind
	masks []mask.Mask
	// preferred is the size m of the rule.
	preferred int
}

func literalHints(devices []Device, assigned, reusable []string, request int) literal {
	var universe mask.Mask
	var available []Device
	for _, d := range devices {
		universe |= d.Nodes
		if d.Healthy && !slices.Contains(assigned, d.ID) {
			available = append(available, d)
		}
	}
	if universe == 0 {
		return literal{kind: hint.Any}
	}
	if len(available)+len(reusable) < request {
		return literal{kind: hint.None}
	}
	l := literal{kind: hint.Fits, preferred: universe.Len()}
	for m := universe; m != 0; m = (m - 1) & universe {
		if touching(devices, m) >= request {
			l.preferred = min(l.preferred, m.Len())
		}
		matching, outside := 0, false
		for _, d := range devices {
			if !slices.Contains(reusable, d.ID) || d.Nodes == 0 {
				continue
			}
			matching++
			outside = outside || d.Nodes&m == 0
		}
		if !outside && matching+touching(available, m) >= request {
			l.masks = append(l.masks, m)
		}
	}
	if l.masks == nil {
		l.kind = hint.None
	}
	return l
}

func touching(devices []Device, m mask.Mask) int {
	n := 0
	for _, d := range devices {
		if d.Nodes&m != 0 {
			n++
		}
	}
	return n
}
