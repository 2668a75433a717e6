package resctrl

import (
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// Groups has the schemata of each group that exists, or that must exist, by its name. The default
// group has an empty name.
type Groups map[string]Schemata

// Step is one change. Without Schemata, the group is removed. A group that does not exist is made.
type Step struct {
	Group    string
	Schemata Schemata
	// Last is whether the group then contains what it must.
	Last bool
}

// Steps returns the changes from what is there to what is wanted, in the order of the package
// comment. The groups are the same in both except for those that are made or removed. Values of
// caches that only one of them has are not changed.
func Steps(rules machine.Caches, now, wanted Groups) []Step {
	s := steps{rules: rules, now: maps.Clone(now), wanted: wanted}
	if s.now == nil {
		s.now = Groups{}
	}
	names := slices.Sorted(maps.Keys(now))
	for _, name := range names {
		if _, stays := wanted[name]; !stays && name != "" {
			s.all = append(s.all, Step{Group: name, Last: true})
			delete(s.now, name)
		}
	}
	root, free := s.meet("", s.now[""])
	s.write("", root)
	var stuck []string
	for _, name := range names {
		if _, there := s.now[name]; !there || name == "" {
			continue
		}
		next, complete := s.meet(name, s.now[""])
		s.write(name, next)
		if !complete {
			stuck = append(stuck, name)
		}
	}
	if !free {
		root, _ = s.meet("", wanted[""])
		s.write("", root)
	}
	for _, name := range stuck {
		if next, _ := s.meet(name, s.now[""]); !next.Equal(s.now[name]) {
			s.write(name, next)
		}
	}
	later := slices.Sorted(maps.Keys(wanted))
	for _, name := range later {
		if name != "" {
			s.write(name, s.sharing(wanted[name]))
		}
	}
	for _, name := range later { // The default group comes first.
		s.write(name, wanted[name])
	}
	return s.all
}

// sharing returns what a group must have, with what the default group has at present where it
// shares that.
func (s *steps) sharing(goal Schemata) Schemata {
	next := slices.Clone(goal)
	for i, e := range goal {
		now, has := s.now[""].Of(e)
		if final, _ := s.wanted[""].Of(e); has && e.Value == final {
			next[i].Value = now
		}
	}
	return next
}

// steps is one invocation of Steps. now is what the groups contain after the steps so far.
type steps struct {
	rules       machine.Caches
	now, wanted Groups
	all         []Step
}

// meet returns what a group has now and also must have. Where that is not valid, it has the value
// of instead, and complete is false.
func (s *steps) meet(name string, instead Schemata) (next Schemata, complete bool) {
	next, complete = slices.Clone(s.now[name]), true
	for i, e := range next {
		goal, has := s.wanted[name].Of(e)
		switch {
		case !has || goal == e.Value:
		case !e.hasWays():
			next[i].Value = min(e.Value, goal)
		case isValid(e.ways()&Entry{Value: goal}.ways(), s.rules):
			next[i].Value = e.Value & goal
		default:
			complete = false
			if value, has := instead.Of(e); has {
				next[i].Value = value
			}
		}
	}
	return next, complete
}

// write adds a step, if it changes anything.
func (s *steps) write(name string, next Schemata) {
	now, there := s.now[name]
	if there && now.Equal(next) || name == "" && !there {
		return
	}
	s.now[name] = next
	s.all = append(s.all, Step{name, next, next.Equal(s.wanted[name])})
}
