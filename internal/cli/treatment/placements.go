package treatment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// maxPlacements bounds the number of placements that are planned. Eight devices have 9 placements
// on two NUMA nodes, 165 on four, and 6,435 on eight, which take 0.1 s for each pod or proposal.
const maxPlacements = 7000

// Placement is one possibility of where the devices are whose NUMA nodes are not known.
type Placement struct {
	// Text describes it, such as "with 2 on NUMA node 0 and 1 on NUMA node 1".
	Text  string
	State *node.State
}

// Placements returns a state in place of one that was made from State for each placement of the
// devices for which a pod asks and whose NUMA nodes are not known: each is near one NUMA node, or,
// if no device of the resource is known to be near any, all are near none. Devices of a resource
// are interchangeable for a verdict, so only their numbers matter. It returns the doubts that these
// placements are about. It returns nothing if there are more than maxPlacements, or if a pod that
// was planned before has such a device.
func (s *Shown) Placements(state *node.State, pod *request.Pod) ([]Placement, []view.Doubt, error) {
	if s.devices == nil {
		return nil, nil, nil
	}
	var doubts []view.Doubt
	all := []placement{{}}
	for _, resource := range resourcesOf(pod) {
		if len(s.devices.unplaced[resource]) == 0 || s.devices.counts[resource].Reason != "" {
			continue
		}
		ids, ok := s.freeOf(state, resource)
		if !ok {
			return nil, nil, nil
		}
		doubts = append(doubts, s.devices.doubts[resource])
		bins := append(state.Machine().NodeMask().Nodes(), nowhere)
		each := distributions(len(ids), len(bins)-1)
		if len(each) == 0 || len(all)*len(each) > maxPlacements {
			return nil, nil, nil
		}
		for i := range each {
			each[i] = append(each[i], 0)
		}
		if !slices.ContainsFunc(s.devices.inventory.Devices(resource), func(x device.Device) bool { return !x.Nodes.IsEmpty() }) {
			none := make([]int, len(bins))
			none[len(bins)-1] = len(ids)
			each = append(each, none)
		}
		var more []placement
		for _, p := range all {
			for _, counts := range each {
				more = append(more, p.with(resource, ids, bins, counts))
			}
		}
		all = more
	}
	if len(doubts) == 0 {
		return nil, nil, nil
	}
	out := make([]Placement, len(all))
	for i, p := range all {
		inventory, err := changed(state.Machine(), s.devices.inventory, func(resource string, x *device.Device) {
			if nodes, is := p.nodes[resource][x.ID]; is {
				x.Nodes, x.Unplaced = nodes, false
			}
			if known, is := state.Devices().Inventory().Device(resource, x.ID); is {
				x.Healthy = known.Healthy
			}
		})
		if err != nil {
			return nil, nil, err
		}
		if out[i].State, err = state.WithDevices(inventory); err != nil {
			return nil, nil, err
		}
		out[i].Text = p.text()
	}
	return out, doubts, nil
}

// freeOf returns the free devices of a resource whose NUMA nodes are not known. It returns false if
// a pod has one, which then is not like the others.
func (s *Shown) freeOf(state *node.State, resource string) ([]string, bool) {
	free := state.Devices().Free(resource)
	var ids []string
	for _, id := range s.devices.unplaced[resource] {
		switch x, _ := state.Devices().Inventory().Device(resource, id); {
		case slices.Contains(free, id):
			ids = append(ids, id)
		case x.Healthy:
			return nil, false
		}
	}
	return ids, true
}

// nowhere is the place of devices that are near no NUMA node.
const nowhere = -1

// placement maps resources and ids of devices to NUMA nodes.
type placement struct {
	nodes            map[string]map[string]mask.Mask
	resources, texts []string
}

// with returns the placement with the devices of one more resource: counts[i] of them are in
// bins[i].
func (p placement) with(resource string, ids []string, bins, counts []int) placement {
	next := placement{maps.Clone(p.nodes), p.resources, slices.Clone(p.texts)}
	if next.nodes == nil {
		next.nodes = map[string]map[string]mask.Mask{}
	}
	next.nodes[resource] = map[string]mask.Mask{}
	var texts []string
	at := 0
	for i, n := range counts {
		var near mask.Mask
		on := "near no NUMA node"
		if bins[i] != nowhere {
			near = mask.Of(bins[i])
			on = "on " + near.Text()
		}
		for range n {
			next.nodes[resource][ids[at]] = near
			at++
		}
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, on))
		}
	}
	next.resources = append(slices.Clone(next.resources), resource)
	next.texts = append(next.texts, strings.Join(texts, " and "))
	return next
}

// text describes the placement. It names the resources if there are several.
func (p placement) text() string {
	if len(p.texts) == 1 {
		return "with " + p.texts[0]
	}
	texts := make([]string, len(p.texts))
	for i, text := range p.texts {
		texts[i] = fmt.Sprintf("%s (%s)", text, p.resources[i])
	}
	return "with " + strings.Join(texts, ", ")
}

// distributions returns all ways to put n equal things into bins, those with most in the first bins
// first. It returns nil if there are more than maxPlacements.
func distributions(n, bins int) [][]int {
	if bins == 1 {
		return [][]int{{n}}
	}
	var all [][]int
	for first := n; first >= 0; first-- {
		rest := distributions(n-first, bins-1)
		if len(rest) == 0 || len(all)+len(rest) > maxPlacements {
			return nil
		}
		for _, r := range rest {
			all = append(all, append([]int{first}, r...))
		}
	}
	return all
}
