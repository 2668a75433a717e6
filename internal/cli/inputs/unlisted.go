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

// DeviceNotes returns notes about the extended resources that pods ask for and with which nothing
// is aligned, because no kind of node lists them, or because the NUMA nodes of devices are not
// given. It removes from the pods those that no kind lists.
func (f *FleetNodes) DeviceNotes(pods []*fleet.Pod) []string {
	return append(f.uncounted(pods), f.unplaced(pods)...)
}

// unplaced returns a note for each resource of a kind of node that pods ask for and of which the
// NUMA nodes of devices are not given.
func (f *FleetNodes) unplaced(pods []*fleet.Pod) (notes []string) {
	asked := map[string]bool{}
	for _, p := range pods {
		for _, a := range p.Asks.Others {
			asked[a.Resource] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		for _, k := range f.Kinds {
			note := k.State.UnplacedNote(name)
			advice := "; list them in the devices of the node with numaNodes, which is [] where the device plugin reports none"
			if slices.Contains(f.Stock, k.Name) {
				advice = "; collect the node again with curl on it, or name in a file for --nodes its state and its devices"
			}
			if _, counted := k.Allocatable.Others.Get(name); counted && isExtended(name) && !k.State.Devices().Inventory().Has(name) {
				note = "it is not known which devices of " + name + " are free: they are counted, and nothing is aligned with them"
				advice = "; put a copy of /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint into the folder"
			}
			if note == "" {
				continue
			}
			if !slices.Contains(f.Unplaced, name) {
				f.Unplaced = append(f.Unplaced, name)
			}
			notes = append(notes, k.Name+": "+note+advice)
		}
	}
	slices.Sort(f.Unplaced)
	return notes
}

// uncounted removes from the pods the resources that no kind of node lists, and returns notes about
// them. As for one node, nothing is decided about such a resource. If a kind lists devices, pods
// keep the extended resources that no kind lists, and do not fit. Node objects list all resources,
// so that nothing is removed where the nodes come from them.
func (f *FleetNodes) uncounted(pods []*fleet.Pod) (notes []string) {
	if f.Running || len(f.Stock) > 0 {
		return nil // The Node objects list all that there is.
	}
	listed := f.extended()
	names := map[string]bool{}
	for _, p := range pods {
		all := []*request.Amounts{&p.Asks.Others}
		for i := range p.Readings {
			all = append(all, &p.Readings[i].Asks.Others)
		}
		for _, of := range all {
			kept := request.Amounts(nil)
			for _, a := range *of {
				counted := request.IsMemory(a.Resource) || f.lists(a.Resource)
				missing := !counted && isExtended(a.Resource) && len(listed) > 0
				if counted || missing {
					kept = append(kept, a)
				}
				if !counted {
					names[a.Resource] = missing
				}
			}
			*of = kept
		}
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
