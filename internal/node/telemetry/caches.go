package telemetry

import (
	"strconv"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/explain"
)

// The gauges of the L3 caches have a series for each cache of the machine. They are there only if
// the node divides its caches.
var (
	cacheWays        = describe("paddock_cache_ways", "Ways of an L3 cache that classes can have, by the id of the cache.", "l3")
	freeCacheWays    = describe("paddock_free_cache_ways", "Ways of an L3 cache that no class has, by the id of the cache.", "l3")
	contiguousWays   = describe("paddock_free_contiguous_cache_ways", "The most ways of an L3 cache that no class has and that are contiguous: as many can one more class have.", "l3")
	bandwidth        = describe("paddock_memory_bandwidth_ratio", "Part of the memory bandwidth of an L3 cache that classes can have together.", "l3")
	freeBandwidth    = describe("paddock_free_memory_bandwidth_ratio", "Part of the memory bandwidth of an L3 cache that no class has.", "l3")
	cacheClasses     = describe("paddock_cache_classes", "Classes of the caches that can exist beside the default class.")
	freeCacheClasses = describe("paddock_free_cache_classes", "Classes of the caches that are not in use.")
)

// collectCaches sets the gauges of the caches.
func collectCaches(s *node.State, set setter) {
	c := explain.CachesOf(s)
	if c == nil {
		return
	}
	set(cacheClasses, float64(c.Classes))
	set(freeCacheClasses, float64(c.Classes-c.UsedClasses))
	for i := range c.L3 {
		l := &c.L3[i]
		id := strconv.Itoa(l.ID)
		if l.Ways > 0 {
			set(cacheWays, float64(l.ClassWays), id)
			set(freeCacheWays, float64(l.FreeWays), id)
			set(contiguousWays, float64(l.LargestClass), id)
		}
		if l.Bandwidth > 0 {
			set(bandwidth, float64(l.Bandwidth)/100, id)
			set(freeBandwidth, float64(l.FreeBandwidth)/100, id)
		}
	}
}
