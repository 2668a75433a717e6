package podspec

import (
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ErrNotWhole is wrapped by the error about an amount of memory or huge pages that is
// no whole number of bytes (R-DEM-32).
var ErrNotWhole = errors.New("not a whole number of bytes")

// ErrOutOfRange is wrapped by the error about a quantity that is negative or too large
// to calculate with.
var ErrOutOfRange = errors.New("out of range")

var (
	// A quantity of 2^63-1 or more is read as 2^63-1, so that very number stands for
	// all that is too large.
	maxUnits = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	maxMilli = *resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
)

func inRange(q, limit resource.Quantity) error {
	switch {
	case q.Sign() < 0:
		return fmt.Errorf("%w: %s is negative", ErrOutOfRange, q.String())
	case q.Cmp(limit) >= 0:
		return fmt.Errorf("%w: %s is not below %s, the most that can be calculated with",
			ErrOutOfRange, q.String(), limit.String())
	}
	return nil
}

// milliOf is q in thousandths, rounded up.
func milliOf(q resource.Quantity) (int64, error) {
	if err := inRange(q, maxMilli); err != nil {
		return 0, err
	}
	return q.MilliValue(), nil
}

// bytesOf is q in bytes, rounded up unless exact is asked for.
func bytesOf(q resource.Quantity, exact bool) (int64, error) {
	if err := inRange(q, maxUnits); err != nil {
		return 0, err
	}
	if exact && !isWhole(q) {
		return 0, fmt.Errorf("%s is %w", q.String(), ErrNotWhole)
	}
	return q.Value(), nil
}

func isWhole(q resource.Quantity) bool {
	return q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) == 0
}

// wholeCPUs is the number of CPUs in an amount of thousandths, 0 when it is not a whole
// number (R-DEM-23).
func wholeCPUs(milli int64) int {
	if milli%1000 != 0 {
		return 0
	}
	return int(milli / 1000)
}
