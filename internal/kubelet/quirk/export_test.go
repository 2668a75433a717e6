package quirk

import "github.com/paddock-project/paddock/internal/core/node"

// Unnamed tells whether the kubelet's answer is another one and no fault of its decision says why.
func Unnamed(s *node.State, r Request, k Kubelet, plan *node.Plan) bool {
	d := decide(s, r, k)
	_, changed := d.compare(plan)
	return changed && len(d.faults) == 0
}
