package nodemap

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Device is a device on the map: one of the inventory, or one that another component chose for a
// container. The map does not know the other devices of the Kubernetes node.
type Device struct {
	// Of is the extended resource or the driver of the device. With a driver, Pool is set.
	Of   string `json:"of"`
	Pool string `json:"pool,omitempty"`
	Name string `json:"device"`
	// NUMANodes are the NUMA nodes near the device. If absent, they are not known.
	NUMANodes []int `json:"numaNodes,omitempty"`
	// Use is UsePooled if several containers have the device.
	Use Use `json:"use"`
	// Owners are the containers that have the device, in the order of the pods.
	Owners []Owner `json:"owners,omitempty"`

	nodes  mask.Mask
	listed bool // in the inventory
}

// Owner is a container that has a device. Distance is a node.Distance as text.
type Owner struct {
	UID       string `json:"uid"`
	Container string `json:"container"`
	Claim     string `json:"claim,omitempty"`
	Distance  string `json:"distance"`
	pod, at   int    // positions in Map.Pods, and in the pod's containers
}

// remote reports whether the device is on another NUMA node than one of its containers.
func (d *Device) remote() bool {
	return slices.ContainsFunc(d.Owners, func(o Owner) bool {
		return o.Distance == node.OtherNUMANode.String() || o.Distance == node.OtherSocket.String()
	})
}

// findDevices fills Devices, in ascending order of resource or driver, pool and name.
func (m *Map) findDevices() {
	type name struct{ of, pool, name string }
	known := map[name]int{}
	for _, resource := range m.state.Devices().Inventory().Resources() {
		for _, d := range m.state.Devices().Inventory().Devices(resource) {
			use := UseShared
			if !d.Healthy {
				use = UseUnhealthy
			}
			known[name{resource, "", d.ID}] = len(m.Devices)
			m.Devices = append(m.Devices, Device{Of: resource, Name: d.ID, Use: use, nodes: d.Nodes, listed: true})
		}
	}
	for i := range m.Pods {
		g, _ := m.state.Grant(m.Pods[i].UID)
		devices := m.state.DevicesOf(g)
		for at, all := range devices {
			for _, d := range all {
				again := func(later node.Device) bool { return later.CompareDevice(&d.Given) == 0 }
				if g.Pod.Containers[at].Type == request.Init && slices.ContainsFunc(slices.Concat(devices[at+1:]...), again) {
					continue // If several containers have it one after the other, show the one that runs longer, as on CPUs.
				}
				id := name{d.Of(), d.Pool, d.Name}
				k, there := known[id]
				if !there {
					k = len(m.Devices)
					known[id] = k
					m.Devices = append(m.Devices, Device{Of: id.of, Pool: id.pool, Name: id.name})
				}
				shown := &m.Devices[k]
				if !shown.listed {
					shown.nodes |= d.Nodes
				}
				shown.Owners = append(shown.Owners, Owner{m.Pods[i].UID, g.Pod.Containers[at].Name, d.Claim, d.Distance.String(), i, at})
				if shown.Use = UseExclusive; len(shown.Owners) > 1 {
					shown.Use = UsePooled
				}
			}
		}
	}
	slices.SortFunc(m.Devices, func(a, b Device) int {
		return cmp.Or(strings.Compare(a.Of, b.Of), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Name, b.Name))
	})
	for i := range m.Devices {
		if d := &m.Devices[i]; !d.nodes.IsEmpty() {
			d.NUMANodes = d.nodes.Nodes()
		}
	}
}

// where returns the place of a device for its cell: "@1", or "≠1" if the device is remote from its
// container.
func (d *Device) where() string {
	nodes := strings.Trim(d.nodes.String(), "{}")
	switch {
	case nodes == "":
		return "@?"
	case d.remote():
		return "≠" + nodes
	}
	return "@" + nodes
}

// deviceTag returns the tag of the containers that have the device: "A1" for one, "A1+B2" for two,
// and "A1+3" for more.
func (m Map) deviceTag(d *Device) string {
	tag := func(o Owner) string { return m.Pods[o.pod].Tag + strconv.Itoa(o.at+1) }
	switch n := len(d.Owners); n {
	case 0:
		return ""
	case 1:
		return tag(d.Owners[0])
	case 2:
		return tag(d.Owners[0]) + "+" + tag(d.Owners[1])
	default:
		return tag(d.Owners[0]) + "+" + strconv.Itoa(n-1)
	}
}

// owner returns the position of the first pod that has the device, or noPod.
func (d *Device) owner() int {
	if len(d.Owners) == 0 {
		return noPod
	}
	return d.Owners[0].pod
}

// aboutDevice describes in one sentence where a device is and which containers have it.
func (m Map) aboutDevice(d *Device) string {
	text := d.Of + " "
	if d.Pool != "" {
		text += d.Pool + "/"
	}
	text += d.Name
	if d.nodes.IsEmpty() {
		text += ", its NUMA node is not known: "
	} else {
		text += " on " + view.Plural(d.nodes.Len(), "NUMA node") + " " + view.NodeWords(d.nodes) + ": "
	}
	var owners []string
	for _, o := range d.Owners {
		owner := "container " + o.Container + " of pod " + m.Pods[o.pod].Pod
		if o.Claim != "" {
			owner += " by claim " + o.Claim
		}
		if o.Distance == node.OtherNUMANode.String() || o.Distance == node.OtherSocket.String() {
			owner += " (remote: its CPUs or memory are on " + o.Distance + ")"
		}
		owners = append(owners, owner)
	}
	switch {
	case len(owners) == 1:
		text += "assigned to " + owners[0]
	case len(owners) > 1:
		text += "shared by " + strings.Join(owners, ", ")
	case d.Use == UseShared:
		text += "free"
	}
	if d.listed {
		if known, _ := m.state.Devices().Inventory().Device(d.Of, d.Name); !known.Healthy {
			if len(owners) > 0 {
				text += ", "
			}
			text += "unhealthy"
		}
	}
	return text
}

// deviceBar returns the line above the cells of devices, which is a bar if there are too many
// devices for cells. Devices that no inventory lists are known only if a pod has them.
func (m Map) deviceBar(of string, devices []*Device) amounts {
	short := of[strings.LastIndexByte(of, '/')+1:] // without the domain
	bar := amounts{name: short, whole: int64(len(devices))}
	free, listed := 0, false
	for _, d := range devices {
		listed = listed || d.listed
		if d.Use == UseShared {
			free++
			continue
		}
		use := d.Use
		if use == UsePooled {
			use = UseExclusive // A bar shows only which pod has a device.
		}
		if at := slices.IndexFunc(bar.parts, func(b part) bool { return b.use == use && b.pod == d.owner() }); at >= 0 {
			bar.parts[at].amount++
			continue
		}
		bar.parts = append(bar.parts, part{use, d.owner(), 1})
	}
	slices.SortStableFunc(bar.parts, func(a, b part) int { return a.pod - b.pod })
	bar.value = strconv.Itoa(free) + " of " + strconv.Itoa(len(devices)) + " free"
	if !listed {
		bar.value = strconv.Itoa(len(devices)) + " assigned"
	}
	bar.about = of + ": " + bar.value + m.partsText(bar.parts, func(n int64) string { return strconv.FormatInt(n, 10) })
	return bar
}
