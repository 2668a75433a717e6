package program

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// podsTable returns a table of pods in ascending order of namespace and name, whatever the order of
// the answer. If wide is set, values are exact instead of shortened. CPUs that are not in usable
// are marked, unless usable is empty.
func podsTable(pods []*podres.PodResources, extras podres.Extras, usable cpuset.Set, wide bool) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "POD / CONTAINER"},
		{Title: "ISOLATION"},
		{Title: "CPUS", Align: terminal.Right},
		{Title: "CPU SET"},
		{Title: "OFFLINE"},
		{Title: "MEMORY"},
		{Title: "NUMA"},
		{Title: "DEVICES"},
		{Title: "MOVES"},
		{Title: "CACHES"},
	}}
	classes := classesOf(extras.Caches)
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *podres.PodResources) int {
		if c := strings.Compare(a.GetNamespace(), b.GetNamespace()); c != 0 {
			return c
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	for _, p := range pods {
		addPod(t, p, extras, classes, usable, wide)
	}
	return t
}

// classesOf returns what containers have of the caches, by namespace, pod and container. What the
// containers have that share a pool is at the empty name. It is empty if no pod has a class.
func classesOf(c *podres.Caches) map[[3]string]string {
	classes := map[[3]string]string{}
	if c == nil {
		return classes
	}
	for i := range c.Containers {
		of := &c.Containers[i]
		if len(of.Class) == 0 {
			continue
		}
		at, text := [3]string{of.Namespace, of.Pod, of.Container}, view.SharesText(view.SharesOf(of.Class))
		if of.Pool {
			classes[at] = "as the pool"
			at[2] = ""
		}
		classes[at] = text
	}
	return classes
}

func addPod(t *terminal.Table, p *podres.PodResources, extras podres.Extras, classes map[[3]string]string, usable cpuset.Set, wide bool) {
	row := func(container string, cells ...terminal.Cell) {
		t.Cells(append(cells, terminal.Cell{Text: classes[[3]string{p.GetNamespace(), p.GetName(), container}]})...)
	}
	offline := func(cpus cpuset.Set) terminal.Cell {
		if usable.IsEmpty() {
			return terminal.Cell{}
		}
		return terminal.Cell{Text: setText(cpus.Difference(usable), wide), Tone: terminal.Bad}
	}
	pool := idSet(p.GetCpuIds())
	shared := pool
	for _, c := range p.GetContainers() {
		shared = shared.Difference(idSet(c.GetCpuIds()))
	}
	word := ""
	if !pool.IsEmpty() || len(p.GetMemory()) > 0 {
		word = "pool"
	}
	row("", terminal.Cell{Text: p.GetNamespace() + "/" + p.GetName(), Tone: terminal.Strong}, terminal.Cell{Text: word, Tone: terminal.Faint},
		terminal.Cell{Text: countText(pool)}, terminal.Cell{Text: setText(pool, wide)}, offline(pool),
		terminal.Cell{Text: memoryText(p.GetMemory())}, terminal.Cell{Text: numaText(p.GetMemory())}, terminal.Cell{}, movesCell(p, extras.Moves))
	for _, c := range p.GetContainers() {
		isolation, tone, cpus := node.HostIsolation, terminal.Plain, idSet(c.GetCpuIds())
		switch {
		case !cpus.IsEmpty():
			isolation, tone = node.ContainerIsolation, terminal.Good
		case !pool.IsEmpty():
			isolation, cpus = node.PodIsolation, shared
		}
		set := setText(cpus, wide)
		if isolation == node.HostIsolation {
			set = "shared"
		}
		row(c.GetName(), terminal.Cell{Text: "  " + c.GetName()}, terminal.Cell{Text: isolation.String(), Tone: tone},
			terminal.Cell{Text: countText(cpus)}, terminal.Cell{Text: set}, offline(cpus),
			terminal.Cell{Text: memoryText(c.GetMemory())}, terminal.Cell{Text: numaText(c.GetMemory())}, devicesCell(devicesOf(p, c, extras.Places), wide), terminal.Cell{})
	}
}

// movesCell describes the moves of a pod that is being moved or was moved.
func movesCell(p *podres.PodResources, moves []podres.Moves) terminal.Cell {
	at := slices.IndexFunc(moves, func(m podres.Moves) bool { return m.Namespace == p.GetNamespace() && m.Pod == p.GetName() })
	if at < 0 {
		return terminal.Cell{}
	}
	m, parts, tone := moves[at], []string{}, terminal.Faint
	if m.UnderWay() {
		tone = terminal.Strong
		if m.To != "" {
			parts = append(parts, "being moved, CPUs "+m.From+" → "+m.To)
		} else {
			parts = append(parts, "being moved, NUMA node "+idSet(m.FromNUMANodes).String()+" → "+idSet(m.ToNUMANodes).String())
		}
	}
	if m.Moved > 0 && m.Last != nil {
		parts = append(parts, "moved "+view.Count(m.Moved, "time")+", last "+m.Last.UTC().Format(time.RFC3339))
	}
	return terminal.Cell{Text: strings.Join(parts, "; "), Tone: tone}
}

// idSet returns a set of ids of CPUs or of NUMA nodes, without ids that no CPU can have.
func idSet(ids []int64) cpuset.Set {
	set, _ := podres.CPUs(ids)
	return set
}

func countText(set cpuset.Set) string {
	if set.IsEmpty() {
		return ""
	}
	return strconv.Itoa(set.Len())
}

func setText(set cpuset.Set, wide bool) string {
	if wide {
		return set.String()
	}
	return view.CPUs(set)
}

// memoryText formats memory: "8 GiB + 64 MiB hugepages-2Mi".
func memoryText(blocks []*podres.ContainerMemory) string {
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = request.RoundedBytes(int64(min(b.GetSize(), math.MaxInt64)))
		if b.GetMemoryType() != machine.Memory {
			parts[i] += " " + b.GetMemoryType()
		}
	}
	return strings.Join(parts, " + ")
}

