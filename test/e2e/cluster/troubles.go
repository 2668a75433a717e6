package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/e2e/tally"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// trouble is what happens to a node while the agent observes.
type trouble struct {
	name string
	// begin and end are commands on the node, which stop and start units, too. If end is empty, the
	// next pod ends the trouble: the kubelet writes both files again when it has decided about it.
	begin, end string
	// reason is in the agent's answer to /readyz meanwhile.
	reason string
}

var troubles = []trouble{
	{name: "a deleted file", begin: "rm /var/lib/kubelet/cpu_manager_state", reason: "cpu_manager_state"},
	{name: "a garbled file", begin: "echo '{garbled' > /var/lib/kubelet/memory_manager_state", reason: "memory_manager_state"},
	{name: "a kubelet that is down", begin: "systemctl stop kubelet", end: "systemctl start kubelet", reason: "10250"},
}

// troubleSeed is the seed of the result of troubled. No history has it.
const troubleSeed = 0

// troubled lets every trouble come and go, and checks that the agent does what
// docs/observe-a-kubelet.md promises: it reports the reason, still shows what it saw last, and
// goes on when the trouble is over. The pod that comes meanwhile is as predicted, or has no
// prediction.
func (n *node) troubled(ctx context.Context, minor string) (tally.Result, error) {
	begin := time.Now()
	r := tally.Result{Minor: minor, Seed: troubleSeed, Kind: "troubles"}
	if err := n.observeNew(ctx, history{seed: 8}.changes()); err != nil {
		return r, err
	}
	for i, t := range troubles {
		after, err := n.trouble(ctx, t, fmt.Sprintf("trouble-%d", i))
		say("kubelet %s, %s: %+v, %v", minor, t.name, after.Unpredicted, err)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.name, err)
		}
		r.Decisions++
	}
	err := n.finish(ctx, &r)
	r.Seconds = time.Since(begin).Seconds()
	return r, err
}

// trouble returns how the predictions compare after a trouble.
func (n *node) trouble(ctx context.Context, t trouble, pod string) (after view.Trust, err error) {
	before, err := n.trust(ctx)
	if err == nil {
		err = n.command(ctx, t.begin)
	}
	if err == nil {
		err = n.awaitReadiness(ctx, http.StatusServiceUnavailable, t.reason)
	}
	if err != nil {
		return after, err
	}
	// What was seen last is still shown, with the reason why it can be out of date.
	shown, err := n.askObserver(ctx, "/api/history")
	if err == nil && !bytes.Contains(shown, []byte(`"notice":"What the kubelet does is not known: `)) {
		err = fmt.Errorf("the history has no such notice: %s", shown)
	}
	if err != nil {
		return after, err
	}
	if t.end != "" {
		if err := n.command(ctx, t.end); err != nil {
			return after, err
		}
	}
	limits := map[string]any{"cpu": "1", "memory": "64Mi"}
	spec := map[string]any{"containers": []any{map[string]any{"name": "main", "resources": map[string]any{"limits": limits}}}}
	if err := n.step(ctx, step{Create: pod, Spec: spec}); err != nil {
		return after, err
	}
	if err := n.awaitReadiness(ctx, http.StatusOK, ""); err != nil {
		return after, err
	}
	return n.awaitTrust(ctx, patience, func(after view.Trust) bool { return exact(after) && after.Admissions.All == before.Admissions.All+1 })
}

// command runs a command on the node, or does what systemctl does there.
func (n *node) command(ctx context.Context, line string) error {
	if handled, err := n.control(ctx, strings.Fields(line)); handled {
		return err
	}
	return n.must(ctx, line)
}

// awaitReadiness waits until the agent answers /readyz with a code and a text.
func (n *node) awaitReadiness(ctx context.Context, code int, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: "http://127.0.0.1:9925/readyz"})
		if err == nil && answer.Code == code && strings.Contains(answer.Stdout, text) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("/readyz answers %d %q, expected %d with %q: %w", answer.Code, answer.Stdout, code, text, errors.Join(err, ctx.Err()))
		case <-time.After(300 * time.Millisecond):
		}
	}
}
