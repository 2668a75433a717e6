package machine

import "github.com/paddock-project/paddock/internal/core/cpuset"

// Isolation has the CPUs that the kernel keeps work away from since it was started, as its boot
// parameters list them. The sets can have CPUs that the machine does not have, such as offline
// ones.
type Isolation struct {
	// Isolated CPUs are in no scheduling domain (isolcpus= with the flag domain): the kernel moves
	// no task to them and away from them. A task runs there only if its affinity allows it, and
	// stays on the CPU on which it was started.
	Isolated cpuset.Set
	// NoHzFull are the CPUs whose timer tick stops while one task runs (nohz_full=).
	NoHzFull cpuset.Set
	// ManagedIRQ are the CPUs from which managed interrupts are kept away (isolcpus= with the flag
	// managed_irq).
	ManagedIRQ cpuset.Set
}

// IsEmpty reports whether the kernel keeps nothing away from any CPU.
func (i Isolation) IsEmpty() bool {
	return i.Isolated.IsEmpty() && i.NoHzFull.IsEmpty() && i.ManagedIRQ.IsEmpty()
}

// Isolation returns what the kernel keeps away from CPUs.
func (m *Machine) Isolation() Isolation { return m.isolation }
