package form

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Text is a string.
func Text[T any](name string, of func(*T) *string) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.text(*of(v)); return *of(v) != "" },
		get:  func(r *reader, v *T) { *of(v) = r.text() },
	}
}

// Texts is a list of strings. A nil list is the same as an empty one, unless the field is made with
// Known.
func Texts[T any](name string, of func(*T) *[]string) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.texts(*of(v)); return len(*of(v)) > 0 },
		get:  func(r *reader, v *T) { *of(v) = r.texts() },
	}
}

// Number is a whole number that is not negative.
func Number[T any, N int | int64 | uint64](name string, of func(*T) *N) Field[T] {
	return Field[T]{
		name: name,
		put: func(w *writer, v *T) bool {
			if n := *of(v); n < 0 {
				w.reject(n)
			}
			w.b = strconv.AppendUint(w.b, uint64(*of(v)), 10)
			return *of(v) != 0
		},
		get: func(r *reader, v *T) { *of(v) = whole[N](r) },
	}
}

// Signed is a whole number.
func Signed[T any, N int32 | int64](name string, of func(*T) *N) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.b = strconv.AppendInt(w.b, int64(*of(v)), 10); return *of(v) != 0 },
		get:  func(r *reader, v *T) { *of(v) = whole[N](r) },
	}
}

// Flag is a boolean.
func Flag[T any](name string, of func(*T) *bool) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.b = strconv.AppendBool(w.b, *of(v)); return *of(v) },
		get:  func(r *reader, v *T) { *of(v) = r.flag() },
	}
}

// Names maps the values of a type to their names in a form. These names are part of the form:
// unlike names in messages, they must not change. A value with an empty name is omitted.
type Names[V comparable] []struct {
	Value V
	Name  string
}

// Of returns the name of a value, and whether it has one.
func (n Names[V]) Of(value V) (string, bool) {
	for _, x := range n {
		if x.Value == value {
			return x.Name, true
		}
	}
	return "", false
}

// Named is a value with a name. A name that is not in the list is unknown.
func Named[T any, V comparable](name string, names Names[V], of func(*T) *V) Field[T] {
	return Field[T]{
		name: name,
		put: func(w *writer, v *T) bool {
			text, ok := names.Of(*of(v))
			if !ok {
				w.reject(*of(v))
			}
			w.text(text)
			return text != ""
		},
		get: func(r *reader, v *T) {
			text := r.text()
			for _, x := range names {
				if x.Name == text {
					*of(v) = x.Value
					return
				}
			}
			r.unknownValue("a value", text)
		},
	}
}

func (r *reader) unknownValue(what, text string) {
	r.fail(&unknownError{fmt.Sprintf("it has %s %q that this one does not know", what, text)})
}

// Switches are booleans. The form has a list of the names of those that are on.
type Switches[T any] []struct {
	Name string
	Of   func(*T) *bool
}

// On returns the names of the switches that are on, in the order of the list.
func (s Switches[T]) On(v *T) []string {
	var list []string
	for _, x := range s {
		if *x.Of(v) {
			list = append(list, x.Name)
		}
	}
	return list
}

// Options is a list of the switches that are on. A name that is not in the list is unknown.
func Options[T any](name string, switches Switches[T]) Field[T] {
	return Field[T]{
		name: name,
		put: func(w *writer, v *T) bool {
			on := switches.On(v)
			w.texts(on)
			return len(on) > 0
		},
		get: func(r *reader, v *T) {
			for _, text := range r.texts() {
				found := false
				for _, x := range switches {
					if x.Name == text {
						*x.Of(v), found = true, true
					}
				}
				if !found {
					r.unknownValue("an option", text)
				}
			}
		},
	}
}

// CPUs is a set of CPUs, as a list in the form of cpuset(7).
func CPUs[T any](name string, of func(*T) *cpuset.Set) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.text(of(v).String()); return !of(v).IsEmpty() },
		get:  func(r *reader, v *T) { *of(v) = r.cpus() },
	}
}

