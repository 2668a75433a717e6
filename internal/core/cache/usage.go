package cache

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// ErrNotFree is wrapped by the errors of Take.
var ErrNotFree = errors.New("class cannot be taken")

// Floor is the number of ways that the default class always keeps, where caches have twice as many:
// with a single way, every second line of memory would push out the one before.
const Floor = 2

// Usage is what classes have of the caches of a machine. The zero Usage has no caches.
type Usage struct {
	// of never changes. It is nil if the machine divides nothing, so that a usage costs one word
	// where plans copy it.
	of *usage
}

type usage struct {
	m *machine.Machine
	// taken is parallel to the machine's L3s.
	taken []taken
	// classes is the number of classes, without the default one.
	classes int
}

type taken struct {
	ways      Ways
	bandwidth int
}

// NewUsage returns the usage of a machine without classes.
func NewUsage(m *machine.Machine) Usage {
	if m.Caches().Classes < 2 {
		return Usage{}
	}
	return Usage{&usage{m: m, taken: make([]taken, len(m.L3s()))}}
}

// Divides reports whether the machine can have classes.
func (u Usage) Divides() bool { return u.of != nil }

// Classes returns the number of classes, without the default one, and how many there can be.
func (u Usage) Classes() (used, most int) {
	if u.of == nil {
		return 0, 0
	}
	return u.of.classes, u.of.m.Caches().Classes - 1
}

// Take adds a class. If a way or a part of the bandwidth is not free, Take returns an error and
// adds nothing. A class without shares adds nothing.
func (u Usage) Take(c Class) (Usage, error) {
	if used, most := u.Classes(); len(c) > 0 && u.of != nil && used >= most {
		return u, fmt.Errorf("%w: all %d classes of the machine are in use", ErrNotFree, most)
	}
	return u.take(c, 1)
}

// take adds shares, and a number of classes.
func (u Usage) take(c Class, classes int) (Usage, error) {
	if len(c) == 0 || u.of == nil {
		return u, nil
	}
	n := u.with(c, 1, classes)
	rules := u.of.m.Caches()
	for _, s := range c {
		i := u.of.index(s.Cache)
		switch {
		case i < 0:
		case s.Ways&u.of.taken[i].ways != 0:
			return u, fmt.Errorf("%w: another class has ways %s of L3 %d", ErrNotFree, s.Ways&u.of.taken[i].ways, s.Cache)
		case s.Ways&core(rules) != 0 || s.Ways&^allWays(rules) != 0:
			return u, fmt.Errorf("%w: classes cannot have ways %s of L3 %d", ErrNotFree, s.Ways&core(rules)|s.Ways&^allWays(rules), s.Cache)
		case classes > 0 && s.Ways != 0 && s.Ways.Len() < rules.LeastWays:
			return u, fmt.Errorf("%w: the processor gives a class at least %d ways of an L3 cache, and it has ways %s of L3 %d", ErrNotFree, rules.LeastWays, s.Ways, s.Cache)
		case s.Bandwidth > 0 && (!rules.DividesBandwidth() || rules.AbsoluteBandwidth):
			return u, fmt.Errorf("%w: the machine does not limit memory bandwidth in percent, and it has %d%% of that of L3 %d", ErrNotFree, s.Bandwidth, s.Cache)
		case s.Bandwidth < 0 || s.Bandwidth > 0 && n.of.taken[i].bandwidth > 100-rules.LeastBandwidth:
			return u, fmt.Errorf("%w: the classes of L3 %d would have %d%% of the memory bandwidth", ErrNotFree, s.Cache, n.of.taken[i].bandwidth)
		}
	}
	return n, nil
}

// Return takes away a class that was taken.
func (u Usage) Return(c Class) Usage {
	if len(c) == 0 || u.of == nil {
		return u
	}
	return u.with(c, -1, -1)
}

// Narrow takes away shares that were added to a class.
func (u Usage) Narrow(c Class) Usage {
	if len(c) == 0 || u.of == nil {
		return u
	}
	return u.with(c, -1, 0)
}

// with adds the shares of a class, or takes them away if sign is -1, and adds a number of classes.
func (u Usage) with(c Class, sign, classes int) Usage {
	n := &usage{m: u.of.m, taken: slices.Clone(u.of.taken), classes: u.of.classes + classes}
	for _, s := range c {
		if i := n.index(s.Cache); i >= 0 {
			t := &n.taken[i]
			t.bandwidth += sign * s.Bandwidth
			if t.ways |= s.Ways; sign < 0 {
				t.ways &^= s.Ways
			}
		}
	}
	return Usage{n}
}

