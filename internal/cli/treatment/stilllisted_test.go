package treatment

import (
	"strings"
	"testing"
)

// TestStillListed checks that pods that are gone are listed in one clause.
func TestStillListed(t *testing.T) {
	for want, gone := range map[string][]string{
		"kubelet still lists CPUs or memory of a pod that is gone (UID a): they count as free":          {"a"},
		"kubelet still lists CPUs or memory of 2 pods that are gone (UIDs a, b): they count as free":    {"a", "b"},
		"kubelet still lists CPUs or memory of 3 pods that are gone (UIDs a, b, c): they count as free": {"a", "b", "c"},
	} {
		notes, err := Found{Path: "kubelet"}.stillListed(gone)
		if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], want) {
			t.Errorf("%v: %q and %v, want %s", gone, notes, err, want)
		}
	}
}
