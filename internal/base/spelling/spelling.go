// Package spelling compares names to find the name that a typo means. It counts bytes, because
// names are ASCII.
package spelling

import (
	"maps"
	"slices"
	"strings"
)

// Distance returns how many letters must be inserted, deleted or replaced to turn one name into the
// other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal, row[j+1] = row[j+1], min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Nearest returns the known name that a typo most likely means, or "" if none is near enough: at
// most a third of the letters, or one, may differ, or two may be exchanged. It ignores case. If
// several names are equally near, it returns the first.
func Nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		a, b := strings.ToLower(name), strings.ToLower(k)
		d := Distance(a, b)
		if d == 2 && sorted(a) == sorted(b) {
			d = 1
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// InsteadOfResource advises what to do about an unknown extended resource: ask for the known one
// that a typo most likely means or, if there is none, do otherwise.
func InsteadOfResource(name string, known []string, otherwise string) string {
	meant := nearestResource(name, known)
	if meant == "" {
		return otherwise
	}
	return "ask for " + meant + ", if you mean that, or " + otherwise
}

// usual are the extended resources of device plugins that many clusters have.
func usual() []string {
	return []string{
		"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "google.com/tpu",
		"aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "huawei.com/Ascend910", "qat.intel.com/generic",
		"rdma/hca_shared_devices_a", "intel.com/intel_sriov_netdevice", "devices.kubevirt.io/kvm",
	}
}

// InsteadOfUnlisted advises what to do about extended resources if no list of devices is given: ask
// for the usual ones that typos most likely mean or, if there are none, do otherwise.
func InsteadOfUnlisted(names []string, otherwise string) string {
	var meant []string
	for _, name := range names {
		if near := nearestResource(name, usual()); near != "" && !slices.Contains(usual(), name) {
			meant = append(meant, near)
		}
	}
	if len(meant) == 0 {
		return otherwise
	}
	return "ask for " + strings.Join(meant, " and ") + ", if you mean that, or " + otherwise
}

// nearestResource returns the known extended resource that a typo most likely means, or "". It
// compares the parts before and after the slash separately, and one of them must be equal, because
// the resources of one vendor have most letters in common.
func nearestResource(name string, known []string) string {
	vendor, kind, _ := strings.Cut(name, "/")
	kinds, vendors := map[string]string{}, map[string]string{}
	for _, k := range known {
		switch v, of, _ := strings.Cut(k, "/"); {
		case v == vendor:
			kinds[of] = k
		case of == kind:
			vendors[v] = k
		}
	}
	if meant := Nearest(kind, slices.Sorted(maps.Keys(kinds))); meant != "" {
		return kinds[meant]
	}
	return vendors[Nearest(vendor, slices.Sorted(maps.Keys(vendors)))]
}

// sorted returns the bytes of a name in ascending order.
func sorted(name string) string {
	letters := []byte(name)
	slices.Sort(letters)
	return string(letters)
}

// Or joins words for a sentence: "a, b or c".
func Or(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Expected returns the end of an error about an unknown word: "expected a, b or c", and the word
// that was perhaps meant.
func Expected(word string, known []string) string {
	text := "expected " + Or(known)
	if meant := Nearest(word, known); meant != "" {
		text += "; did you mean " + meant + "?"
	}
	return text
}
