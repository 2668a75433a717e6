package podspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxQuantityText is longer, in bytes, than any meaningful quantity.
const maxQuantityText = 64

// quantityFields has the JSON names of the fields that contain quantities in an object that has
// pods.
type quantityFields struct {
	single map[string]bool // the value is a quantity
	lists  map[string]bool // the value is an object whose values are quantities
}

var knownQuantities = sync.OnceValue(func() quantityFields {
	f := quantityFields{single: map[string]bool{}, lists: map[string]bool{}}
	seen := map[reflect.Type]bool{}
	for _, o := range []any{v1.Pod{}, appsv1.StatefulSet{}, batchv1.CronJob{}} {
		f.collect(reflect.TypeOf(o), "", seen)
	}
	return f
})

func (f quantityFields) collect(t reflect.Type, name string, seen map[reflect.Type]bool) {
	quantity := reflect.TypeFor[resource.Quantity]()
	switch {
	case t == quantity:
		f.single[name] = true
		return
	case t.Kind() == reflect.Map && t.Elem() == quantity:
		f.lists[name] = true
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		f.collect(t.Elem(), name, seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			f.collect(t.Field(i).Type, tag, seen)
		}
	default:
	}
}

// findQuantity calls check for the quantities of an object before it is decoded. If a value is
// neither a string nor a number, check gets a description of the value, and is is false.
// findQuantity returns the first error of check, with the path of the quantity.
func findQuantity(raw []byte, check func(text string, is bool) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	return walkQuantities(v, nil, knownQuantities(), check)
}

// wrongQuantity returns the error for the first quantity of an object that cannot be parsed, with
// its field. The error of a decoder does not have the field.
func wrongQuantity(raw []byte) error {
	return findQuantity(raw, func(text string, is bool) error {
		if !is {
			return fmt.Errorf("it is %s, expected a quantity such as 500m, 2 or 1Gi", text)
		}
		_, err := ParseQuantity(text)
		return err
	})
}

func walkQuantities(v any, at *field.Path, f quantityFields, check func(string, bool) error) error {
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			if err := walkQuantities(x, at.Index(i), f, check); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			here := at.Child(key)
			list, isList := v[key].(map[string]any)
			var err error
			switch {
			case f.lists[key] && isList:
				for _, name := range slices.Sorted(maps.Keys(list)) {
					if err = checkText(list[name], here.Key(name), check); err != nil {
						break
					}
				}
			case f.single[key]:
				err = checkText(v[key], here, check)
			}
			if err == nil {
				err = walkQuantities(v[key], here, f, check)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func checkText(v any, at *field.Path, check func(string, bool) error) error {
	var text string
	is := true
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case []any:
		text, is = "a list", false
	case map[string]any:
		text, is = "an object", false
	case bool:
		text, is = strconv.FormatBool(v), false
	default:
		return nil
	}
	if err := check(text, is); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// outOfRange is textOutOfRange for findQuantity.
func outOfRange(text string, is bool) error {
	if !is {
		return nil
	}
	return textOutOfRange(text)
}

// textOutOfRange rejects a quantity that could take too long even to parse (see maxExponent).
func textOutOfRange(text string) error {
	if len(text) > maxQuantityText {
		return fmt.Errorf("%w: a quantity of %d characters", ErrOutOfRange, len(text))
	}
	digits := strings.TrimRight(text, "0123456789")
	exponent := strings.TrimLeft(text[len(digits):], "0")
	if mantissa := strings.TrimRight(digits, "+-"); len(exponent) > 2 && strings.HasSuffix(strings.ToLower(mantissa), "e") {
		return fmt.Errorf("%w: the exponent of %s is too large, expected at most 2 digits", ErrOutOfRange, text)
	}
	return nil
}

// ParseQuantity parses a quantity. It rejects quantities that would take too long to parse
// (ErrOutOfRange).
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := textOutOfRange(text); err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%q is not a quantity: expected one such as 500m, 2 or 1Gi", text)
	}
	return q, nil
}
