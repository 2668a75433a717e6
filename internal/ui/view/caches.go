package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Share is the part of one L3 cache that a class has.
type Share struct {
	L3 int `json:"l3"`
	// Ways is a list of ways. It is empty if the class has the ways of the default class.
	Ways string `json:"ways,omitempty"`
	// Bandwidth is the part of the memory bandwidth. It is 0 if the class has the limit of the
	// default class.
	Bandwidth int `json:"bandwidthPercent,omitempty"`
}

// SharesOf returns a class for a document.
func SharesOf(c cache.Class) []Share {
	var out []Share
	for _, s := range c {
		share := Share{L3: s.Cache, Bandwidth: s.Bandwidth}
		if s.Ways != 0 {
			share.Ways = s.Ways.String()
		}
		out = append(out, share)
	}
	return out
}

// SharesText describes a class briefly: "ways 0-3 of L3 0, 20% of the bandwidth". It names caches
// together if the class has the same part of them.
func SharesText(shares []Share) string {
	var parts []string
	for len(shares) > 0 {
		first := shares[0]
		var ids []int
		shares = slices.DeleteFunc(slices.Clone(shares), func(s Share) bool {
			same := s.Ways == first.Ways && s.Bandwidth == first.Bandwidth
			if same {
				ids = append(ids, s.L3)
			}
			return same
		})
		of, text := " of L3 "+listOf(ids), ""
		if first.Ways != "" {
			text = "ways " + first.Ways + of
			of = ""
		}
		if first.Bandwidth > 0 {
			if text != "" {
				text += ", "
			}
			text += strconv.Itoa(first.Bandwidth) + "% of the bandwidth" + of
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// listOf returns ascending numbers as a list.
func listOf(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		text := strconv.Itoa(ids[i])
		if last > i {
			text += "-" + strconv.Itoa(ids[last])
		}
		parts, i = append(parts, text), last+1
	}
	return strings.Join(parts, ",")
}

// cacheText describes the part of the caches that a container has and, if asked is not empty, the
// part that it asks for.
func cacheText(shares []Share, asked string) string {
	text := SharesText(shares)
	switch {
	case asked == "":
	case text == "":
		return "asked for " + asked
	default:
		text += " (asked for " + asked + ")"
	}
	return text
}

// cacheCell is a cell for a part of the caches. If wide is set, it also has the part that was asked
// for.
func cacheCell(shares []Share, asked string, wide bool) terminal.Cell {
	if !wide {
		asked = ""
	}
	return terminal.Cell{Text: cacheText(shares, asked)}
}

// partOf formats how much of an amount is free. It returns "" for an amount of zero.
func partOf(free, all int, unit string) string {
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d%s of %d%s", free, unit, all, unit)
}

// hasOfCaches returns the end of a sentence about what a pod has: its parts of the caches.
func hasOfCaches(g *node.Grant) string {
	text := ""
	for i := range g.Containers {
		if c := g.Containers[i].Cache; len(c) > 0 {
			text += "; container " + g.Pod.Containers[i].Name + " has " + SharesText(SharesOf(c))
		}
	}
	if len(g.PoolCache) > 0 {
		text += "; the pool has " + SharesText(SharesOf(g.PoolCache))
	}
	return text
}

// poolCacheRow returns the row for the part of the caches that the containers that share a pool ask
// for, if they ask for any.
func poolCacheRow(asks []explain.Amount) [][]terminal.Cell {
	if len(asks) == 0 {
		return nil
	}
	return [][]terminal.Cell{{{Text: "pool"}, {}, {}, {}, {Text: amountsText(asks)}}}
}

// addCaches adds the free parts of the caches of a NUMA node.
func (n *NodeTotal) addCaches(c *explain.Caches) {
	if c == nil {
		return
	}
	for _, l := range c.L3 {
		if slices.Contains(l.NUMANodes, n.Node) {
			n.Ways, n.FreeWays = max(n.Ways, l.ClassWays), max(n.FreeWays, l.LargestClass)
			n.Bandwidth, n.FreeBandwidth = max(n.Bandwidth, l.Bandwidth), max(n.FreeBandwidth, l.FreeBandwidth)
		}
	}
}

// CachesTable returns a row for each L3 cache.
func CachesTable(c *explain.Caches) *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns(">L3", "CPUS", "NUMA NODE", ">WAYS", ">FREE", ">LARGEST CLASS", "DEFAULT CLASS", "HARDWARE", ">BANDWIDTH", ">FREE", "CLASSES")}
	for _, l := range c.L3 {
		row := []string{strconv.Itoa(l.ID), ShortCPUs(l.CPUs), nodeList(l.NUMANodes)}
		if l.Ways > 0 {
			row = append(row, fmt.Sprintf("%d of %d", l.ClassWays, l.Ways), strconv.Itoa(l.FreeWays), waysOf(l.LargestClass), l.DefaultWays, l.HardwareWays)
		} else {
			row = append(row, "", "", "", "", "")
		}
		if l.Bandwidth > 0 {
			row = append(row, strconv.Itoa(l.Bandwidth)+"%", strconv.Itoa(l.FreeBandwidth)+"%")
		} else {
			row = append(row, "", "")
		}
		t.Row(append(row, ownersText(l.Owners))...)
	}
	return t
}

