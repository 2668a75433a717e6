package form

import "fmt"

// Nested is an object inside the object. It is omitted if all its members are omitted.
func Nested[T, U any](name string, members Object[U], of func(*T) *U) Field[T] {
	return Field[T]{
		name: name,
		put: func(w *writer, v *T) bool {
			before := len(w.b)
			members.append(w, of(v))
			return len(w.b) > before+len("{}")
		},
		get: func(r *reader, v *T) { members.read(r, of(v)) },
	}
}

// Optional is an object that is omitted if it is nil.
func Optional[T, U any](name string, members Object[U], of func(*T) **U) Field[T] {
	return Field[T]{
		name: name,
		put: func(w *writer, v *T) bool {
			if *of(v) == nil {
				return false
			}
			members.append(w, *of(v))
			return true
		},
		get: func(r *reader, v *T) {
			*of(v) = new(U)
			members.read(r, *of(v))
		},
	}
}

// Through is the field of a value that is made from v, and stored back after it was read.
func Through[T, U any](f Field[U], of func(*T) U, set func(*T, U)) Field[T] {
	return Field[T]{
		name: f.name, always: f.always,
		put: func(w *writer, v *T) bool {
			u := of(v)
			return f.put(w, &u)
		},
		get: func(r *reader, v *T) {
			var u U
			f.get(r, &u)
			set(v, u)
		},
	}
}

// Known returns the field of a list that distinguishes nil, which is omitted, from an empty list,
// which is written.
func Known[T, E any](f Field[T], of func(*T) *[]E) Field[T] {
	put, get := f.put, f.get
	f.put = func(w *writer, v *T) bool {
		put(w, v)
		return *of(v) != nil
	}
	f.get = func(r *reader, v *T) {
		if get(r, v); *of(v) == nil {
			*of(v) = []E{}
		}
	}
	return f
}

// Slice is a list of objects. follows reports whether an element can be written after the one
// before it, which is nil for the first element. If follows is nil, every element can.
func Slice[T, E any](name string, members Object[E], of func(*T) *[]E, follows func(before, e *E) bool) Field[T] {
	return (&List[T, E]{
		Name: name, Members: members, Follows: follows,
		Len: func(v *T) int { return len(*of(v)) },
		At:  func(v *T, i int) *E { return &(*of(v))[i] },
		Add: func(v *T) { *of(v) = append(*of(v), *new(E)) },
	}).Field()
}

// List is a list of objects that need not be a slice, such as two parallel slices.
type List[T, E any] struct {
	Name    string
	Members Object[E]
	// Len returns the number of elements, At the i-th one, and Add adds an empty one at the end.
	Len func(*T) int
	At  func(v *T, i int) *E
	Add func(*T)
	// Follows is as in Slice.
	Follows func(before, e *E) bool
	// Indent is white space that precedes each element in the form, so that texts can be compared
	// line by line.
	Indent string
	// Who names an element in an error about its content. It may be nil.
	Who func(*E) string
}

// Field returns the field of a list, which must not change any more.
func (l *List[T, E]) Field() Field[T] { return Field[T]{name: l.Name, put: l.put, get: l.get} }

func (l *List[T, E]) put(w *writer, v *T) bool {
	n := l.Len(v)
	w.raw("[")
	var before *E
	for i := range n {
		if i > 0 {
			w.raw(",")
		}
		e := l.At(v, i)
		if w.name = l.Name; l.Follows != nil && !l.Follows(before, e) {
			w.reject(*e)
		}
		w.raw(l.Indent)
		l.Members.append(w, e)
		before = e
	}
	w.raw("]")
	return n > 0
}

func (l *List[T, E]) get(r *reader, v *T) {
	for r.open('[', "a list"); r.more(']'); {
		l.Add(v)
		e := l.At(v, l.Len(v)-1)
		l.Members.read(r, e)
		if r.err != nil && l.Who != nil {
			r.err = fmt.Errorf("%w in %s", r.err, l.Who(e))
			return
		}
	}
}
