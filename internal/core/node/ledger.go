package node

import (
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/memory"
)

// ledger shows, for each kind of resource, what is assigned and what is free. It is a value.
type ledger struct {
	// unassigned has the CPUs that no pod has (R-CPU-30): the node shared pool, and the isolated
	// CPUs beside it.
	unassigned cpuset.Set
	usage      memory.Usage // the memory that is assigned
	devices    device.Usage // which devices are assigned
	caches     cache.Usage  // the classes of the caches
}
