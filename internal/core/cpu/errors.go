package cpu

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// NotEnoughError says that fewer CPUs are free than were asked for (R-CPU-40).
type NotEnoughError struct {
	Requested, Available int
}

func (e *NotEnoughError) Error() string {
	return fmt.Sprintf("not enough cpus available to satisfy request: requested=%d, available=%d",
		e.Requested, e.Available)
}

// SMTAlignmentError says that full-pcpus-only does not allow a request: the number is
// no multiple of the CPUs per core (R-CPU-70), or, with Scarce set, more than the CPUs
// of cores without a reserved thread (R-CPU-71).
type SMTAlignmentError struct {
	Requested, PerCore int
	// AvailablePhysical is the number of free CPUs outside the cores that hold a
	// reserved CPU.
	AvailablePhysical int
	Scarce            bool
}

func (e *SMTAlignmentError) Error() string {
	if e.Scarce {
		return fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: "+
			"available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d",
			e.AvailablePhysical, e.Requested, e.PerCore)
	}
	return fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d",
		e.Requested, e.PerCore)
}

// ReservationError says that the CPUs which the node reserves for itself could not be
// found on the machine (R-CPU-23). Err is what Take said, if it said anything.
type ReservationError struct {
	Wanted int
	Got    cpuset.Set
	Err    error
}

func (e *ReservationError) Error() string {
	text := fmt.Sprintf("unable to reserve the required amount of CPUs (size of %s did not equal %d)",
		e.Got, e.Wanted)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns what Take said.
func (e *ReservationError) Unwrap() error { return e.Err }
