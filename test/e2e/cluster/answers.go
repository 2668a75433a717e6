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

// answers writes how long the runtime waited for the agent since it started into the log of the
// test: an emulated CPU is as slow as the machine around it.
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