// Equal reports whether the same ways and parts are taken, by as many classes.
func (u Usage) Equal(v Usage) bool {
	if u.of == nil || v.of == nil {
		return u.of == v.of
	}
	return u.of.classes == v.of.classes && slices.Equal(u.of.taken, v.of.taken)
}

// index returns the position of a cache in taken, or -1.
func (u *usage) index(cache int) int {
	return slices.IndexFunc(u.m.L3s(), func(c machine.Unit) bool { return c.ID == cache })
}

// Within returns the shares of the caches that CPUs use. It returns c if that is all of them.
func (u Usage) Within(c Class, cpus cpuset.Set) Class {
	unused := func(s Share) bool {
		i := u.of.index(s.Cache)
		return i < 0 || !u.of.m.L3s()[i].CPUs.Intersects(cpus)
	}
	if u.of == nil || !slices.ContainsFunc(c, unused) {
		return c
	}
	return slices.DeleteFunc(slices.Clone(c), unused)
}

// Missing returns the ids of the caches that CPUs use and of which a class has no share.
func (u Usage) Missing(c Class, cpus cpuset.Set) []int {
	if u.of == nil {
		return nil
	}
	var ids []int
	for _, cache := range u.of.m.L3s() {
		if _, has := c.Share(cache.ID); !has && cache.CPUs.Intersects(cpus) {
			ids = append(ids, cache.ID)
		}
	}
	return ids
}

// TakeFree takes the shares of a class that are free, and returns them. If widens is set, they are
// added to a class that was taken, and the number of classes stays.
func (u Usage) TakeFree(c Class, widens bool) (n Usage, free Class) {
	n = u
	used, most := u.Classes()
	if !widens && used >= most {
		return n, nil
	}
	for k := range c {
		classes := 0
		if !widens && len(free) == 0 {
			classes = 1
		}
		if next, err := n.take(c[k:k+1], classes); err == nil {
			n, free = next, append(free, c[k])
		}
	}
	return n, free
}

// Rest returns what the default class has of each cache: the ways that no class has and that are
// contiguous with those that it always keeps, and what is left of the bandwidth. Parts of a machine
// that divides nothing are zero.
func (u Usage) Rest() []Share {
	if u.of == nil {
		return nil
	}
	rest := make([]Share, len(u.of.taken))
	rules := u.of.m.Caches()
	for i := range rest {
		rest[i].Cache = u.of.m.L3s()[i].ID
		if rest[i].Ways = allWays(rules) &^ u.of.taken[i].ways; !rules.Sparse {
			rest[i].Ways = rest[i].Ways.runWith(core(rules))
		}
		if rules.DividesBandwidth() {
			rest[i].Bandwidth = max(rules.LeastBandwidth, 100-u.of.taken[i].bandwidth)
		}
	}
	return rest
}

// Kept returns the ways of every cache that the default class always has.
func (u Usage) Kept() Ways {
	if u.of == nil {
		return 0
	}
	return core(u.of.m.Caches())
}

// FreeWays returns the largest number of ways that a class could have of a cache, by its position
// in the machine's L3s. All is the number of ways that it could have of an empty one.
func (u Usage) FreeWays(i int) (free, all int) {
	rules := u.of.m.Caches()
	own := allWays(rules) &^ core(rules)
	return (own &^ u.of.taken[i].ways).Longest(), own.Longest()
}

// FreeBandwidth is FreeWays for the memory bandwidth, in percent.
func (u Usage) FreeBandwidth(i int) (free, all int) {
	rules := u.of.m.Caches()
	if !rules.DividesBandwidth() {
		return 0, 0
	}
	all = 100 - rules.LeastBandwidth
	return max(0, all-u.of.taken[i].bandwidth), all
}

func allWays(c machine.Caches) Ways { return Run(0, c.Ways) }

// core returns the ways that the default class always keeps.
func core(c machine.Caches) Ways {
	if c.Ways == 0 {
		return 0
	}
	n := c.LeastWays
	if c.Ways >= 2*Floor {
		n = max(n, Floor)
	}
	ways := Ways(c.HardwareWays) & allWays(c)
	if ways == 0 {
		return Run(c.Ways-n, n)
	}
	first, last := bits.TrailingZeros32(uint32(ways)), bits.Len32(uint32(ways)) // the run that has all of them
	if size := last - first; size < n {
		first = max(0, last-n)
		last = max(last, first+n)
	}
	return Run(first, last-first)
}