func waysOf(n int) string {
	if n == 0 {
		return "none"
	}
	return strings.TrimSuffix(request.Words(request.L3, int64(n)), " of L3")
}

// ownersText lists classes in a cache.
func ownersText(owners []explain.CacheOwner) string {
	parts := make([]string, len(owners))
	for i, o := range owners {
		what := o.Container
		if what == "" {
			what = "pool"
		}
		var has []string
		if o.Ways != "" {
			has = append(has, o.Ways)
		}
		if o.Bandwidth > 0 {
			has = append(has, strconv.Itoa(o.Bandwidth)+"%")
		}
		if o.Moving {
			has = append(has, "moving there")
		}
		parts[i] = o.Pod + " " + what + ": " + strings.Join(has, ", ")
	}
	return strings.Join(parts, "; ")
}

// ClassesText describes how many classes are in use.
func ClassesText(c *explain.Caches) string {
	return fmt.Sprintf("%d of %s of the processor are in use, beside the default one; a class has contiguous ways of each cache, so the largest one can have fewer than are free",
		c.UsedClasses, classCount(c.Classes))
}

// fragmentsText describes a cache in which one more class cannot have all ways that are free, and
// which pod to create again so that it can have more. It is empty if the free ways are contiguous.
// The classes of running pods never move (docs/cache.md), because lines of a cache do not move with
// their ways.
func fragmentsText(l *explain.CacheReport, kept cache.Ways) string {
	free := cache.Run(0, l.Ways) &^ kept
	for i := range l.Owners {
		free &^= l.Owners[i].Set
	}
	longest := free.Longest()
	if free.Len() == longest {
		return ""
	}
	text := fmt.Sprintf("L3 %d: %s are free and not contiguous, so one more class can have only %d", l.ID, waysOf(free.Len()), longest)
	best, most := "", longest
	for i := range l.Owners {
		pod, has := l.Owners[i].Pod, cache.Ways(0)
		for k := range l.Owners {
			if l.Owners[k].Pod == pod {
				has |= l.Owners[k].Set
			}
		}
		// At worst, the pod gets its ways again in the longest run.
		if n := (free | has).Longest() - has.Len(); n > most {
			best, most = pod, n
		}
	}
	if best == "" {
		return text + "; no pod frees more if it alone is created again"
	}
	return text + fmt.Sprintf(". Delete pod %s and create it again: its ways are then chosen again, and one more class can have %d or more", best, most)
}

func classCount(n int) string {
	if n == 1 {
		return "1 class"
	}
	return strconv.Itoa(n) + " classes"
}
