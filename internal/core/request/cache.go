package request

import (
	"fmt"
	"strings"
)

// L3 and Bandwidth are the resources of the caches that a container can ask for: ways of the L3
// caches that its CPUs use, and percent of the memory bandwidth of each.
const (
	L3        Resource = "l3"
	Bandwidth Resource = "memory-bandwidth"
)

// IsCache reports whether r is a resource of the caches.
func IsCache(r Resource) bool { return r == L3 || r == Bandwidth }

// CacheAnnotationPrefix is the beginning of the annotation by which a container asks for a part of
// its caches. The name of the container follows. SharedPoolCacheAnnotation is the annotation for
// the containers that share the pool of a pod.
const (
	CacheAnnotationPrefix     = "cache.paddock-project.github.io/"
	SharedPoolCacheAnnotation = "paddock-project.github.io/shared-pool-cache"
)

// IsCacheAnnotation reports whether an annotation of a pod asks for a part of the caches.
func IsCacheAnnotation(key string) bool {
	return strings.HasPrefix(key, CacheAnnotationPrefix) || key == SharedPoolCacheAnnotation
}

// Cache is what a container, or the containers that share a pool, ask for of each L3 cache that
// their CPUs use. The zero value asks for nothing: they use what no other class has.
type Cache struct {
	// Ways and Percent are the part of the cache that no other container uses: a number of ways, or
	// a percentage of all ways. At most one of them is set.
	Ways, Percent int
	// Bandwidth is the part of the memory bandwidth, in percent.
	Bandwidth int
}

// IsZero reports whether c asks for nothing.
func (c Cache) IsZero() bool { return c == Cache{} }

// String returns the text of an annotation: "l3=4ways,mb=20%", or "" for nothing.
func (c Cache) String() string {
	var parts []string
	switch {
	case c.Ways == 1:
		parts = append(parts, "l3=1way")
	case c.Ways > 0:
		parts = append(parts, fmt.Sprintf("l3=%dways", c.Ways))
	case c.Percent > 0:
		parts = append(parts, fmt.Sprintf("l3=%d%%", c.Percent))
	}
	if c.Bandwidth > 0 {
		parts = append(parts, fmt.Sprintf("mb=%d%%", c.Bandwidth))
	}
	return strings.Join(parts, ",")
}
