package control

import (
	"iter"
	"slices"
)

// records is a map of values by key. The loops of all moments share it, so nothing that another
// loop has is ever changed. A Step that writes makes a copy of each value that it writes, and of
// the part of the map that has the value. Values must not contain anything that is changed in
// place.
type records[V any] struct {
	parts *[parts]part[V] // If nil, there are no values.
	// by is the Step that made the array of parts and may write to it.
	by *owner
	n  int
}

// parts is the number of parts of a map, which are copied separately. With 5,000 containers, a Step
// that writes one record copies 80 entries.
const parts = 64

// owner identifies a Step in what the Step made. It is not the Step itself, because the Step has a
// whole loop: a reference to it would keep every earlier loop alive.
type owner struct{ _ byte }

// part is one part of a map. by is the Step that made it.
type part[V any] struct {
	of map[string]*record[V]
	by *owner
}

type record[V any] struct {
	value V
	by    *owner
}

// partOf returns the part of a key, by its FNV-1a hash.
func partOf(key string) uint32 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return h % parts
}

// get returns the value of a key, or nil. The caller must not change it.
func (r *records[V]) get(key string) *V {
	if r.parts == nil {
		return nil
	}
	if e := r.parts[partOf(key)].of[key]; e != nil {
		return &e.value
	}
	return nil
}

// edit returns a copy of the value of a key that the Step can change. If there is none, it adds a
// zero value.
func (r *records[V]) edit(by *step, key string) *V {
	p := r.mine(by, key)
	e := p.of[key]
	if e != nil && e.by == by.owner {
		return &e.value
	}
	mine := &record[V]{by: by.owner}
	if e != nil {
		mine.value = e.value
	} else {
		r.n++
	}
	p.of[key] = mine
	return &mine.value
}

// put replaces the value of a key.
func (r *records[V]) put(by *step, key string, v V) { *r.edit(by, key) = v }

// remove deletes the value of a key.
func (r *records[V]) remove(by *step, key string) {
	if r.get(key) != nil {
		delete(r.mine(by, key).of, key)
		r.n--
	}
}

// removeIf deletes the values for which gone returns true.
func (r *records[V]) removeIf(by *step, gone func(key string, v *V) bool) {
	for key, v := range r.all() {
		if gone(key, v) {
			r.remove(by, key)
		}
	}
}

// all yields the values, in no order. The caller must not change them, but can edit and remove
// values during the iteration.
func (r *records[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		for i := 0; r.parts != nil && i < parts; i++ {
			for key := range r.parts[i].of {
				if e := r.parts[i].of[key]; e != nil && !yield(key, &e.value) {
					return
				}
			}
		}
	}
}

// keys returns the keys, in ascending order.
func (r *records[V]) keys() []string {
	keys := make([]string, 0, r.n)
	for key := range r.all() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (r *records[V]) len() int { return r.n }

// mine returns the part of a key after it has made sure that the part belongs to the Step.
func (r *records[V]) mine(by *step, key string) *part[V] {
	if r.parts == nil || r.by != by.owner {
		next := new([parts]part[V])
		if r.parts != nil {
			*next = *r.parts
		}
		r.parts, r.by = next, by.owner
	}
	p := &r.parts[partOf(key)]
	if p.of == nil || p.by != by.owner {
		of := make(map[string]*record[V], len(p.of)+1)
		for key, e := range p.of {
			of[key] = e
		}
		p.of, p.by = of, by.owner
	}
	return p
}
