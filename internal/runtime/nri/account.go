package nri

import (
	"errors"
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrRefused is wrapped by the error that fails a sandbox or a container because its pod is refused.
var ErrRefused = errors.New("paddock rejects the pod")

// mostAccount bounds the text of an account, in bytes: an event has 1024 for everything.
const mostAccount = 600

// refusal is the error that a user sees as an event of the pod.
func refusal(pod request.Pod, r *node.Refusal) error {
	how := ""
	if pod.Estimated {
		how = " (estimated from cgroup numbers, because it is not listed; it will be asked for again)"
	}
	return fmt.Errorf("%w %s%s: %w (%s)%s", ErrRefused, pod.ID(), how, r, r.Rule, account(r))
}

// account says what every NUMA node has and who holds the rest, as far as there is room.
func account(r *node.Refusal) string {
	if len(r.Nodes) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "; %s wanted: %s", r.Resource, amount(r.Resource, r.Wanted))
	for i, n := range r.Nodes {
		line := nodeAccount(r.Resource, n)
		if b.Len()+len(line) > mostAccount {
			fmt.Fprintf(&b, "; and %d NUMA nodes more", len(r.Nodes)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

func nodeAccount(resource request.Resource, n node.NodeAccount) string {
	const most = 3
	var b strings.Builder
	fmt.Fprintf(&b, "; NUMA node %d: %s of %s free", n.Node, amount(resource, n.Free), amount(resource, n.Total))
	for i, h := range n.Holders {
		if i == most {
			fmt.Fprintf(&b, ", %d others", len(n.Holders)-most)
			break
		}
		fmt.Fprintf(&b, ", %s has %s", h.Pod, amount(resource, h.Amount))
	}
	return b.String()
}

// amount is a number of CPUs or devices, or of bytes.
func amount(resource request.Resource, n int64) string {
	if request.IsMemory(resource) {
		return request.Bytes(n)
	}
	return fmt.Sprint(n)
}
