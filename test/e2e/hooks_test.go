package e2e

import (
	"context"
)

// collectHooks saves the histograms of an agent that is about to end.
func (n *node) collectHooks() {
	if !n.running {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := n.metrics(ctx)
	if err != nil {
		return // It was killed on purpose.
	}
	world.hooks.Add(text)
}
