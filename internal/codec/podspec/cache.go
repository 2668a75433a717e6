package podspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/request"
)

// CacheText is the largest annotation about caches that is read, in bytes.
const CacheText = 128

// ParseCache parses the part of the caches that a container asks for (R-CACHE-2): parts such as
// l3=4ways, l3=30% and mb=20%, each at most once, separated by commas.
func ParseCache(text string) (request.Cache, error) {
	var c request.Cache
	if len(text) > CacheText {
		return c, fmt.Errorf("%.40q… has more than %d bytes", text, CacheText)
	}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(part), "=")
		number, percent := strings.CutSuffix(amount, "%")
		ways := false
		if !percent {
			if number, ways = strings.CutSuffix(amount, "ways"); !ways {
				number, ways = strings.CutSuffix(amount, "way")
			}
		}
		n, err := strconv.Atoi(number)
		most := 100
		if ways {
			most = 32
		}
		switch {
		case err != nil || n < 1 || n > most || number[0] == '+' || !percent && !ways:
		case name == "l3" && c.Ways == 0 && c.Percent == 0 && ways:
			c.Ways = n
			continue
		case name == "l3" && c.Ways == 0 && c.Percent == 0:
			c.Percent = n
			continue
		case name == "mb" && c.Bandwidth == 0 && percent:
			c.Bandwidth = n
			continue
		}
		return request.Cache{}, fmt.Errorf("%.80q: expected l3=4ways or l3=30%%, and mb=20%%, each at most once and separated by commas", text)
	}
	return c, nil
}

// Caches checks the annotations of a pod about caches. It returns the first error: a value that
// cannot be read, or a container that the pod does not have.
func Caches(pod *v1.Pod) error {
	var out request.Pod
	for i := range pod.Spec.InitContainers {
		out.Containers = append(out.Containers, request.Container{Name: pod.Spec.InitContainers[i].Name})
	}
	for i := range pod.Spec.Containers {
		out.Containers = append(out.Containers, request.Container{Name: pod.Spec.Containers[i].Name})
	}
	return addCaches(&out, pod)
}

// addCaches adds the parts of the caches that the annotations of a pod ask for. The error is the
// first one in the order of the names. Annotations without an error are added anyway.
func addCaches(out *request.Pod, pod *v1.Pod) error {
	var keys []string
	for key := range pod.Annotations {
		if key == request.SharedPoolCacheAnnotation || strings.HasPrefix(key, request.CacheAnnotationPrefix) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 { // Most pods ask for nothing.
		return nil
	}
	slices.Sort(keys)
	containers := make(map[string]*request.Container, len(out.Containers)) // A pod may have thousands, and as many annotations.
	for i := range out.Containers {
		containers[out.Containers[i].Name] = &out.Containers[i]
	}
	var first error
	for _, key := range keys {
		into, name := &out.PoolCache, ""
		if key != request.SharedPoolCacheAnnotation {
			into, name = nil, strings.TrimPrefix(key, request.CacheAnnotationPrefix)
			if c := containers[name]; c != nil {
				into = &c.Cache
			}
		}
		c, err := ParseCache(pod.Annotations[key])
		switch {
		case into == nil:
			err = fmt.Errorf("annotation %.120s: the pod has no container %.80q", key, name)
		case err != nil:
			err = fmt.Errorf("annotation %s is %w", key, err)
		default:
			*into = c
		}
		if first == nil {
			first = err
		}
	}
	return first
}
