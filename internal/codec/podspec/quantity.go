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

// ErrNotWhole is wrapped by the error for a number of devices that is not a whole number.
var ErrNotWhole = errors.New("not a whole number")

// ErrOutOfRange is wrapped by the error for a quantity that is negative or too large for
// calculations.
var ErrOutOfRange = errors.New("out of range")

var (
	// A quantity of 2^63-1 or more is read as 2^63-1, so that number means everything that is too
	// large.
	maxUnits = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	maxMilli = *resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
)

// maxExponent is far beyond every real amount. Arithmetic on a quantity writes out all its digits,
// which would take hours for 1e999999999, so larger exponents are rejected before any arithmetic.
const maxExponent = 60

// checkExponents returns an error for the first quantity of the pod whose exponent would make
// calculations take too long. It must run before any quantity is compared or added.
func checkExponents(pod *v1.Pod) *field.Error {
	check := func(r *v1.ResourceRequirements, at *field.Path) *field.Error {
		for _, l := range []struct {
			name string
			list v1.ResourceList
		}{{"limits", r.Limits}, {"requests", r.Requests}} {
			for _, name := range sortedNames(l.list) {
				q := l.list[name]
				if _, small := q.AsInt64(); small && q.Sign() != 0 { // Almost all quantities are small. Of these only zero may have an exponent.
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

// CheckAmounts returns an error if an amount of a list cannot be used in calculations: it is
// negative, too large, or has an exponent that would take hours to write out.
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
		what, most := q.String(), limit.String()
		if q.Cmp(maxUnits) >= 0 {
			what = "it" // What was written is not known any more.
		}
		if limit.Cmp(maxUnits) >= 0 {
			most = "8Ei" // 2^63
		}
		return fmt.Errorf("%w: %s is too large, expected less than %s", ErrOutOfRange, what, most)
	}
	return nil
}

// bytesOf returns q in bytes. A fraction of a byte is rounded up to a byte.
func bytesOf(q resource.Quantity) (int64, error) {
	if err := inRange(q, maxUnits); err != nil {
		return 0, err
	}
	return q.Value(), nil
}

func isWhole(q resource.Quantity) bool {
	return q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) == 0
}
