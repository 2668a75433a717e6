package rejection

import (
	"strings"

	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Rejection explains why a pod was not admitted, with an account of the resources at that time.
type Rejection struct {
	Reason Reason
	// Rule is the id of the rule that rejected the pod, as in docs/rules.
	Rule string
	// Container is the container that could not be served. If empty, the rejection is about the pod
	// as a whole.
	Container string
	// Resource is the resource that was short, and Wanted how much was asked for, in CPUs or bytes.
	// They are empty and 0 if the rejection is not about an amount.
	Resource request.Resource
	Wanted   int64
	// Detail is a sentence about what is wrong, and what would help.
	Detail string
	// Nodes is the account of Resource, one entry for each NUMA node, ascending by id.
	Nodes []account.Node
	// Misfit is set if the pod cannot be aligned with its given devices.
	Misfit *Misfit
}

// Error returns one line: the reason, the container, and the detail.
func (r *Rejection) Error() string {
	var b strings.Builder
	b.WriteString(string(r.Reason))
	b.WriteString(": ")
	if r.Container != "" {
		b.WriteString("container ")
		b.WriteString(r.Container)
		b.WriteString(": ")
	}
	b.WriteString(r.Detail)
	return b.String()
}
