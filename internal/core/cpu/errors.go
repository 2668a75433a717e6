package cpu

import (
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// NotEnoughError means that fewer CPUs are free than requested (R-CPU-40).
type NotEnoughError struct {
	Requested, Available int
}

func (e *NotEnoughError) Error() string {
	return fmt.Sprintf("not enough cpus available to satisfy request: requested=%d, available=%d",
		e.Requested, e.Available)
}

// SMTAlignmentError means that full-pcpus-only does not allow a request. Either the number of CPUs
// is not a multiple of the CPUs per core (R-CPU-70) or, if Scarce is set, it exceeds
// AvailablePhysical (R-CPU-71).
type SMTAlignmentError struct {
	Requested, PerCore int
	// AvailablePhysical is the number of free CPUs on cores without a reserved CPU.
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

// ReservationError means that the machine does not have the CPUs that the Kubernetes node
// reserves for itself (R-CPU-23). Err is the error of Take, if any.
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

// Unwrap returns the error of Take.
func (e *ReservationError) Unwrap() error { return e.Err }

// ErrEndless means that the kubelet's search for these CPUs never ends. It occurs only with a
// Behavior.
var ErrEndless = errors.New("the search for CPUs never ends")

// ErrAccounting means that the kubelet finds too few CPUs on the NUMA nodes that it chose.
// It occurs only with a Behavior.
var ErrAccounting = errors.New("accounting error, not enough CPUs assigned")
