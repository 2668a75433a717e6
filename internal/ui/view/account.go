package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Account returns a sentence about what is missing on the places, and one for each reservation that
// keeps the pods off.
func (s *FleetScarce) Account() []string {
	lines := s.apart()
	total := s.NUMANodes + s.Nodes
	if total == 0 {
		return lines
	}
	lines = append(lines, strings.Join(s.parts(total), "; "))
	for _, r := range s.Reserved {
		lines = append(lines, fmt.Sprintf("%s keep %s off %s of %s, however empty", reservedWords(r), wantedWord(explain.Amount{Resource: r.Resource, Value: r.Wanted}), Number(r.Places), s.places()))
	}
	return lines
}

// parts describes the missing resources, and the reasons that keep the pods off, with the number of
// places of each. They are in the order in which a reader can act on them.
func (s *FleetScarce) parts(total int) (parts []string) {
	on := func(places int) string {
		switch {
		case len(parts) > 0:
			return Number(places)
		case places == total:
			return s.all()
		}
		return Number(places) + " of " + s.places()
	}
	for _, l := range s.Missing {
		if l.Alone > 0 {
			least := missingWord(explain.Amount{Resource: l.Resource, Value: l.Least})
			parts = append(parts, fmt.Sprintf("only %s %s missing on %s, %s at least", noun(l.Resource), is(l.Resource), on(l.Alone), least))
		}
	}
	several := len(parts) > 0 // Else the resources themselves are named.
	if together := s.together(); !several && together != "" {
		parts = append(parts, together)
	}
	if several && s.Several > 0 {
		what := "several are missing on "
		if slices.ContainsFunc(s.Bars, func(b FleetBar) bool { return b.WithAmounts > 0 }) {
			what = "several reasons keep them off "
		}
		parts = append(parts, what+on(s.Several))
	}
	if s.Nothing > 0 {
		what := "nothing is missing on "
		if s.NUMANodes == 0 {
			what = "enough is free, but no split over NUMA nodes is admitted, on "
		}
		parts = append(parts, what+on(s.Nothing))
	}
	for _, b := range s.Bars {
		places := b.Alone
		if !several {
			places += b.WithAmounts
		}
		if places > 0 {
			parts = append(parts, b.words()+on(places))
		}
	}
	return parts
}

// together describes the missing resources if none of them is missing alone, beginning with those
// that are missing on the most places. It returns "" if none is missing.
func (s *FleetScarce) together() string {
	total := s.NUMANodes + s.Nodes
	var everywhere, elsewhere []string
	for i, l := range s.Missing {
		switch {
		case l.WithOthers == total:
			everywhere = append(everywhere, noun(l.Resource))
		case i == 0:
			elsewhere = append(elsewhere, fmt.Sprintf("%s %s missing on %s of %s", noun(l.Resource), is(l.Resource), Number(l.WithOthers), s.places()))
		default:
			elsewhere = append(elsewhere, noun(l.Resource)+" on "+Number(l.WithOthers))
		}
	}
	switch {
	case len(s.Missing) == 0:
		return ""
	case len(everywhere) == 0:
		return and(elsewhere) + ", but never alone"
	}
	verb, beside := is(s.Missing[0].Resource), "it"
	if len(everywhere) > 1 {
		verb, beside = "are", "them"
	}
	text := fmt.Sprintf("%s %s missing on %s", and(everywhere), verb, s.all())
	if len(elsewhere) > 0 {
		text += ", and beside " + beside + " " + and(elsewhere)
	}
	return text
}

// words describes the reason, before a number of places.
func (b FleetBar) words() string {
	switch b.Reason {
	case explain.BarredByGroup:
		return "memory belongs to another group of NUMA nodes on "
	case explain.BarredByDevices:
		return "devices were chosen near other NUMA nodes, which keeps them off "
	case explain.BarredByCores:
		return "the CPUs are no whole number of cores, which keeps them off "
	case explain.BarredByPod:
	}
	return "what init containers leave, or an empty pool, keeps them off "
}

// reservedWords describes a reservation: "2 reserved CPUs".
func reservedWords(r FleetReserved) string {
	if r.Resource == request.CPU {
		return Count(int(r.Reserved), "reserved CPU")
	}
	return request.Words(r.Resource, r.Reserved) + " reserved for the system"
}

// apart describes the nodes that do not count as places.
func (s *FleetScarce) apart() (lines []string) {
	if s.NotAllowed > 0 {
		lines = append(lines, "node selector, affinity or taints keep them off "+Nodes(s.NotAllowed))
	}
	if s.Ruled > 0 {
		lines = append(lines, "topology spread or affinity between pods keeps them off "+Nodes(s.Ruled))
	}
	if s.Limited > 0 {
		lines = append(lines, "the limit of the workload per node keeps them off "+Nodes(s.Limited))
	}
	if s.Unknown > 0 {
		lines = append(lines, "not counted on "+Nodes(s.Unknown)+": the pod is rejected before its resources are compared")
	}
	return lines
}

// Text describes a smaller request for the pods of a shape.
func (x *FleetSmaller) Text(of *FleetScarce) string {
	who := "at pod level"
	if x.Container != "" {
		who = "in container " + x.Container
	}
	takes, which := "the fleet takes ", grouped(x.Pods)+" of them"
	switch {
	case of.Empty:
		takes, which = "an empty node takes ", ofThese(of.Pods, of.Pods)
	case x.Pods == of.Pods:
		if which = "all of them"; of.Pods == 1 {
			which = "it"
		}
	case x.AtLeast:
		which = "at least " + which
	}
	return fmt.Sprintf("%s %s: %s%s", x.Instead(), who, takes, which)
}
