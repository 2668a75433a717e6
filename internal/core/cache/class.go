package cache

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Want is what a class has of each cache that its CPUs use, in the units of the machine.
type Want struct {
	// Ways is the number of ways. Zero means that the class uses the ways of the default class.
	Ways int
	// Bandwidth is the part of the memory bandwidth in percent. Zero means that the class has the
	// limit of the default class.
	Bandwidth int
}

// IsZero reports whether nothing is wanted: there is no class then.
func (w Want) IsZero() bool { return w == Want{} }

// Amount returns how much of a resource is wanted.
func (w Want) Amount(resource request.Resource) int64 {
	switch resource {
	case request.L3:
		return int64(w.Ways)
	case request.Bandwidth:
		return int64(w.Bandwidth)
	}
	return 0
}

// Words returns what is wanted as in a sentence: "4 ways of L3 and 20% of the memory bandwidth".
func (w Want) Words() string {
	var parts []string
	for _, r := range []request.Resource{request.L3, request.Bandwidth} {
		if n := w.Amount(r); n > 0 {
			parts = append(parts, request.Words(r, n))
		}
	}
	return strings.Join(parts, " and ")
}

// Resolve returns what an ask means on a machine: at least the smallest class that it allows, and a
// limit of the bandwidth that it knows, both rounded up. The error states what the machine does not
// have.
func Resolve(ask request.Cache, m *machine.Machine) (Want, error) {
	c, w := m.Caches(), Want{}
	if n := ask.Ways; n > 0 || ask.Percent > 0 {
		if c.Ways == 0 || c.Classes < 2 {
			return w, fmt.Errorf("%s: the L3 caches of this machine cannot be divided", ask)
		}
		if ask.Percent > 0 {
			n = (ask.Percent*c.Ways + 99) / 100
		}
		w.Ways = max(n, c.LeastWays)
		if most := (allWays(c) &^ core(c)).Longest(); w.Ways > most {
			return w, fmt.Errorf("%s: a class can have at most %d of the %d ways of an L3 cache here; the others are %s, which hardware uses too or the default class keeps", ask, most, c.Ways, core(c))
		}
	}
	if ask.Bandwidth > 0 {
		switch most := 100 - c.LeastBandwidth; {
		case c.AbsoluteBandwidth:
			return w, fmt.Errorf("%s: this processor limits memory bandwidth in GB/s and not in percent, so that it cannot be divided", ask)
		case !c.DividesBandwidth() || c.Classes < 2:
			return w, fmt.Errorf("%s: this machine cannot limit memory bandwidth", ask)
		default:
			w.Bandwidth = max(c.LeastBandwidth, (ask.Bandwidth+c.BandwidthStep-1)/c.BandwidthStep*c.BandwidthStep)
			if w.Bandwidth > most {
				return w, fmt.Errorf("%s: a class can have at most %d%% of the memory bandwidth here, because the default class keeps %d%%", ask, most, c.LeastBandwidth)
			}
		}
	}
	return w, nil
}

// Longest returns the length of the longest run of contiguous ways.
func (w Ways) Longest() int {
	most := 0
	for _, n := range w.runs {
		most = max(most, n)
	}
	return most
}

// Share is what a class has of one cache.
type Share struct {
	// Cache is the id of the cache.
	Cache int
	// Ways are contiguous. Zero means those of the default class.
	Ways Ways
	// Bandwidth is in percent. Zero means the limit of the default class.
	Bandwidth int
}

// Class is what one container, or the containers that share a pool, has for itself: a share of each
// cache that its CPUs use, ascending by id. A class without shares is no class.
type Class []Share

// Share returns the share of a cache.
func (c Class) Share(cache int) (Share, bool) {
	i, found := slices.BinarySearchFunc(c, cache, func(s Share, id int) int { return cmp.Compare(s.Cache, id) })
	if !found {
		return Share{}, false
	}
	return c[i], true
}

// Equal reports whether both classes have the same shares.
func (c Class) Equal(d Class) bool { return slices.Equal(c, d) }

// Over returns the shares of c, and those of d in caches of which c has none. It is the class of a
// container that is on its way from one place to another.
func (c Class) Over(d Class) Class {
	if len(d) == 0 {
		return c
	}
	all := slices.Clone(c)
	for _, s := range d {
		if _, has := c.Share(s.Cache); !has {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Share) int { return cmp.Compare(a.Cache, b.Cache) })
	return all
}

// With returns what both classes take together: in a cache of which both have a share, the ways of
// both and the larger part of the bandwidth. The ways need not be contiguous.
func (c Class) With(d Class) Class {
	all := slices.Clone(c.Over(d))
	for i := range all {
		if s, has := d.Share(all[i].Cache); has {
			all[i].Ways |= s.Ways
			all[i].Bandwidth = max(all[i].Bandwidth, s.Bandwidth)
		}
	}
	return all
}

// Beyond returns what c takes and d does not.
func (c Class) Beyond(d Class) Class {
	var more Class
	for _, s := range c {
		if had, has := d.Share(s.Cache); has {
			s.Ways &^= had.Ways
			s.Bandwidth = max(0, s.Bandwidth-had.Bandwidth)
		}
		if s.Ways != 0 || s.Bandwidth > 0 {
			more = append(more, s)
		}
	}
	return more
}

// String returns the class in one line: "L3 0: ways 0-3, 20%; L3 1: ways 4-7", or "none".
func (c Class) String() string {
	if len(c) == 0 {
		return "none"
	}
	parts := make([]string, len(c))
	for i, s := range c {
		parts[i] = s.String()
	}
	return strings.Join(parts, "; ")
}

// String returns the share in one line.
func (s Share) String() string {
	var parts []string
	if s.Ways != 0 {
		word := "ways "
		if s.Ways.Len() == 1 {
			word = "way "
		}
		parts = append(parts, word+s.Ways.String())
	}
	if s.Bandwidth > 0 {
		parts = append(parts, fmt.Sprintf("%d%% of the memory bandwidth", s.Bandwidth))
	}
	return fmt.Sprintf("L3 %d: %s", s.Cache, strings.Join(parts, ", "))
}
