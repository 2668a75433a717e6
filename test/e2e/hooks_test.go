package e2e

import (
	"context"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// collectHooks saves the histograms of an agent that is about to end.
func (n *node) collectHooks() {
	if !n.running {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: metricsURL + "/metrics"})
	if err != nil {
		return // It was killed on purpose.
	}
	world.hooks.Add(answer.Stdout)
}
