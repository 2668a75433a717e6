package treatment

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// devices are the devices of a node, as far as the kubelet's files about devices show them.
type devices struct {
	// plugins and claims are the files, or nil if they are not there.
	plugins, claims *kubeletstate.DeviceFile
	// inventory has the devices of device plugins.
	inventory *device.Inventory
	// assigned maps UIDs of pods and names of containers to devices.
	assigned map[string]map[string][]device.Assigned
	// doubts maps resources to the reason why their devices are not known well enough to align a
	// pod with them. counts does the same for their number.
	doubts, counts map[string]view.Doubt
	// unplaced has the ids of the devices of a resource of which the NUMA nodes are not known.
	unplaced map[string][]string
	// saved is set for a state that was saved, which has the devices of pods and no others.
	saved bool
}

// GiveNUMANodes is what to give if --devices does not have the NUMA nodes of devices.
const GiveNUMANodes = "add numaNodes to each device in --devices; numaNodes: [] is for a device of which the device plugin reports none"

// giveDevices and giveCheckpoint are what to give if devices are not known.
const (
	giveDevices    = "add --devices FILE with every device and its NUMA nodes, or collect the node again with curl on it: the script of paddock collect then asks the kubelet for them"
	giveCheckpoint = "put a copy of /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint into the folder of --state"
)

// devicesOf reads the files about devices. n has the inventory that the user gave, if any.
func (f Found) devicesOf(texts []Text, n *inputs.Node) (*devices, error) {
	d := &devices{inventory: n.Devices, assigned: map[string]map[string][]device.Assigned{}, unplaced: map[string][]string{}, doubts: map[string]view.Doubt{}, counts: map[string]view.Doubt{}}
	for _, t := range texts {
		file, err := kubeletstate.RecogniseDevices(t.Data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w: copy it again", t.Name, err)
		case !file.Checksum.Valid():
			return nil, fmt.Errorf("%s: its checksum is wrong, so that it can be damaged: copy it again; \"paddock state verify\" shows what the kubelet does with it", t.Name)
		case file.Manager == kubeletstate.DeviceManager:
			d.plugins = file
		default:
			d.claims = file
		}
	}
	if d.plugins == nil {
		return d, nil
	}
	d.assign(f.Pods)
	if err := d.stock(n.Found.Machine, f.Near); err != nil {
		return nil, err
	}
	d.compare(f.Node)
	return d, nil
}

// assign reads what the pods have that have not ended. The kubelet frees the devices of others
// before it allocates any.
func (d *devices) assign(pods inputs.Roster) {
	for i := range d.plugins.Entries {
		e := &d.plugins.Entries[i]
		if !pods.Alive(e.PodUID) {
			continue
		}
		if d.assigned[e.PodUID] == nil {
			d.assigned[e.PodUID] = map[string][]device.Assigned{}
		}
		has := d.assigned[e.PodUID][e.ContainerName]
		has = append(has, device.Assigned{Resource: e.ResourceName, IDs: slices.Sorted(maps.Keys(e.NUMANodes()))})
		slices.SortFunc(has, func(a, b device.Assigned) int { return strings.Compare(a.Resource, b.Resource) })
		d.assigned[e.PodUID][e.ContainerName] = has
	}
}

// stock completes the inventory: it has the devices that the user gave, and of other resources
// those that are registered. The file has the NUMA nodes only of devices that a pod has or had;
// near has those of others.
func (d *devices) stock(m *machine.Machine, near map[string]map[string]mask.Mask) error {
	places := map[string]map[string]mask.Mask{}
	for resource, byID := range near {
		places[resource] = map[string]mask.Mask{}
		for id, nodes := range byID {
			places[resource][id] = nodes & m.NodeMask()
		}
	}
	for i := range d.plugins.Entries {
		e := &d.plugins.Entries[i]
		if places[e.ResourceName] == nil {
			places[e.ResourceName] = map[string]mask.Mask{}
		}
		for id, nodes := range e.NUMANodes() {
			places[e.ResourceName][id] = mask.Of(nodes...) & m.NodeMask()
		}
	}
	all := map[string][]device.Device{}
	for _, resource := range d.inventory.Resources() {
		all[resource] = d.inventory.Devices(resource)
		if n := d.inventory.Unplaced(resource); n > 0 && m.NodeMask().Len() > 1 {
			d.unplaced[resource] = unplacedOf(all[resource])
			d.doubts[resource] = view.Doubt{
				Reason: fmt.Sprintf("the NUMA nodes of %d of the %d devices of %s are not given", n, len(all[resource]), resource),
				Give:   GiveNUMANodes,
			}
		}
	}
	d.missing()
	defer d.foreign(m, near)
	for resource, ids := range d.plugins.Registered {
		if d.inventory.Has(resource) {
			continue
		}
		var unknown []string
		for _, id := range ids {
			nodes, known := places[resource][id]
			if !known {
				unknown = append(unknown, id)
			}
			all[resource] = append(all[resource], device.Device{ID: id, Healthy: true, Nodes: nodes, Unplaced: !known})
		}
		if len(unknown) == 0 || m.NodeMask().Len() == 1 {
			continue
		}
		d.unplaced[resource] = unknown
		d.doubts[resource] = view.Doubt{
			Reason: fmt.Sprintf("the NUMA nodes of %d of the %d devices of %s are not known, because no pod has them", len(unknown), len(ids), resource),
			Give:   giveDevices,
		}
	}
	inventory, err := device.NewInventory(m, all)
	d.inventory = inventory
	return err
}

