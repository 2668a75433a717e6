package resctrl

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Division is how the caches of a node are divided among classes.
type Division struct {
	// Rules are what the machine can divide.
	Rules machine.Caches
	// Rest has what the default class has of each cache while there are classes.
	Rest []cache.Share
	// Groups has the class of each group, by its name.
	Groups map[string]cache.Class
}

// Want returns what the default group and every other group must contain. base is what the default
// group would contain without Paddock. It has the caches that are online.
func (d *Division) Want(base Schemata) (root Schemata, groups map[string]Schemata) {
	root = slices.Clone(base)
	for i, e := range root {
		root[i].Value = d.left(e)
	}
	groups = make(map[string]Schemata, len(d.Groups))
	for name, class := range d.Groups {
		s := slices.Clone(root)
		for i, e := range s {
			s[i].Value = d.own(e, class)
		}
		groups[name] = s
	}
	return root, groups
}

// left returns what the default group has of a cache.
func (d *Division) left(e Entry) uint64 {
	i := slices.IndexFunc(d.Rest, func(s cache.Share) bool { return s.Cache == e.Cache })
	if i < 0 {
		return e.Value
	}
	rest := d.Rest[i]
	for _, class := range d.Groups {
		share, _ := class.Share(e.Cache)
		switch {
		case e.hasWays() && share.Ways != 0:
			// Who set fewer ways for the default group keeps them, as far as no class has them.
			if both := e.ways() & rest.Ways; isValid(both, d.Rules) {
				return uint64(both)
			}
			return uint64(rest.Ways)
		case d.limits(e) && share.Bandwidth > 0:
			return min(e.Value, uint64(max(0, rest.Bandwidth)))
		}
	}
	return e.Value
}

// own returns what a group has of a cache. e is that of the default group.
func (d *Division) own(e Entry, class cache.Class) uint64 {
	share, _ := class.Share(e.Cache)
	switch {
	case !slices.ContainsFunc(d.Rest, func(s cache.Share) bool { return s.Cache == e.Cache }):
		return e.Value // The default group has all of it.
	case e.hasWays() && share.Ways != 0:
		return uint64(share.Ways)
	case d.limits(e) && share.Bandwidth > 0:
		return uint64(share.Bandwidth)
	}
	return e.Value
}

// limits reports whether e is a limit of the bandwidth in percent, as those of classes are. If
// resctrl is mounted again with mba_MBps, the limits are in MiB/s, and 20 would nearly stop a
// program.
func (d *Division) limits(e Entry) bool {
	return !e.hasWays() && d.Rules.DividesBandwidth() && e.Value <= 100
}

// Own returns the values that a class has for itself. A runtime may write them whatever else there
// is: no other class has them, and a group that lacks one keeps what the kernel gave it.
func Own(class cache.Class, rules machine.Caches) Schemata {
	var s Schemata
	for _, share := range class {
		if share.Ways != 0 && rules.Ways > 0 {
			for _, resource := range map[bool][]string{false: {l3}, true: {l3Code, l3Data}}[rules.CodeAndData] {
				s = append(s, Entry{resource, share.Cache, uint64(share.Ways)})
			}
		}
		if share.Bandwidth > 0 && rules.DividesBandwidth() {
			s = append(s, Entry{bandwidth, share.Cache, uint64(share.Bandwidth)})
		}
	}
	slices.SortFunc(s, compare)
	return s
}

// isValid reports whether the kernel accepts ways (fs/resctrl/ctrlmondata.c, cbm_validate): not
// none, at least the least number in the lowest run, and contiguous where that is required.
func isValid(w cache.Ways, rules machine.Caches) bool {
	if w == 0 || !rules.Sparse && !w.Contiguous() {
		return false
	}
	least := max(1, rules.LeastWays)
	lowest := w & -w
	run := cache.Ways(uint64(lowest) * (1<<least - 1)) //nolint:gosec // Ways above 32 are cut off, and checked below.
	return w&run == run && run.Len() == least
}
