package nodemap

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Grouping decides which pods share a colour.
type Grouping string

// The groupings. Every pod has its own colour, or the pods of a namespace or of a workload share
// one.
const (
	ByPod       Grouping = "pod"
	ByNamespace Grouping = "namespace"
	ByWorkload  Grouping = "workload"
)

// ParseGrouping parses a grouping. An empty text is ByPod.
func ParseGrouping(text string) (Grouping, error) {
	switch g := Grouping(text); g {
	case "":
		return ByPod, nil
	case ByPod, ByNamespace, ByWorkload:
		return g, nil
	}
	return "", fmt.Errorf("%q is not a grouping; expected %s, %s or %s", text, ByPod, ByNamespace, ByWorkload)
}

// random matches the characters of names that Kubernetes generates. They exclude vowels and digits
// that look like vowels.
const random = "[bcdfghjklmnpqrstvwxz2456789]"

// generated matches the suffixes that controllers add to names: those of a Deployment's pods,
// numbers from a StatefulSet or an indexed Job, and those of all other controllers.
var generated = regexp.MustCompile(`(-` + random + `{8,10}-` + random + `{5}|-[0-9]+(-` + random + `{5})?|-` + random + `{5})$`)

// group returns the name of a pod's group.
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

// ColouredBy returns the map with one colour for each group, assigned in the order of the group
// names.
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

// WithoutLegend returns the map without the list of pods below it.
func (m Map) WithoutLegend() Map {
	m.folded = true
	return m
}

// NarrowWidth is the width of a picture for a phone, in pixels. It has room for one NUMA node.
// MediumWidth is the width for a tablet. It has room for two.
const (
	NarrowWidth = 358
	MediumWidth = 736
)

// ParseWidth returns the width that a page asks for: narrow, medium, or nothing, for which it
// returns 0.
func ParseWidth(text string) (int, error) {
	switch text {
	case "":
		return 0, nil
	case "narrow":
		return NarrowWidth, nil
	case "medium":
		return MediumWidth, nil
	}
	return 0, fmt.Errorf("%q is unknown: expected narrow, medium, or nothing", text)
}

// OfWidth returns the map as a picture that is at most as wide as width, in pixels. With width 0,
// its width is not limited. NUMA nodes that do not fit beside each other are placed below each
// other.
func (m Map) OfWidth(width int) Map {
	m.width = width
	return m
}