// numaText formats the NUMA nodes of the memory.
func numaText(blocks []*podres.ContainerMemory) string {
	var ids []int64
	for _, b := range blocks {
		for _, n := range b.GetTopology().GetNodes() {
			ids = append(ids, n.GetID())
		}
	}
	return idSet(ids).String()
}

// devicesOf returns the devices of a container in the order of the answer: those of device plugins,
// then those of claims. The places add their NUMA nodes. A kubelet sends no places.
func devicesOf(p *podres.PodResources, c *podres.ContainerResources, places podres.Places) []explain.Device {
	at := map[[3]string]podres.Place{}
	for _, place := range places {
		if place.Namespace == p.GetNamespace() && place.Pod == p.GetName() && place.Container == c.GetName() {
			at[[3]string{place.Of, place.Pool, place.Device}] = place
		}
	}
	var all []explain.Device
	add := func(d explain.Device, nodes []int64) {
		d.Distance = node.DistanceUnknown.String()
		if place, known := at[[3]string{d.Of(), d.Pool, d.Device}]; known {
			nodes = place.NUMANodes
			if place.Remote {
				d.Distance = node.OtherNUMANode.String()
			}
		}
		d.NUMANodes = idSet(nodes).IDs()
		all = append(all, d)
	}
	for _, list := range c.GetDevices() {
		var nodes []int64
		for _, n := range list.GetTopology().GetNodes() {
			nodes = append(nodes, n.GetID())
		}
		for _, id := range list.GetDeviceIds() {
			add(explain.Device{Resource: list.GetResourceName(), Device: id}, nodes)
		}
	}
	for _, claim := range c.GetDynamicResources() {
		for _, d := range claim.GetClaimResources() {
			add(explain.Device{Driver: d.GetDriverName(), Pool: d.GetPoolName(), Claim: claim.GetClaimName(), Device: d.GetDeviceName()}, nil)
		}
	}
	return all
}

// devicesCell returns a cell with devices, highlighted if one is remote.
func devicesCell(devices []explain.Device, wide bool) terminal.Cell {
	cell := terminal.Cell{Text: view.DevicesText(devices, wide)}
	if slices.ContainsFunc(devices, explain.Device.Remote) {
		cell.Tone = terminal.Bad
	}
	return cell
}
