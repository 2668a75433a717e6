package inputs

import (
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Uncounted removes from the pods the resources that no kind of node lists, and returns notes about
// them. As for one node, nothing is decided about such a resource. If a kind lists devices, pods
// keep the extended resources that no kind lists, and do not fit. Node objects list all resources,
// so that nothing is removed where the nodes come from them.
func (f *FleetNodes) Uncounted(pods []*fleet.Pod) (notes []string) {
	if f.Running || len(f.Stock) > 0 {
		return nil // The Node objects list all that there is.
	}
	listed := f.extended()
	names := map[string]bool{}
	for _, p := range pods {
		kept := request.Amounts(nil)
		for _, a := range p.Asks.Others {
			counted := request.IsMemory(a.Resource) || f.lists(a.Resource)
			missing := !counted && isExtended(a.Resource) && len(listed) > 0
			if counted || missing {
				kept = append(kept, a)
			}
			if !counted {
				names[a.Resource] = missing
			}
		}
		p.Asks.Others = kept
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		missing := names[name]
		if !missing && !slices.Contains(f.NotCounted, name) {
			f.NotCounted = append(f.NotCounted, name)
		}
		notes = append(notes, unlistedNote(name, missing, listed))
	}
	slices.Sort(f.NotCounted)
	return notes
}

// unlistedNote returns a note about a resource that no node lists. If it is missing, pods that ask
// for it do not fit.
func unlistedNote(name string, missing bool, listed []string) string {
	note := "no node lists " + name + ", which pods ask for: "
	if !missing {
		return note + "it is not counted, and nothing is aligned with it; " +
			spelling.InsteadOfUnlisted([]string{name}, "add devices to a kind of node (see examples/devices)")
	}
	return note + "these pods fit nowhere; " + spelling.InsteadOfResource(name, listed, "add it to the devices of a kind of node, if it has them")
}

// extended returns the extended resources that the kinds list.
func (f *FleetNodes) extended() []string {
	names := map[string]bool{}
	for _, k := range f.Kinds {
		for _, a := range k.Allocatable.Others {
			if isExtended(a.Resource) {
				names[a.Resource] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func isExtended(resource string) bool { return strings.Contains(resource, "/") }

func (f *FleetNodes) lists(resource string) bool {
	return slices.ContainsFunc(f.Kinds, func(k capacity.Kind) bool {
		_, has := k.Allocatable.Others.Get(resource)
		return has
	})
}