func (r *reader) cpus() cpuset.Set {
	s, err := cpuset.Parse(r.text())
	if err != nil {
		r.fail(err)
	}
	return s
}

// Nodes is a set of NUMA nodes, as a list of ids.
func Nodes[T any](name string, of func(*T) *mask.Mask) Field[T] {
	return Field[T]{
		name: name,
		put: func(w *writer, v *T) bool {
			w.b = append(w.b, '[')
			for i, id := range of(v).Nodes() {
				if i > 0 {
					w.b = append(w.b, ',')
				}
				w.number(int64(id))
			}
			w.b = append(w.b, ']')
			return !of(v).IsEmpty()
		},
		get: func(r *reader, v *T) {
			var m mask.Mask
			for r.open('[', "a list"); r.more(']'); {
				m = r.with(m, whole[int](r))
			}
			*of(v) = m
		},
	}
}

func (r *reader) with(m mask.Mask, id int) mask.Mask {
	if id < 0 || id > mask.MaxNode {
		r.fail(fmt.Errorf("NUMA node %d is outside 0..%d", id, mask.MaxNode))
		return m
	}
	return m.With(id)
}

// NodeList is a set of NUMA nodes, as a list in the form of cpuset(7).
func NodeList[T any](name string, of func(*T) *mask.Mask) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.text(of(v).List()); return !of(v).IsEmpty() },
		get: func(r *reader, v *T) {
			m, err := mask.Parse(r.text())
			if err != nil {
				r.fail(err)
			}
			*of(v) = m
		},
	}
}

// Amounts is an object with the amount of each resource. The list must be ascending by resource.
func Amounts[T any](name string, of func(*T) *request.Amounts) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { return amounts().write(w, *of(v)) },
		get:  func(r *reader, v *T) { *of(v) = amounts().read(r) },
	}
}

// Devices is an object with a list of devices for each resource. The list must be ascending by
// resource.
func Devices[T any](name string, of func(*T) *[]device.Assigned) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { return devices().write(w, *of(v)) },
		get:  func(r *reader, v *T) { *of(v) = devices().read(r) },
	}
}

// byResource is an object with a member for each element of a list, which must be ascending by
// resource. It does not depend on the type that has the list, so its code exists once for each type
// of element.
type byResource[E any] struct {
	key func(E) string
	put func(*writer, E)
	get func(r *reader, resource string) E
}

func amounts() byResource[request.Amount] {
	return byResource[request.Amount]{
		key: func(a request.Amount) string { return a.Resource },
		put: func(w *writer, a request.Amount) { w.number(a.Value) },
		get: func(r *reader, resource string) request.Amount {
			return request.Amount{Resource: resource, Value: whole[int64](r)}
		},
	}
}

func devices() byResource[device.Assigned] {
	return byResource[device.Assigned]{
		key: func(a device.Assigned) string { return a.Resource },
		put: func(w *writer, a device.Assigned) { w.texts(a.IDs) },
		get: func(r *reader, resource string) device.Assigned {
			return device.Assigned{Resource: resource, IDs: r.texts()}
		},
	}
}

func (m byResource[E]) write(w *writer, list []E) bool {
	w.raw("{")
	for i, e := range list {
		if i > 0 {
			w.raw(",")
		}
		if i > 0 && m.key(list[i-1]) >= m.key(e) {
			w.reject(m.key(e))
		}
		w.text(m.key(e))
		w.raw(":")
		m.put(w, e)
	}
	w.raw("}")
	return len(list) > 0
}

func (m byResource[E]) read(r *reader) []E {
	var list []E
	for r.open('{', "an object"); r.more('}'); {
		e := m.get(r, r.key())
		i, found := slices.BinarySearchFunc(list, e, func(a, b E) int { return strings.Compare(m.key(a), m.key(b)) })
		if !found {
			list = slices.Insert(list, i, e)
		}
		list[i] = e
	}
	return list
}
