// Package behavior knows where each version of the kubelet decides differently from Paddock. It
// fills in a node.Behavior for a version of Kubernetes.
//
// The table has one row per field, with the versions that have the fault or rule. The planner reads
// the fields (core/node), and package quirk describes them. To support another version, set the
// bounds of the rows for it. If a version fixes a fault, one bound changes.
//
// The package does not consider feature gates. If a rule depends on a gate, the policy has the gate
// (node.Policy), and a pod to which no rule applies has another kind.
//
// The source of the bounds is docs/rules/quirks.md, which names the case that was run or the code
// that was read. The package supports only versions for which every field is known.
package behavior

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Version is a release of Kubernetes 1.
type Version struct{ Minor, Patch int }

// Recorded returns the newest patch of each minor whose answers are recorded in
// testdata/kubelets, ascending. An older patch of a minor can differ in a rule.
func Recorded() []Version {
	return []Version{{33, 12}, {34, 9}, {35, 6}, {36, 4}, {37, 2}}
}

// Golden returns the version whose answers are recorded in testdata/golden.
func Golden() Version { return Version{36, 3} }

// Newest returns the newest recorded patch of a minor. It reports false if there is none.
func Newest(minor int) (Version, bool) {
	for _, v := range Recorded() {
		if v.Minor == minor {
			return v, true
		}
	}
	return Version{}, false
}

// Name returns "kubelet 1.36".
func (v Version) Name() string { return fmt.Sprintf("kubelet 1.%d", v.Minor) }

// String returns a version in the form "1.36.3".
func (v Version) String() string { return fmt.Sprintf("1.%d.%d", v.Minor, v.Patch) }

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool {
	return v.Minor < w.Minor || v.Minor == w.Minor && v.Patch < w.Patch
}

// Parse parses a version such as "1.36.3" or "v1.36.3". Without a patch it is the newest recorded
// one of the minor, or 0 if none is recorded.
func Parse(text string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "1" {
		return Version{}, fmt.Errorf("%q is no version of Kubernetes: expected 1.MINOR or 1.MINOR.PATCH", text)
	}
	var numbers [2]int
	for i, part := range parts[1:] {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return Version{}, fmt.Errorf("%q is no version of Kubernetes: %q is not a number", text, part)
		}
		numbers[i] = int(n)
	}
	if newest, known := Newest(numbers[0]); known && len(parts) == 2 {
		return newest, nil
	}
	return Version{numbers[0], numbers[1]}, nil
}

// Names returns the names of the recorded kubelets, such as "kubelet-1.36".
func Names() []string {
	var names []string
	for _, v := range Recorded() {
		names = append(names, fmt.Sprintf("kubelet-1.%d", v.Minor))
	}
	return names
}

// Named returns the version of a kubelet such as "kubelet-1.36", "1.36" or "kubelet-1.36.2", which
// must be a recorded one or an earlier patch of its minor.
func Named(name string) (Version, error) {
	version, err := Parse(strings.TrimPrefix(name, "kubelet-"))
	if err != nil {
		return Version{}, fmt.Errorf("%q: expected %s, or a patch of these, such as kubelet-%s", name, strings.Join(Names(), ", "), Recorded()[0])
	}
	newest, known := Newest(version.Minor)
	names := Names()
	last := len(names) - 1
	switch {
	case !known:
		return Version{}, fmt.Errorf("it is not known how kubelet 1.%d decides: expected %s or %s, whose answers are recorded", version.Minor, strings.Join(names[:last], ", "), names[last])
	case newest.Before(version):
		return Version{}, fmt.Errorf("the newest recorded kubelet of this minor is kubelet-%s", newest)
	}
	return version, nil
}

// OfNode returns the version that answers for a kubelet as its Node has it, such as
// "v1.34.3+k3s1". A patch later than the newest recorded one counts as that. exact is false for
// every patch that is not recorded.
func OfNode(text string) (v Version, exact bool, err error) {
	release, _, _ := strings.Cut(text, "+")
	release, _, _ = strings.Cut(release, "-")
	if v, err = Parse(release); err != nil {
		return Version{}, false, fmt.Errorf("kubelet %q: %w: give --as, such as --as %s", text, err, Names()[0])
	}
	newest, known := Newest(v.Minor)
	switch {
	case !known:
		return Version{}, false, fmt.Errorf("how kubelet %s decides is not known: the recorded ones are %s; --as with one of them shows what that would do", text, strings.Join(Names(), ", "))
	case newest.Before(v):
		return newest, false, nil
	}
	return v, v == newest, nil
}

// row is one field of the behavior and the versions that have it.
type row struct {
	field func(*node.Behavior) *bool
	// since is the first version that has the field, and until the first later version without it.
	// The zero Version means no bound.
	since, until Version
}

func table() []row {
	managers := Version{36, 0} // KEP-5526: with the gate PodLevelResourceManagers, pods have pools.
	return []row{
		{field: func(b *node.Behavior) *bool { return &b.AdmitsAgain }},
		{field: func(b *node.Behavior) *bool { return &b.CoresWithoutOwn }, until: Version{37, 0}},
		{field: func(b *node.Behavior) *bool { return &b.EndedInits }},
		{field: func(b *node.Behavior) *bool { return &b.KeepsReuse }},
		{field: func(b *node.Behavior) *bool { return &b.KeepsRejected }},
		{field: func(b *node.Behavior) *bool { return &b.PinsNothing }, since: managers, until: Version{37, 0}},
		{field: func(b *node.Behavior) *bool { return &b.LateDevices }, since: managers},
		{field: func(b *node.Behavior) *bool { return &b.PanicsAtUnknownPages }},
		{field: func(b *node.Behavior) *bool { return &b.UnusedPages }, since: managers},
		{field: func(b *node.Behavior) *bool { return &b.MemoryNowhere }},
		{field: func(b *node.Behavior) *bool { return &b.SingleOfGroup }},
		{field: func(b *node.Behavior) *bool { return &b.UnreadFractions }},
		{field: func(b *node.Behavior) *bool { return &b.InitMemoryAnywhere }},
		{field: func(b *node.Behavior) *bool { return &b.DistancesByPosition }},
		{field: func(b *node.Behavior) *bool { return &b.GivenUnaligned }},
		{field: func(b *node.Behavior) *bool { return &b.MasksWithoutDevices }, until: managers},
		{field: func(b *node.Behavior) *bool { return &b.UnregisteredInits }},
		{field: func(b *node.Behavior) *bool { return &b.SlowMerges }},
		{field: func(b *node.Behavior) *bool { return &b.CPU.AverageUnits }},
		{field: func(b *node.Behavior) *bool { return &b.CPU.SharedSubsets }},
		{field: func(b *node.Behavior) *bool { return &b.CPU.EndlessRemainder }},
		{field: func(b *node.Behavior) *bool { return &b.CPU.WholeCoresOfUncore }, until: Version{34, 0}},
	}
}

// Of returns how a kubelet of the version decides. The error names the versions that are known.
func Of(v Version) (node.Behavior, error) {
	if _, known := Newest(v.Minor); !known {
		all := Recorded()
		return node.Behavior{}, fmt.Errorf("it is not known how kubelet %s decides: expected 1.%d to 1.%d", v, all[0].Minor, all[len(all)-1].Minor)
	}
	return fill(v), nil
}

func fill(v Version) node.Behavior {
	var b node.Behavior
	for _, r := range table() {
		if !v.Before(r.since) && (r.until == Version{} || v.Before(r.until)) {
			*r.field(&b) = true
		}
	}
	return b
}
