package nodemap

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Caches are the L3 caches of the map, if the node divides them.
type Caches struct {
	// Classes is the number of classes that can exist beside the default one, and UsedClasses the
	// number that exist.
	Classes     int     `json:"classes"`
	UsedClasses int     `json:"usedClasses"`
	L3          []Cache `json:"l3"`
}

// Cache is an L3 cache on the map.
type Cache struct {
	explain.CacheReport
	// Cells are the ways in their order.
	Cells []Way `json:"cells,omitempty"`
}

// Way is one way of a cache. Its use is exclusive if the class of a container has it, pooled if the
// class of a pool has it, moving if it belongs to the new place of a pod, reserved if no class can
// have it, or shared if it is free.
type Way struct {
	Way int `json:"way"`
	Use Use `json:"use"`
	// Default is set if the default class uses the way, and Hardware if hardware other than the
	// CPUs also uses it.
	Default  bool `json:"default,omitempty"`
	Hardware bool `json:"hardware,omitempty"`
	// UID is the UID of the pod that has the way. Container is empty for the class of its pool.
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Tag       string `json:"tag,omitempty"`
	pod       int
}

// findCaches fills Caches.
func (m *Map) findCaches() {
	report := explain.CachesOf(m.state)
	if report == nil {
		return
	}
	pods := map[string]int{}
	for i := range m.Pods {
		pods[m.Pods[i].UID] = i
	}
	m.Caches = &Caches{Classes: report.Classes, UsedClasses: report.UsedClasses}
	kept := report.Kept
	rest, hardware, units := m.state.Caches().Rest(), cache.Ways(m.state.Machine().Caches().HardwareWays), m.state.Machine().L3s()
	for _, r := range report.L3 {
		at := slices.IndexFunc(units, func(u machine.Unit) bool { return u.ID == r.ID })
		c := Cache{CacheReport: r}
		for id := range r.Ways {
			way := cache.Run(id, 1)
			w := Way{Way: id, Use: UseShared, Default: rest[at].Ways&way != 0, Hardware: hardware&way != 0, pod: noPod}
			if kept&way != 0 {
				w.Use = UseReserved
			}
			for _, o := range r.Owners {
				if o.Set&way == 0 {
					continue
				}
				w.pod, w.UID, w.Container, w.Use = pods[o.UID], o.UID, o.Container, UsePooled
				if w.Tag = m.Pods[w.pod].Tag; o.Index >= 0 {
					w.Use, w.Tag = UseExclusive, w.Tag+strconv.Itoa(o.Index+1)
				}
				if o.Moving {
					w.Use = UseMoving
				}
			}
			c.Cells = append(c.Cells, w)
		}
		m.Caches.L3 = append(m.Caches.L3, c)
	}
}

// caches returns boxes for the L3 caches of a NUMA node.
func (l layout) caches(u machine.Unit, width int) []*box {
	if l.m.Caches == nil {
		return nil
	}
	units := l.m.state.Machine().L3s()
	var out []*box
	for i := range l.m.Caches.L3 {
		c := &l.m.Caches.L3[i]
		at := slices.IndexFunc(units, func(u machine.Unit) bool { return u.ID == c.ID })
		if !units[at].CPUs.Intersects(u.CPUs) {
			continue
		}
		line := &box{kind: boxText, w: width, h: l.line, about: c.about(), pod: noPod}
		line.setTexts("L3 "+strconv.Itoa(c.ID), c.free(), width/l.letter)
		boxes := []*box{line}
		cells := make([]*box, len(c.Cells))
		for k := range c.Cells {
			w := &c.Cells[k]
			cells[k] = &box{kind: boxWay, w: l.way, h: l.line + l.wayPad, use: w.Use, pod: w.pod, tag: w.Tag, about: l.m.aboutWay(c, w)}
		}
		if len(cells) > 0 {
			boxes = append(boxes, flow(cells, width, l.threadGap, l.threadGap))
		} else {
			boxes = nil // Its bandwidth has a line of its own.
		}
		if c.Bandwidth > 0 {
			boxes = append(boxes, l.barOf(l.m.bandwidthOf(c), width))
		}
		out = append(out, stack(boxes, 0))
	}
	return out
}

// free describes how many ways of a cache are free.
func (c *Cache) free() string { return fmt.Sprintf("%d of %d ways free", c.FreeWays, c.ClassWays) }

func (c *Cache) about() string {
	return "L3 " + strconv.Itoa(c.ID) + " of CPUs " + view.ShortCPUs(c.CPUs) + ": " + c.free() +
		", at most " + strconv.Itoa(c.LargestClass) + " in a row; default class: ways " + c.DefaultWays
}

// bandwidthOf returns the bar of the memory bandwidth of a cache.
func (m Map) bandwidthOf(c *Cache) amounts {
	bar := amounts{name: "L3 " + strconv.Itoa(c.ID) + " bandwidth", value: fmt.Sprintf("%d of %d%% free", c.FreeBandwidth, c.Bandwidth), whole: 100}
	bar.about = "memory bandwidth of L3 " + strconv.Itoa(c.ID) + ": " + bar.value + ", " + strconv.Itoa(100-c.Bandwidth) + "% always for the default class"
	bar.parts = append(bar.parts, part{UseReserved, noPod, int64(100 - c.Bandwidth)})
	for _, o := range c.Owners {
		if o.Bandwidth > 0 {
			at := slices.IndexFunc(m.Pods, func(p Pod) bool { return p.UID == o.UID })
			bar.parts = append(bar.parts, part{UseExclusive, at, int64(o.Bandwidth)})
			bar.about += "; " + o.Who() + " " + strconv.Itoa(o.Bandwidth) + "%"
		}
	}
	return bar
}

// aboutWay describes in one sentence which container or pool has a way.
func (m Map) aboutWay(c *Cache, w *Way) string {
	text := "way " + strconv.Itoa(w.Way) + " of L3 " + strconv.Itoa(c.ID) + ": "
	switch {
	case w.pod != noPod && w.Use == UseMoving:
		return text + "the new place of pod " + m.Pods[w.pod].Pod + ", which is being moved"
	case w.pod != noPod && w.Container != "":
		return text + "container " + w.Container + " of pod " + m.Pods[w.pod].Pod + " has it alone"
	case w.pod != noPod:
		return text + "the containers that share the pool of pod " + m.Pods[w.pod].Pod + " have it alone"
	case w.Hardware:
		return text + "hardware uses it beside the CPUs, and so does the default class"
	case w.Use == UseReserved:
		return text + "the default class always has it"
	case w.Default:
		return text + "free, and used by the default class"
	}
	return text + "free, and used by no class, because the ways of the default class are contiguous"
}