// unplacedOf returns the ids of the devices of which the NUMA nodes are not given.
func unplacedOf(devices []device.Device) (ids []string) {
	for _, x := range devices {
		if x.Unplaced {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

// foreign adds doubts about resources that have devices on NUMA nodes that the machine does not
// have: what is known of them is of another machine.
func (d *devices) foreign(m *machine.Machine, near map[string]map[string]mask.Mask) {
	add := func(resource, id string, nodes mask.Mask) {
		if absent := nodes &^ m.NodeMask(); absent != 0 {
			delete(d.unplaced, resource)
			d.doubts[resource] = view.Doubt{
				Reason: fmt.Sprintf("according to the kubelet, device %s of %s is on %s, which the machine does not have: it is another machine", id, resource, absent.Text()),
				Give:   "give the machine of the node that the files are of",
			}
		}
	}
	for resource, byID := range near {
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			add(resource, id, byID[id])
		}
	}
	for i := range d.plugins.Entries {
		e := &d.plugins.Entries[i]
		for id, nodes := range e.NUMANodes() {
			add(e.ResourceName, id, mask.Of(nodes...))
		}
	}
}

// left returns the inventory for a state. A device that an ended container has, which is in no
// grant, is not free: it is unhealthy there.
func (d *devices) left(m *machine.Machine, s *node.State) (*device.Inventory, error) {
	type key struct{ resource, id string }
	lost := map[key]bool{}
	for resource, id := range d.ofPods() {
		lost[key{resource, id}] = true
	}
	for g := range s.AllGrants() {
		for _, has := range g.Devices() {
			for _, id := range has.IDs {
				delete(lost, key{has.Resource, id})
			}
		}
	}
	if len(lost) == 0 {
		return d.inventory, nil
	}
	return changed(m, d.inventory, func(resource string, x *device.Device) {
		x.Healthy = x.Healthy && !lost[key{resource, x.ID}]
	})
}

// ofPods returns each device that a pod has, with its resource, in no order.
func (d *devices) ofPods() iter.Seq2[string, string] {
	return func(yield func(resource, id string) bool) {
		for _, containers := range d.assigned {
			for _, has := range slices.Concat(slices.Collect(maps.Values(containers))...) {
				for _, id := range has.IDs {
					if !yield(has.Resource, id) {
						return
					}
				}
			}
		}
	}
}

// changed returns an inventory with its devices as change leaves them.
func changed(m *machine.Machine, inventory *device.Inventory, change func(resource string, x *device.Device)) (*device.Inventory, error) {
	all := map[string][]device.Device{}
	for _, resource := range inventory.Resources() {
		for _, x := range inventory.Devices(resource) {
			change(resource, &x)
			all[resource] = append(all[resource], x)
		}
	}
	return device.NewInventory(m, all)
}

// withoutPlaces returns an inventory for plans. If the NUMA nodes of some devices of a resource are
// not known, none of its devices has any there: so a plan counts them, and aligns nothing with
// them.
func (d *devices) withoutPlaces(m *machine.Machine, inventory *device.Inventory) (*device.Inventory, error) {
	if len(d.doubts) == 0 {
		return inventory, nil
	}
	return changed(m, inventory, func(resource string, x *device.Device) {
		if _, unknown := d.doubts[resource]; unknown {
			x.Nodes = 0
		}
	})
}

// missing adds doubts about resources that the given inventory has, if a pod has a device that is
// not there. They name the lowest such device.
func (d *devices) missing() {
	lowest := map[string]string{}
	for resource, id := range d.ofPods() {
		if _, known := d.inventory.Device(resource, id); known || !d.inventory.Has(resource) {
			continue
		}
		if other, is := lowest[resource]; !is || id < other {
			lowest[resource] = id
		}
	}
	for resource, id := range lowest {
		d.counts[resource] = view.Doubt{
			Reason: fmt.Sprintf("a pod has the device %s of %s, and the list of devices does not have it", id, resource),
			Give:   "name the devices in --devices as the device plugin does",
		}
	}
}

// compare adds a doubt if the Node has another number of devices than the file.
func (d *devices) compare(n *v1.Node) {
	if n == nil {
		return
	}
	for name, quantity := range n.Status.Allocatable {
		resource := string(name)
		if !isDevice(resource) {
			continue
		}
		if ids, is := d.plugins.Registered[resource]; quantity.Value() != int64(len(ids)) && (is || quantity.Value() > 0) {
			d.counts[resource] = view.Doubt{
				Reason: fmt.Sprintf("the Node has %d of %s, and kubelet_internal_checkpoint has %d", quantity.Value(), resource, len(ids)),
				Give:   "collect the Node and the files at the same time",
			}
		}
	}
}

// isDevice reports whether a resource can be that of a device plugin.
func isDevice(resource string) bool {
	return device.CheckName(resource) == nil
}

// give adds to the requests of pods the ResourceClaims that the kubelet prepared for them.
func (d *devices) give(pods []request.Pod, roster inputs.Roster) {
	if d == nil || d.claims == nil {
		return
	}
	for i := range pods {
		pods[i].ResourceClaims = d.claimsOf(roster[pods[i].UID])
		for k := range pods[i].Containers {
			c := &pods[i].Containers[k]
			c.Given = append(c.Given, givenBy(pods[i].ResourceClaims, c.Name)...)
			slices.SortFunc(c.Given, func(a, b request.Given) int { return a.Compare(&b) })
			c.Given = slices.CompactFunc(c.Given, func(a, b request.Given) bool { return a.Compare(&b) == 0 })
		}
	}
}

// claimsOf returns the claims of a pod with their devices.
func (d *devices) claimsOf(pod *v1.Pod) []request.Claim {
	all := claims.UsesOf(pod)
	for i := range all {
		at := slices.IndexFunc(d.claims.Claims, func(c kubeletstate.Claim) bool { return c.Namespace == pod.Namespace && c.Name == all[i].Name })
		if at < 0 {
			continue
		}
		all[i].Devices = []request.ClaimDevice{}
		for _, x := range d.claims.Claims[at].Devices {
			all[i].Devices = append(all[i].Devices, request.ClaimDevice{
				Driver: x.Driver, Pool: x.Pool, Name: x.Device, ShareID: x.Share, Requests: slices.Sorted(slices.Values(x.Requests)), CDI: x.CDI,
			})
		}
		slices.SortFunc(all[i].Devices, func(a, b request.ClaimDevice) int { return a.Compare(&b) })
	}
	return all
}

// givenBy returns the devices that a container has by claims. Their NUMA nodes are not in the
// kubelet's file.
func givenBy(all []request.Claim, container string) []request.Given {
	var given []request.Given
	for i := range all {
		for k := range all[i].Devices {
			if x := &all[i].Devices[k]; all[i].Has(container, x) {
				given = append(given, request.Given{Claim: all[i].Name, Driver: x.Driver, Pool: x.Pool, Name: x.Name})
			}
		}
	}
	return given
}

// doubt returns why it is not known which devices a pod gets.
func (d *devices) doubt(s *node.State, pod *request.Pod) (all []view.Doubt) {
	for _, resource := range resourcesOf(pod) {
		count, counted := d.counts[resource]
		place, placed := d.doubts[resource]
		switch {
		case d.saved && !counted && !s.Devices().Inventory().Has(resource):
			all = append(all, view.Doubt{Reason: "it is not known which devices of " + resource + " are free, because a saved state has only those of its pods", Give: giveDevices})
		case d.plugins == nil && !d.saved:
			all = append(all, view.Doubt{Reason: "it is not known which devices of " + resource + " are free, because kubelet_internal_checkpoint is missing", Give: giveCheckpoint})
		case counted:
			all = append(all, count)
		case placed && s.Demand(pod).Path != node.Unaligned:
			all = append(all, place)
		}
	}
	return all
}

// resourcesOf returns the extended resources for which the containers of a pod ask, ascending.
func resourcesOf(pod *request.Pod) []string {
	var all []string
	for i := range pod.Containers {
		for _, a := range pod.Containers[i].Devices {
			all = append(all, a.Resource)
		}
	}
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all)
}
