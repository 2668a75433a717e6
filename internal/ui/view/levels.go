package view

import (
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// Level is one kind of unit of a machine, with all its units.
type Level struct {
	Kind  Kind
	Units []machine.Unit
}

// Kind is the name of a level.
type Kind string

// The kinds.
const (
	Socket Kind = "socket"
	NUMA   Kind = "NUMA node"
	Uncore Kind = "uncore cache"
)

// Levels returns the kinds of units of a machine from the outside to the inside: sockets, NUMA
// nodes, and uncore caches if they differ from both. If a NUMA node spans sockets, NUMA nodes come
// first.
func Levels(m *machine.Machine) []Level {
	sockets, nodes := Level{Socket, m.Sockets()}, Level{NUMA, m.CPUNodes()}
	levels := []Level{sockets, nodes}
	if slices.ContainsFunc(nodes.Units, func(n machine.Unit) bool { return len(Inside(sockets.Units, n.CPUs)) > 1 }) {
		levels = []Level{nodes, sockets}
	}
	// Machines that report no uncore caches have their sockets instead.
	if uncores := m.Uncores(); !sameUnits(uncores, sockets.Units) && !sameUnits(uncores, nodes.Units) {
		levels = append(levels, Level{Uncore, uncores})
	}
	return levels
}

// sameUnits reports whether a and b divide the machine in the same way.
func sameUnits(a, b []machine.Unit) bool {
	sorted := func(units []machine.Unit) []machine.Unit {
		units = slices.Clone(units)
		slices.SortFunc(units, func(a, b machine.Unit) int { return a.CPUs.Lowest() - b.CPUs.Lowest() })
		return units
	}
	return slices.EqualFunc(sorted(a), sorted(b), func(a, b machine.Unit) bool { return a.CPUs.Equal(b.CPUs) })
}

// Inside returns the parts of units that are in cpus, without empty ones.
func Inside(units []machine.Unit, cpus cpuset.Set) []machine.Unit {
	var parts []machine.Unit
	for _, u := range units {
		if part := u.CPUs.Intersection(cpus); !part.IsEmpty() {
			parts = append(parts, machine.Unit{ID: u.ID, CPUs: part, Size: part.Len()})
		}
	}
	return parts
}
