package fleet

import "github.com/paddock-project/paddock/internal/core/request"

// Amounts has what the scheduler counts for a pod or a node.
type Amounts = request.Totals

// DefaultPods is the largest number of pods per node if nothing else limits it, as in the kubelet
// (maxPods).
const DefaultPods = 110
