package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/podres"
	"github.com/paddock-project/paddock/internal/view"
)

// podsTable shows pods, ascending by namespace and name whatever the order of the answer. Wide
// is exact where the other form is short. CPUs that are not among the usable ones are marked, if any are
// usable.
func podsTable(pods []*podres.PodResources, usable cpuset.Set, wide bool) *view.Table {
	t := &view.Table{Columns: []view.Column{
		{Title: "POD / CONTAINER"},
		{Title: "ISOLATION"},
		{Title: "CPUS", Align: view.Right},
		{Title: "CPU SET"},
		{Title: "OFFLINE"},
		{Title: "MEMORY"},
		{Title: "NUMA"},
		{Title: "DEVICES"},
	}}
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *podres.PodResources) int {
		if c := strings.Compare(a.GetNamespace(), b.GetNamespace()); c != 0 {
			return c
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	for _, p := range pods {
		addPod(t, p, usable, wide)
	}
	return t
}

func addPod(t *view.Table, p *podres.PodResources, usable cpuset.Set, wide bool) {
	offline := func(cpus cpuset.Set) view.Cell {
		if usable.IsEmpty() {
			return view.Cell{}
		}
		return view.Cell{Text: setText(cpus.Difference(usable), wide), Tone: view.Bad}
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
	t.Cells(view.Cell{Text: p.GetNamespace() + "/" + p.GetName(), Tone: view.Strong}, view.Cell{Text: word, Tone: view.Faint},
		view.Cell{Text: countText(pool)}, view.Cell{Text: setText(pool, wide)}, offline(pool),
		view.Cell{Text: memoryText(p.GetMemory())}, view.Cell{Text: numaText(p.GetMemory())})
	for _, c := range p.GetContainers() {
		isolation, tone, cpus := node.HostIsolation, view.Plain, idSet(c.GetCpuIds())
		switch {
		case !cpus.IsEmpty():
			isolation, tone = node.ContainerIsolation, view.Good
		case !pool.IsEmpty():
			isolation, cpus = node.PodIsolation, shared
		}
		set := setText(cpus, wide)
		if isolation == node.HostIsolation {
			set = "shared"
		}
		t.Cells(view.Cell{Text: "  " + c.GetName()}, view.Cell{Text: isolation.String(), Tone: tone},
			view.Cell{Text: countText(cpus)}, view.Cell{Text: set}, offline(cpus),
			view.Cell{Text: memoryText(c.GetMemory())}, view.Cell{Text: numaText(c.GetMemory())}, view.Cell{Text: devicesText(c.GetDevices(), wide)})
	}
}

// idSet holds ids of CPUs or of NUMA nodes. Others than CPUs can have are not expected of a server
// and left out.
func idSet(ids []int64) cpuset.Set {
	var b cpuset.Builder
	for _, id := range ids {
		if id >= 0 && id <= cpuset.MaxID {
			b.Add(int(id))
		}
	}
	return b.Set()
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

// memoryText is "8 GiB + 64 MiB hugepages-2Mi".
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

// numaText are the NUMA nodes of the memory.
func numaText(blocks []*podres.ContainerMemory) string {
	var ids []int64
	for _, b := range blocks {
		for _, n := range b.GetTopology().GetNodes() {
			ids = append(ids, n.GetID())
		}
	}
	return idSet(ids).String()
}

// devicesText is "2 example.com/nic"; wide, "example.com/nic nic-0 on NUMA node 0".
func devicesText(devices []*podres.ContainerDevices, wide bool) string {
	var parts, names []string
	counts := map[string]int{}
	for _, d := range devices {
		var ids []int64
		for _, n := range d.GetTopology().GetNodes() {
			ids = append(ids, n.GetID())
		}
		text := d.GetResourceName() + " " + strings.Join(d.GetDeviceIds(), ",")
		if len(ids) > 0 {
			text += " on NUMA node " + idSet(ids).String()
		}
		parts = append(parts, text)
		if counts[d.GetResourceName()] == 0 {
			names = append(names, d.GetResourceName())
		}
		counts[d.GetResourceName()] += len(d.GetDeviceIds())
	}
	if wide {
		return strings.Join(parts, "; ")
	}
	for i, name := range names {
		names[i] = strconv.Itoa(counts[name]) + " " + name
	}
	return strings.Join(names, ", ")
}
