package form

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Ways is a set of ways of a cache, as a list in the form of cpuset(7).
func Ways[T any, W ~uint32](name string, of func(*T) *W) Field[T] {
	return Field[T]{
		name: name,
		put:  func(w *writer, v *T) bool { w.text(cache.Ways(*of(v)).String()); return *of(v) != 0 },
		get:  func(r *reader, v *T) { *of(v) = W(r.ways()) },
	}
}

func (r *reader) ways() cache.Ways {
	var ways cache.Ways
	for id := range r.cpus().All() {
		if id >= machine.MaxWays {
			r.fail(fmt.Errorf("way %d of a cache is outside 0..%d", id, machine.MaxWays-1))
			return 0
		}
		ways |= cache.Run(id, 1)
	}
	return ways
}

// Class is a class of the caches: a list with an object for each L3 cache, ascending by its id. The
// ways of each cache must be contiguous.
func Class[T any](name string, of func(*T) *cache.Class) Field[T] {
	return Slice(name, Object[cache.Share]{
		Number("l3", func(s *cache.Share) *int { return &s.Cache }).Always(),
		Ways("ways", func(s *cache.Share) *cache.Ways { return &s.Ways }),
		Number("bandwidth", func(s *cache.Share) *int { return &s.Bandwidth }),
	}, func(v *T) *[]cache.Share { return (*[]cache.Share)(of(v)) }, func(before, s *cache.Share) bool {
		return (before == nil || before.Cache < s.Cache) && s.Ways.Contiguous() && s.Bandwidth <= 100 && (s.Ways != 0 || s.Bandwidth > 0)
	})
}
