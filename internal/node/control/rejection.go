package control

import (
	"errors"
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// ErrRejected is wrapped by the error that fails a sandbox or a container because its pod is
// rejected.
var ErrRejected = errors.New("paddock rejects the pod")

// mostAccount limits the text of an account, together with the note about unknown devices, in
// bytes. A whole event has 1024 bytes.
const mostAccount = 600

// ErrResizeRejected is wrapped by the error that stops a resize because the node rejects it.
var ErrResizeRejected = errors.New("paddock rejects the resize of the pod")

// rejected returns the error that a user sees as an event of the pod.
func rejected(pod request.Pod, r *rejection.Rejection) error {
	how := ""
	if pod.Estimated {
		how = " (estimated from cgroup numbers, because the kubelet does not list it yet; the kubelet is asked again)"
	}
	unknown := ""
	if pod.DevicesUnknown != "" {
		unknown = "; the devices that the pod requests are unknown: " + pod.DevicesUnknown
	}
	return fmt.Errorf("%w %s%s: %w%s%s", ErrRejected, pod.ID(), how, r, unknown, account(r, mostAccount-len(unknown)))
}

// account lists what is free on each NUMA node and which pods have the rest. It adds NUMA nodes
// while the text has at most room bytes.
func account(r *rejection.Rejection, room int) string {
	if len(r.Nodes) == 0 {
		return ""
	}
	const most = 3 // pods that are named for each NUMA node
	var b strings.Builder
	fmt.Fprintf(&b, "; %s wanted: %s", name(r.Resource), amount(r.Resource, r.Wanted))
	for i, n := range r.Nodes {
		line := fmt.Sprintf("; NUMA node %d: %s of %s free", n.Node, strings.TrimSuffix(amount(r.Resource, n.Free), " ways"), amount(r.Resource, n.Total))
		for _, h := range n.Holders[:min(len(n.Holders), most)] {
			if h.Reserved() {
				line += fmt.Sprintf(", %s %s", amount(r.Resource, h.Amount), h.Pod)
				continue
			}
			line += fmt.Sprintf(", %s has %s", h.Pod, amount(r.Resource, h.Amount))
		}
		if more := len(n.Holders) - most; more > 0 {
			line += fmt.Sprintf(", %d others", more)
		}
		if b.Len()+len(line) > room {
			fmt.Fprintf(&b, "; and %d more NUMA nodes", len(r.Nodes)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// name returns the name of a resource for people.
func name(resource request.Resource) string {
	switch resource {
	case request.L3:
		return "L3"
	case request.Bandwidth:
		return "memory bandwidth"
	}
	return resource
}

// amount formats a number of bytes, of ways or of percent or, for other resources, of CPUs or
// devices.
func amount(resource request.Resource, n int64) string {
	switch {
	case request.IsMemory(resource):
		return request.Bytes(n)
	case resource == request.L3:
		return fmt.Sprint(n, " ways")
	case resource == request.Bandwidth:
		return fmt.Sprint(n, "%")
	}
	return fmt.Sprint(n)
}
