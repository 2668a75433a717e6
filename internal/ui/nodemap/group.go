package nodemap

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Grouping is which pods have one colour.
type Grouping string

// The groupings: every pod has its own colour, or those of a namespace or of a workload share one.
const (
	ByPod       Grouping = "pod"
	ByNamespace Grouping = "namespace"
	ByWorkload  Grouping = "workload"
)

// ParseGrouping reads a grouping; "" is ByPod.
func ParseGrouping(text string) (Grouping, error) {
	switch g := Grouping(text); g {
	case "":
		return ByPod, nil
	case ByPod, ByNamespace, ByWorkload:
		return g, nil
	}
	return "", fmt.Errorf("%q is not a grouping; want %s, %s or %s", text, ByPod, ByNamespace, ByWorkload)
}

// random are the characters that Kubernetes makes names of: no vowels, and no digits like them.
const random = "[bcdfghjklmnpqrstvwxz2456789]"

// generated are the ends of names that controllers make: of a Deployment's pods, of those with a
// number from a StatefulSet or an indexed Job, and of all others.
var generated = regexp.MustCompile(`(-` + random + `{8,10}-` + random + `{5}|-[0-9]+(-` + random + `{5})?|-` + random + `{5})$`)

// group is the name of a pod's group.
func (p Pod) group(by Grouping) string {
	switch by {
	case ByNamespace:
		namespace, _, _ := strings.Cut(p.Pod, "/")
		return namespace
	case ByWorkload:
		return p.Workload
	case ByPod:
	}
	return p.UID
}

// ColouredBy is the map with a colour for each group, in the order of their names.
func (m Map) ColouredBy(by Grouping) Map {
	if by == ByPod {
		return m
	}
	groups := map[string]int{}
	for _, p := range m.Pods {
		groups[p.group(by)] = 0
	}
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		groups[name] = i
	}
	m.Pods = slices.Clone(m.Pods)
	for i := range m.Pods {
		if p := &m.Pods[i]; p.Slot != noPod {
			p.Colour = groups[p.group(by)]
		}
	}
	return m
}

// WithoutLegend is the map without the list of pods below it.
func (m Map) WithoutLegend() Map {
	m.folded = true
	return m
}
