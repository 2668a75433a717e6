package quiet

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// Resctrl is in front of the names of files of the kernel's resctrl.
const Resctrl = "resctrl"

const schemataBase = "schemata"

// DefaultClassFile is the name of the file with what the default class has.
const DefaultClassFile = Resctrl + "/" + schemataBase

// ClassFile returns the name of the file with what a group has. Its value is empty while there is
// no such group.
func ClassFile(group string) string { return path.Join(Resctrl, group, schemataBase) }

// GroupOf returns the group of a file of DefaultClass or CacheClass. The default group has no name.
func GroupOf(file string) string {
	return strings.Trim(strings.TrimPrefix(path.Dir(file), Resctrl), "/")
}

// classKind returns the kind of a file of resctrl. Files of groups that are not Paddock's are never
// written.
func classKind(name string) Kind {
	switch {
	case name == DefaultClassFile:
		return DefaultClass
	case path.Base(name) == schemataBase && name == ClassFile(GroupOf(name)) && resctrl.IsOurs(GroupOf(name)):
		return CacheClass
	}
	return ""
}

// IsClass reports whether a file is one of resctrl.
func (k Kind) IsClass() bool { return k == DefaultClass || k == CacheClass }

// Caches are the classes of the caches that the agent has given to containers.
type Caches struct {
	resctrl.Division
	// For are the containers in each group, by its name.
	For map[string][]string
	// Others has what the groups contain that are not Paddock's, by their names.
	Others map[string]resctrl.Schemata
}

// schemataOf returns the schemata that a value of Value describes.
func schemataOf(value string) resctrl.Schemata {
	s, _ := resctrl.Parse(value) // Value has checked it.
	return s
}

// classes decides what the files of resctrl must contain.
func (w *wanting) classes(caches *Caches) {
	before, mounted := w.base[DefaultClassFile]
	for name, value := range w.base {
		if KindOf(name).IsClass() {
			w.wanted[name] = Wanted{Value: value}
		}
	}
	if caches == nil {
		return
	}
	if !mounted {
		if len(caches.Groups) > 0 {
			w.note("containers have classes of the caches, and resctrl is not mounted: mount it with mount -t resctrl resctrl /sys/fs/resctrl")
		}
		return
	}
	root, groups := caches.Want(schemataOf(before))
	if value := root.String(); value != before {
		var of []string
		for _, name := range slices.Sorted(maps.Keys(caches.Groups)) {
			of = append(of, caches.For[name]...)
		}
		w.wanted[DefaultClassFile] = Wanted{value, of}
	}
	for name := range w.base {
		if KindOf(name) == CacheClass {
			group := GroupOf(name)
			w.wanted[name] = Wanted{groups[group].String(), caches.For[group]} // Without a class, the group is removed.
		}
	}
	w.compareOthers(caches)
}

// compareOthers notes the groups of others that have ways of a class.
func (w *wanting) compareOthers(caches *Caches) {
	for _, other := range slices.Sorted(maps.Keys(caches.Others)) {
		for _, name := range slices.Sorted(maps.Keys(caches.Groups)) {
			if common := resctrl.Own(caches.Groups[name], caches.Rules).Common(caches.Others[other]); common != "" {
				w.note(fmt.Sprintf("cache class %s of %s: the group %s of resctrl has %s too, and is not Paddock's: remove it, or give it other ways",
					name, strings.Join(caches.For[name], ", "), other, common))
			}
		}
	}
}

// waits reports whether a group must wait for the default class, which is left alone for now: it
// still has ways that the group must have for itself. A container with a few ways that all
// others use too has less than one in the default class.
func (p *Plan) waits(name string) bool {
	if KindOf(name) != CacheClass || slices.Contains(p.classes, DefaultClassFile) {
		return false
	}
	has, must := schemataOf(p.now[DefaultClassFile]), schemataOf(p.Wanted[DefaultClassFile].Value)
	return slices.ContainsFunc(schemataOf(p.Wanted[name].Value), func(e resctrl.Entry) bool {
		now, _ := has.Of(e)
		later, _ := must.Of(e)
		return e.Resource != "MB" && e.Value&now&^later != 0
	})
}

// steps adds the writes of the files of resctrl that change.
func (p *Plan) steps(s *Situation) {
	p.classes = slices.DeleteFunc(p.classes, func(name string) bool {
		if !p.waits(name) {
			return false
		}
		if p.now[name] == "" {
			delete(p.Records, name)
		}
		group := GroupOf(name)
		p.Problems = append(p.Problems, Problem{File: name, Text: fmt.Sprintf("cache class %s of %s waits until the default class gives up the ways: see %s", group, strings.Join(p.Wanted[name].For, ", "), DefaultClassFile)})
		return true
	})
	if len(p.classes) == 0 {
		return
	}
	now, wanted := resctrl.Groups{}, resctrl.Groups{}
	for name, value := range s.Now {
		kind := KindOf(name)
		if !kind.IsClass() {
			continue
		}
		final := value // What rests or is settled stays as it is.
		if slices.Contains(p.classes, name) {
			final = p.Wanted[name].Value
		}
		if kind == DefaultClass || value != "" {
			now[GroupOf(name)] = schemataOf(value)
		}
		if kind == DefaultClass || final != "" {
			wanted[GroupOf(name)] = schemataOf(final)
		}
	}
	var division resctrl.Division
	if s.Caches != nil {
		division = s.Caches.Division
	}
	for i, step := range resctrl.Steps(division.Rules, now, wanted) {
		file := ClassFile(step.Group)
		if value := step.Schemata.String(); slices.Contains(p.classes, file) {
			p.Writes = append(p.Writes, Write{File: file, Value: value, Text: KindOf(file).Text(value), Last: step.Last, rank: 7, depth: i})
		}
	}
}

// classBase returns the record of a file of resctrl for what the file contains now. A cache whose
// CPUs went offline has left the file, and one whose CPUs came online has every way again
// (arch/x86/kernel/cpu/resctrl/core.c, domain_setup_ctrlval): neither is the work of another
// program. What another program wrote to the default class is the base from now on, cache by
// cache.
func (r Record) classBase(kind Kind, found string) Record {
	now, before, wrote, next := schemataOf(found), schemataOf(r.Before), schemataOf(r.Wrote), schemataOf(r.Next)
	r.Wrote, r.Next = like(wrote, now).String(), like(next, now).String()
	if kind == CacheClass {
		return r
	}
	base := like(before, now)
	for i, e := range now {
		wrote, next := like(wrote, now)[i].Value, like(next, now)[i].Value
		ours := e.Value == base[i].Value || e.Value == wrote || r.Pending && (e.Value == next || between(e, wrote, next))
		if !ours {
			base[i].Value = e.Value
		}
	}
	r.Before = base.String()
	return r
}

// between reports whether a value can be one between two that were written: some of the ways of
// both. A limit of the bandwidth has none in between.
func between(e resctrl.Entry, wrote, next uint64) bool {
	return e.Resource != "MB" && cache.Ways(e.Value)&^cache.Ways(wrote|next) == 0 //nolint:gosec // Ways have 32 bits.
}

// like returns values for exactly the caches of now: those of s, or else those of now.
func like(s, now resctrl.Schemata) resctrl.Schemata {
	all := slices.Clone(now)
	for i, e := range all {
		if value, has := s.Of(e); has {
			all[i].Value = value
		}
	}
	return all
}
