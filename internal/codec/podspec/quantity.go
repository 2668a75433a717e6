package podspec

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ErrNotWhole is wrapped by the error about an amount of devices that is no whole number.
var ErrNotWhole = errors.New("not a whole number")

// ErrOutOfRange is wrapped by the error about a quantity that is negative or too large
// to calculate with.
var ErrOutOfRange = errors.New("out of range")

var (
	// A quantity of 2^63-1 or more is read as 2^63-1, so that very number means
	// all that is too large.
	maxUnits = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	maxMilli = *resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
)

// maxExponent is far beyond every amount there is. Arithmetic on a quantity writes out
// all its digits, which for 1e999999999 would take hours: such a one is rejected unread.
const maxExponent = 60

// checkExponents rejects, by its field, the first quantity of the pod that cannot be
// calculated with in reasonable time. Before it no quantity is compared or added.
func checkExponents(pod *v1.Pod) *field.Error {
	check := func(r *v1.ResourceRequirements, at *field.Path) *field.Error {
		for _, l := range []struct {
			name string
			list v1.ResourceList
		}{{"limits", r.Limits}, {"requests", r.Requests}} {
			for _, name := range sortedNames(l.list) {
				q := l.list[name]
				if _, small := q.AsInt64(); small && q.Sign() != 0 { // Almost all. Only a zero may have an exponent.
					continue
				}
				if scale := q.AsDec().Scale(); scale > maxExponent || scale < -maxExponent {
					return field.Invalid(at.Child(l.name).Key(string(name)), "10^"+strconv.Itoa(int(-scale)),
						"the quantity has an exponent that is "+ErrOutOfRange.Error())
				}
			}
		}
		return nil
	}
	spec := field.NewPath("spec")
	if r := pod.Spec.Resources; r != nil {
		if err := check(r, spec.Child("resources")); err != nil {
			return err
		}
	}
	for i := range pod.Spec.InitContainers {
		at := spec.Child("initContainers").Index(i).Child("resources")
		if err := check(&pod.Spec.InitContainers[i].Resources, at); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		at := spec.Child("containers").Index(i).Child("resources")
		if err := check(&pod.Spec.Containers[i].Resources, at); err != nil {
			return err
		}
	}
	return nil
}

// CheckAmounts returns an error if an amount of a list cannot be calculated with: it is negative,
// too large, or has an exponent that takes hours to write out.
func CheckAmounts(list v1.ResourceList) error {
	for _, name := range sortedNames(list) {
		q := list[name]
		if _, small := q.AsInt64(); !small {
			if scale := q.AsDec().Scale(); scale > maxExponent || scale < -maxExponent {
				return fmt.Errorf("%s: %w: it has the exponent %d", name, ErrOutOfRange, -scale)
			}
		}
		limit := maxUnits
		if name == v1.ResourceCPU {
			limit = maxMilli
		}
		if err := inRange(q, limit); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func inRange(q, limit resource.Quantity) error {
	switch {
	case q.Sign() < 0:
		return fmt.Errorf("%w: %s is negative", ErrOutOfRange, q.String())
	case q.Cmp(limit) >= 0:
		return fmt.Errorf("%w: %s is too large, it has to be below %s",
			ErrOutOfRange, q.String(), limit.String())
	}
	return nil
}

// bytesOf is q in bytes. A fraction of a byte counts as a byte.
func bytesOf(q resource.Quantity) (int64, error) {
	if err := inRange(q, maxUnits); err != nil {
		return 0, err
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
