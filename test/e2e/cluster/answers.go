package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/hooks"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// answers logs how long the runtime has waited for the agent since the agent started. It writes to
// the log of the test, not to the page, because the speed of an emulated CPU depends on the host.
func answers(ctx context.Context, n *node, _ []string, _ []byte) (wire.Ended, error) {
	answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: "http://127.0.0.1:9925/metrics"})
	if err != nil {
		return wire.Ended{}, err
	}
	var all hooks.Hooks
	all.Add(answer.Stdout)
	var out bytes.Buffer
	if err := all.Print(&out); err != nil {
		fmt.Fprintln(&out, err)
	}
	say("%s", strings.TrimSpace(out.String()))
	return wire.Ended{}, nil
}
